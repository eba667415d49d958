"""Into a running task: a process beside its own, or one of its ports, by the platform's socket.

Frames are binary; the first byte is a channel (docs/agent-protocol.md). Writing blocks while the
other side does not read, so nothing piles up on the way. Any thread may write; one reads. The
sockets live in an event loop of their own: a socket of threads cannot read while a write waits.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode

from skep_client.client import Skep
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import RETRY_STATUSES
from skep_client.live import is_loopback

T = TypeVar("T")
INPUT, OUTPUT, ERROR, CONTROL = range(4)
PIECE_BYTES = 64 * 1024
OPEN_S = 15.0
STATUSES = {"not_authenticated": 401, "forbidden": 403, "port_not_allowed": 403, "not_found": 404}


class Stream:
    """Use it in a `with` block. `output` ends with the stream; then `exit_code` is set, where it
    was a process."""

    def __init__(self, socket: ClientConnection, *, of_process: bool) -> None:
        self._socket = socket
        self._of_process = of_process
        self.exit_code: int | None = None

    def write(self, data: bytes) -> None:
        """Nothing happens where the other side has ended already: reading raises why."""
        with suppress(ConnectionClosed):
            for start in range(0, len(data), PIECE_BYTES):
                _wait(self._socket.send(bytes([INPUT]) + data[start : start + PIECE_BYTES]))

    def end_input(self) -> None:
        self._control({"eof": True})

    def resize(self, rows: int, columns: int) -> None:
        self._control({"resize": [rows, columns]})

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield (OUTPUT or ERROR, bytes). Raises SkepError for a refusal, also for one that the
        server sends only now, such as that the task does not run."""
        try:
            while True:
                frame = _wait(self._socket.recv())
                if not isinstance(frame, bytes) or not frame:
                    continue
                if frame[0] == CONTROL:
                    self._control_frame(json.loads(frame[1:]))
                else:
                    yield frame[0], frame[1:]
        except ConnectionClosed as closed:
            ended = self.exit_code is not None if self._of_process else _is_normal(closed)
            if not ended:
                raise SkepError(0, "stream_lost", "The connection to the task is lost.") from None

    def close(self) -> None:
        _wait(self._socket.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _control_frame(self, message: dict[str, Any]) -> None:
        if error := message.get("error"):
            code = str(error["code"])
            raise SkepError(STATUSES.get(code, 409), code, str(error["message"]))
        if "exit" in message:
            self.exit_code = int(message["exit"])

    def _control(self, message: dict[str, Any]) -> None:
        with suppress(ConnectionClosed):
            _wait(self._socket.send(bytes([CONTROL]) + json.dumps(message).encode()))


def open_exec(
    client: Skep,
    attempt_id: str,
    argv: Sequence[str] = (),
    *,
    tty: bool = False,
    rows: int = 24,
    columns: int = 80,
) -> Stream:
    """A process in the container of a task attempt; without `argv`, a shell."""
    socket = _wait(_connected(client, f"/ws/attempts/{attempt_id}/exec"))
    asked = {"argv": list(argv), "tty": tty, "rows": rows, "cols": columns}
    with suppress(ConnectionClosed):  # it was refused; reading raises why
        _wait(socket.send(json.dumps(asked)))
    return Stream(socket, of_process=True)


def open_port(client: Skep, attempt_id: str, port: int) -> Stream:
    """Open one connection to a port of a task attempt."""
    path = f"/ws/attempts/{attempt_id}/forward?port={port}"
    return Stream(_wait(_connected(client, path)), of_process=False)


def _is_normal(closed: ConnectionClosed) -> bool:
    return closed.rcvd is not None and closed.rcvd.code == CloseCode.NORMAL_CLOSURE


def _wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="skep-streams", daemon=True).start()
    return loop


async def _connected(client: Skep, path: str) -> ClientConnection:
    """Open a socket, and try again for seconds while the server restarts: nothing was asked for
    before it is open. Raises SkepError."""
    delays = iter(client.retry_delays_s)
    while True:
        try:
            return await _opened(client, path)
        except (OSError, InvalidHandshake) as error:
            delay = next(delays, None) if _passes(error) else None
            if delay is None:
                raise ServerUnreachable(f"No stream from {client.server}: {error}") from None
        await asyncio.sleep(delay)


def _passes(error: OSError | InvalidHandshake) -> bool:
    """Return whether another try may succeed: that took long already where there was no answer."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in RETRY_STATUSES
    return not isinstance(error, TimeoutError | ssl.SSLError)


async def _opened(client: Skep, path: str) -> ClientConnection:
    server = urlsplit(client.server)
    scheme = "wss" if server.scheme == "https" else "ws"
    return await connect(
        f"{scheme}://{server.netloc}{server.path}{path}",
        additional_headers={"Authorization": f"Bearer {client.token}"},
        compression=None,
        open_timeout=OPEN_S,
        # One that does not read for long is not lost: there is flow control.
        ping_timeout=None,
        max_queue=4,
        write_limit=PIECE_BYTES,
        proxy=None if is_loopback(client.server) else True,
    )
