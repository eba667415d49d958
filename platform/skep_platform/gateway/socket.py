"""The server's end of one WebSocket, on plain ASGI.

Not a Channels consumer: that one handles a frame and a doorbell strictly one after the other, and
hops into a thread for each of them. A reader that does not call `next` stops reading from the
network: uvicorn then pauses the transport, so a peer that sends too fast waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

CLOSE_NORMAL = 1000
CLOSE_INTERNAL = 1011
CLOSE_RESTART = 1012
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
        """ "" where it is missing, or given more than once."""
        wanted = name.lower().encode()
        found = [value for key, value in self.scope["headers"] if key.lower() == wanted]
        return found[0].decode("latin-1") if len(found) == 1 else ""

    def bearer(self) -> str:
        """The token of the Authorization header, or ""."""
        scheme, _, token = self.header("authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    async def accept(self, subprotocol: str | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def next(self) -> str | bytes:
        """The next frame. Raises Closed."""
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                raise Closed(event.get("code") or 1006)
            if event["type"] == "websocket.receive":
                text = event.get("text")
                return text if text is not None else event["bytes"]

    async def send(self, frame: str | bytes) -> None:
        """Waits while the peer does not read. Raises Closed."""
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
