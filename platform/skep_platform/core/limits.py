"""Bounds a request's body before Django reads it: Django spools the whole body to disk first."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from skep_platform.core.errors import SkepError

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
            return await refuse(send, _too_large(self.most))
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
                await refuse(send, _too_large(self.most))

    def _told(self, scope: Scope) -> int:
        given = dict(scope.get("headers", ())).get(b"content-length", b"0")
        return int(given) if given.isdigit() else 0


async def refuse(send: Send, error: SkepError) -> None:
    """Answer with a typed error before the body was read; it never will be."""
    body = json.dumps(error.as_dict()).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _too_large(most: int) -> SkepError:
    message = f"A request has at most {most} bytes."
    error = SkepError(message, code="request_too_large", most_bytes=most)
    error.status = 413
    return error


class _TooLarge(Exception):
    pass
