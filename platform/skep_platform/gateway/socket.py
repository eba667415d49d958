"""The server's end of one WebSocket, on plain ASGI.

Not a Channels consumer: that one handles a frame and a notification strictly one after the other,
and hops into a thread for each of them. A reader that does not call `next` stops reading from the
network: uvicorn then pauses the transport, so a peer that sends too fast waits.

A process keeps a limited number of sockets: of callers not yet known, of an address, of a user.
They are counted in each process. What the limits protect is memory and the threads that look
credentials up: an open socket holds no database connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

CLOSE_NORMAL = 1000
CLOSE_INTERNAL = 1011
CLOSE_RESTART = 1012
CLOSE_MALFORMED = 4400
CLOSE_UNAUTHORIZED = 4401
CLOSE_TOO_MANY = 4429
CANCEL_AGAIN_S = 2.0


class Closed(Exception):
    """The peer is gone; `code` as it closed, 1006 where it just vanished."""

    def __init__(self, code: int = 1006) -> None:
        super().__init__(code)
        self.code = code


class Refusal(Exception):
    """The connection ends because of what the peer did: a stable code, a sentence, a close code."""

    def __init__(self, code: str, message: str, close: int, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.close = close
        self.details = details


class Socket:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send

    def header(self, name: str) -> str:
        """Return the header, or "" where it is missing or given more than once."""
        wanted = name.lower().encode()
        found = [value for key, value in self.scope["headers"] if key.lower() == wanted]
        return found[0].decode("latin-1") if len(found) == 1 else ""

    def bearer(self) -> str:
        """Return the token of the Authorization header, or ""."""
        scheme, _, token = self.header("authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    async def accept(self, subprotocol: str | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def next(self) -> str | bytes:
        """Return the next frame. Raises Closed."""
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                raise Closed(event.get("code") or 1006)
            if event["type"] == "websocket.receive":
                text = event.get("text")
                return text if text is not None else event["bytes"]

    async def send(self, frame: str | bytes) -> None:
        """Send a frame; wait while the peer does not read. Raises Closed."""
        kind = "text" if isinstance(frame, str) else "bytes"
        try:
            await self._send({"type": "websocket.send", kind: frame})
        except OSError as error:  # the ASGI server's ClientDisconnected is one
            raise Closed from error

    async def close(self, code: int, reason: str = "") -> None:
        with suppress(OSError, RuntimeError):  # it was closed already
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


async def first_to_end(*work: Awaitable[None]) -> None:
    """Run all of them until one ends, end the others, and raise what that one raised."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # `asyncio.wait_for`, which the client of the broker uses, may swallow being cancelled
        # (fixed in Python 3.12): asked once, such a task would go on for ever.
        while running := [task for task in tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=CANCEL_AGAIN_S)
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()


AUTHENTICATED_S = 10.0  # in which a credential is checked


class ConnectionLimits:
    """`unauthenticated`: sockets at once whose credential is being looked up, of one address and of
    all. Further ones of the same address, or user, are refused until others end."""

    def __init__(
        self, *, unauthenticated: int, all_unauthenticated: int, of_address: int, of_user: int
    ) -> None:
        self.unauthenticated = unauthenticated
        self.all_unauthenticated = all_unauthenticated
        self.of_address = of_address
        self.of_user = of_user
        self._authenticating: Counter[Hashable] = Counter()
        self._connected: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def authenticating(self, address: str) -> AsyncIterator[None]:
        """Count a socket while its credential is checked. Raises Refusal."""
        if self._authenticating.total() >= self.all_unauthenticated:
            message = f"{self.all_unauthenticated} connections are being authenticated; try again."
            raise Refusal("too_many_connections", message, CLOSE_TOO_MANY)
        if self._authenticating[address] >= self.unauthenticated:
            message = (
                f"At most {self.unauthenticated} connections of an address at once that are not "
            )
            raise Refusal("too_many_connections", message + "logged in yet.", CLOSE_TOO_MANY)
        with _counted(self._authenticating, address):
            try:
                async with asyncio.timeout(AUTHENTICATED_S):
                    yield
            except TimeoutError:
                message = f"The credential was not checked within {AUTHENTICATED_S:g} s; try again."
                raise Refusal("not_authenticated_in_time", message, CLOSE_TOO_MANY) from None

    @contextmanager
    def connected(self, address: str, user_id: object) -> Iterator[None]:
        """Count a socket of a known user while it is connected. Raises Refusal."""
        limits = (("address", address, self.of_address), ("user", user_id, self.of_user))
        for whose, name, most in limits:
            if self._connected[whose, name] >= most:
                message = f"At most {most} connections of one {whose} at once."
                raise Refusal("too_many_connections", message, CLOSE_TOO_MANY)
        with (
            _counted(self._connected, ("address", address)),
            _counted(self._connected, ("user", user_id)),
        ):
            yield


@contextmanager
def _counted(counter: Counter[Hashable], key: Hashable) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


# Pages and shells share an address behind a proxy that SKEP_TRUSTED_PROXIES does not list.
people_limits = ConnectionLimits(
    unauthenticated=64, all_unauthenticated=256, of_address=2048, of_user=64
)
# Agents come back all at once, and many of them from one address.
agent_limits = ConnectionLimits(
    unauthenticated=5000, all_unauthenticated=5000, of_address=100_000, of_user=2
)
