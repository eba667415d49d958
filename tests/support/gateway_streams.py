"""Both ends of a stream in tests: a person's, and the node's."""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType
from typing import Any

from tests.support.gateway_live import login
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from skep_agent.frames import Channel
from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import User

WAIT_S = 60


class End:
    """One socket that carries frames. Its receive queue is short, so that an end that does not read
    makes the network wait."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._connection = connect(
            f"ws://127.0.0.1:{port}{path}",
            additional_headers=headers,
            proxy=None,
            compression=None,
            max_size=None,
            max_queue=2,
            open_timeout=WAIT_S,
            ping_interval=None,
        )
        self.socket: ClientConnection

    def __enter__(self) -> Any:
        self.socket = self._connection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ConnectionClosed):
            self._connection.__exit__(kind, error, trace)

    def send(self, channel: Channel, data: bytes | dict[str, Any]) -> None:
        payload = json.dumps(data).encode() if isinstance(data, dict) else data
        self.write(bytes([channel]) + payload)

    def write(self, frame: bytes | str) -> None:
        """Sends a frame as it is. A server that has refused this end may have closed the connection
        before: `receive` and `end` report that, together with what the server said."""
        with suppress(ConnectionClosed):
            self.socket.send(frame)

    def receive(self, seconds: float = WAIT_S) -> tuple[Channel, bytes]:
        """Raises TimeoutError, and ConnectionClosed at the end."""
        frame = self.socket.recv(timeout=seconds)
        assert isinstance(frame, bytes), frame
        return Channel(frame[0]), frame[1:]

    def control(self, seconds: float = WAIT_S) -> Any:
        channel, data = self.receive(seconds)
        assert channel == Channel.CONTROL, (channel, data)
        return json.loads(data)

    def read(self, channel: Channel, size: int) -> bytes:
        """Bytes of this channel, which alone is used, until there are so many."""
        data = bytearray()
        while len(data) < size:
            got, more = self.receive()
            assert got == channel, (got, more)
            data += more
        return bytes(data)

    def end(self, seconds: float = WAIT_S) -> tuple[str, int]:
        """(code of the last error, close code) of a stream that the server ends."""
        code = ""
        try:
            while True:
                channel, data = self.receive(seconds)
                if channel == Channel.CONTROL:
                    code = json.loads(data).get("error", {}).get("code", code)
        except ConnectionClosed as closed:
            return code, closed.rcvd.code if closed.rcvd else 1006


class Person(End):
    """Reaches into an attempt: a shell where no port is named. By a token, or by the cookie of a
    browser (`session`), whose page is of `origin`."""

    def __init__(
        self,
        port: int,
        attempt: object,
        user: User | None = None,
        *,
        forward: object = None,
        token: str = "",
        session: bool = False,
        origin: str | None = None,
    ) -> None:
        headers: dict[str, str] = {}
        if session and user is not None:
            headers["Cookie"] = f"skep_session={login(user).session_key}"
            origin = f"http://127.0.0.1:{port}" if origin is None else origin
        elif token or user is not None:
            headers["Authorization"] = f"Bearer {token or token_of(user)}"
        if origin:
            headers["Origin"] = origin
        path = "exec" if forward is None else f"forward?port={forward}"
        super().__init__(port, f"/ws/attempts/{attempt}/{path}", headers)

    def ask(self, *argv: str, **more: Any) -> None:
        self.write(json.dumps({"argv": list(argv), **more}))


class Node(End):
    """The agent's side of one stream."""

    def __init__(self, port: int, stream_id: str, credential: str) -> None:
        headers = {"Authorization": f"Bearer {credential}"}
        super().__init__(port, f"/ws/agent/streams/{stream_id}", headers)


def token_of(user: User | None) -> str:
    assert user is not None
    return accounts.create_token(user)[1]
