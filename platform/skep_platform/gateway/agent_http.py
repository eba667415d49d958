"""The few HTTP routes of the gateway, each with a bound on how many run at once."""

from __future__ import annotations

import asyncio
from typing import Any

from skep_platform.core.errors import NotFound, SkepError, Unavailable
from skep_platform.core.limits import App, Receive, Scope, Send, refuse

MAX_BODY = 64 * 1024  # bytes
PROBES = ("/healthz", "/readyz")
JOIN = "/api/v1/nodes/join"
FILES = "/api/v1/agent/files/"
# Joins and the beginning of downloads ask the database: fewer than its pool has connections.
JOINS_AT_ONCE = 2
DOWNLOADS_AT_ONCE = 32
MAX_WAITING = 2000  # requests of each kind


class AgentHttp:
    """ASGI: probes, joining and working files go to `app`; nothing else is here."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._joins = Turnstile(app, JOINS_AT_ONCE)
        self._downloads = Turnstile(app, DOWNLOADS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD") and path in PROBES:
            return await self._app(scope, receive, send)
        if method == "POST" and path == JOIN:
            return await self._joins(scope, receive, send)
        if method == "GET" and path.startswith(FILES):
            return await self._downloads(scope, receive, send)
        message = "This is the gateway of the agents; the API and the pages are at the web address."
        return await refuse(send, NotFound(message, code="unknown_route"))


class Turnstile:
    """ASGI: so many requests at once, others wait their turn, and too many are told to come
    again."""

    def __init__(self, app: App, at_once: int, waiting: int = MAX_WAITING) -> None:
        self._app = app
        self._turns = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._here = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if self._here >= self._most:
            return await refuse(send, _busy())
        self._here += 1
        try:
            async with self._turns:
                return await self._app(scope, receive, send)
        finally:
            self._here -= 1


def _busy() -> SkepError:
    return Unavailable("Too many requests wait; try again in 5 s.", code="busy", retry_after_s=5)
