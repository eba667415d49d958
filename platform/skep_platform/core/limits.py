"""Bounds a request's body before Django reads it: Django spools the whole body to disk first."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[Any]]


class BodyLimit:
    """ASGI: answers 413 to a body of more than `most` bytes, told or counted."""

    def __init__(self, app: App, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._told(scope) > self.most:
            return await self._refuse(send)
        read = started = 0

        async def counted() -> Mapping[str, Any]:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise _TooLarge
            return message

        async def watched(message: Mapping[str, Any]) -> None:
            nonlocal started
            started = 1
            await send(message)

        try:
            return await self.app(scope, counted, watched)
        except _TooLarge:
            if not started:
                await self._refuse(send)

    def _told(self, scope: Scope) -> int:
        given = dict(scope.get("headers", ())).get(b"content-length", b"0")
        return int(given) if given.isdigit() else 0

    async def _refuse(self, send: Send) -> None:
        message = f"A request has at most {self.most} bytes."
        details = {"most_bytes": self.most}
        error = {"code": "request_too_large", "message": message, "details": details}
        body = json.dumps(error).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _TooLarge(Exception):
    pass
