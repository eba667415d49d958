"""Into a running task: a process beside its own, or one of its ports, by the platform's socket.

Frames are binary; the first byte is a channel (docs/agent-protocol.md). Writing blocks while the
other side does not read, so nothing piles up on the way. Any thread may write; one reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from skep_client.client import Skep, is_loopback
from skep_client.errors import ServerUnreachable, SkepError

INPUT, OUTPUT, ERROR, CONTROL = range(4)
PIECE_BYTES = 64 * 1024
OPEN_S = 15.0
STATUSES = {"not_authenticated": 401, "forbidden": 403, "port_not_allowed": 403, "not_found": 404}


class Stream:
    """Use it in a `with` block. `output` ends with the stream; then `exit_code` is set, where it
    was a process."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    def write(self, data: bytes) -> None:
        """Nothing happens where the other side has ended already: reading tells why."""
        with suppress(ConnectionClosed):
            for start in range(0, len(data), PIECE_BYTES):
                self._socket.send(bytes([INPUT]) + data[start : start + PIECE_BYTES])

    def end_input(self) -> None:
        self._control({"eof": True})

    def resize(self, rows: int, columns: int) -> None:
        self._control({"resize": [rows, columns]})

    def output(self) -> Iterator[tuple[int, bytes]]:
        """(OUTPUT or ERROR, bytes). Raises SkepError for a refusal, also for one that the server
        tells only now: that the task does not run, say."""
        told = False
        try:
            for frame in self._socket:
                if not isinstance(frame, bytes) or not frame:
                    continue
                if frame[0] == CONTROL:
                    told = self._end(json.loads(frame[1:])) or told
                else:
                    yield frame[0], frame[1:]
        except ConnectionClosed:
            if not told:
                raise SkepError(0, "stream_lost", "The connection to the task is lost.") from None

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, message: dict[str, Any]) -> bool:
        """Whether this was the last word."""
        if error := message.get("error"):
            code = str(error["code"])
            raise SkepError(STATUSES.get(code, 409), code, str(error["message"]))
        if "exit" in message:
            self.exit_code = int(message["exit"])
            return True
        return False

    def _control(self, message: dict[str, Any]) -> None:
        with suppress(ConnectionClosed):
            self._socket.send(bytes([CONTROL]) + json.dumps(message).encode())


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
    socket = _connected(client, f"/ws/attempts/{attempt_id}/exec")
    asked = {"argv": list(argv), "tty": tty, "rows": rows, "cols": columns}
    with suppress(ConnectionClosed):  # it was refused; reading tells why
        socket.send(json.dumps(asked))
    return Stream(socket)


def open_port(client: Skep, attempt_id: str, port: int) -> Stream:
    """One connection to a port of a task attempt."""
    return Stream(_connected(client, f"/ws/attempts/{attempt_id}/forward?port={port}"))


def _connected(client: Skep, path: str) -> ClientConnection:
    server = urlsplit(client.server)
    scheme = "wss" if server.scheme == "https" else "ws"
    try:
        return connect(
            f"{scheme}://{server.netloc}{server.path}{path}",
            additional_headers={"Authorization": f"Bearer {client.token}"},
            compression=None,
            open_timeout=OPEN_S,
            # One that does not read for long is not lost: there is flow control.
            ping_timeout=None,
            max_queue=4,
            proxy=None if is_loopback(client.server) else True,
        )
    except (OSError, InvalidHandshake) as error:
        raise ServerUnreachable(f"No stream from {client.server}: {error}") from None
