"""The few HTTP routes of the gateway. Only a few requests at a time work on the database, so that
heartbeats always find a connection to it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from skep_platform.core import middleware
from skep_platform.core.errors import NotFound, SkepError, Unavailable
from skep_platform.core.serving import App, Receive, Scope, Send, refuse
from skep_platform.gateway import concurrency

MAX_BODY = 16 * 1024  # bytes
BODY_S = 10.0
READY_S = 1.0  # how long an answer of /readyz holds
PROBES = ("/healthz", "/readyz")
JOIN = "/api/v1/nodes/join"
FILES = "/api/v1/agent/files/"
SCRATCH = "/api/v1/agent/scratch"
# With the threads of the sockets (see `threads`) fewer than the pool has connections.
AT_ONCE = 4
MAX_HERE = 1000  # requests that wait, work, or are being sent


class AgentHttp:
    """ASGI: probes, joining and working files go to `app`; nothing else is here."""

    def __init__(self, app: App) -> None:
        self._turnstile = Turnstile(app, AT_ONCE, MAX_HERE)
        self._looking: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._looking = WeakKeyDictionary()
        self._ready = (503, b"")
        self._looked_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD") and path in PROBES:
            return await self._probe(path, send)
        join = method == "POST" and path == JOIN
        if join or (method == "GET" and (path.startswith(FILES) or path == SCRATCH)):
            return await self._turnstile(scope, receive, send)
        message = "This is the gateway of the agents; the API and the pages are at the web address."
        return await refuse(send, NotFound(message, code="unknown_route"))

    async def _probe(self, path: str, send: Send) -> None:
        """Answer a probe. Probes need no credential, so database and Valkey are asked once a second
        at most."""
        if path == "/healthz":
            return await _answer(send, 200, b"ok\n", b"text/plain")
        loop = asyncio.get_running_loop()
        async with self._looking.setdefault(loop, asyncio.Lock()):
            if time.monotonic() - self._looked_at >= READY_S:
                found = await concurrency.credentials.run(middleware.ready)
                self._ready = found.status_code, found.content
                self._looked_at = time.monotonic()
        return await _answer(send, *self._ready, b"application/json")


class Turnstile:
    """ASGI: lets `at_once` requests in, each from when its body is here until its answer begins. A
    peer that sends or takes its bytes slowly delays no other."""

    def __init__(self, app: App, at_once: int, most: int) -> None:
        self._app = app
        self._at_once = at_once
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._turns = WeakKeyDictionary()
        self._most = most
        self._here = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if self._here >= self._most:
            return await refuse(send, _busy())
        self._here += 1
        try:
            async with asyncio.timeout(BODY_S):
                body = await _body(receive)
        except TimeoutError:
            return await refuse(send, _too_slow())
        else:
            return await self._let_in(scope, _Replay(body, receive), send)
        finally:
            self._here -= 1

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> Any:
        loop = asyncio.get_running_loop()
        turns = self._turns.setdefault(loop, asyncio.Semaphore(self._at_once))
        await turns.acquire()
        inside = True

        def leave() -> None:
            nonlocal inside
            if inside:
                inside = False
                turns.release()

        async def watched(message: Mapping[str, Any]) -> None:
            leave()
            await send(message)

        try:
            return await self._app(scope, receive, watched)
        finally:
            leave()


class _Replay:
    """Receives a body that was read already, and then what comes after it: the disconnect."""

    def __init__(self, body: list[Mapping[str, Any]], receive: Receive) -> None:
        self._body = body
        self._receive = receive

    async def __call__(self) -> Mapping[str, Any]:
        return self._body.pop(0) if self._body else await self._receive()


async def _body(receive: Receive) -> list[Mapping[str, Any]]:
    """Read as much as `BodyLimit` lets through and a little more; `BodyLimit` refuses it."""
    messages, size = [await receive()], 0
    while messages[-1].get("more_body") and size <= MAX_BODY:
        size += len(messages[-1].get("body", b""))
        messages.append(await receive())
    return messages


async def _answer(send: Send, status: int, body: bytes, kind: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _busy() -> SkepError:
    return Unavailable("Too many requests wait; try again in 5 s.", code="busy", retry_after_s=5)


def _too_slow() -> SkepError:
    error = SkepError(f"The request was not complete within {BODY_S:g} s.", code="request_slow")
    error.status = 408
    return error
