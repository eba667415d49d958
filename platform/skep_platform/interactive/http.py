"""HTTP requests on their way to an app and back: bodies are streamed both ways, and who does not
read makes the other side wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from typing import Any

import httpcore

from skep_platform.core.errors import SkepError, Unauthorized, Unavailable
from skep_platform.gateway.socket import Receive, Scope, Send, first_to_end
from skep_platform.interactive import answers
from skep_platform.interactive import headers as h
from skep_platform.interactive.tunnel import Target, TunnelBackend

MAX_BODY = 4 * 1024**3  # bytes of a request
CONNECTIONS = 8  # of an app, from this process
KEPT_S = 20.0  # an idle connection
ANSWER_S = 120.0  # until an app begins to answer, or sends more
PLACE_S = 30.0  # until a connection is free
POOLS = 500
POOL_S = 300.0


class HttpPools:
    """The connections to apps, kept for the next request."""

    def __init__(self) -> None:
        self._pools: dict[Target, httpcore.AsyncConnectionPool] = {}
        self._asked: dict[Target, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, target: Target) -> httpcore.AsyncConnectionPool:
        now = time.monotonic()
        if target not in self._pools:
            self._forget(now)
            self._pools[target] = httpcore.AsyncConnectionPool(
                max_connections=CONNECTIONS,
                max_keepalive_connections=CONNECTIONS,
                keepalive_expiry=KEPT_S,
                network_backend=TunnelBackend(target),
            )
        self._asked[target] = now
        return self._pools[target]

    async def close(self) -> None:
        for pool in self._pools.values():
            with suppress(Exception):
                await pool.aclose()
        self._pools.clear()

    def _forget(self, now: float) -> None:
        """Close what was not used for long, and of too many those that were used longest ago: no
        tenant shuts the apps of others out by opening many. A pool with requests in it stays."""
        idle = [t for t, pool in self._pools.items() if all(c.is_idle() for c in pool.connections)]
        too_many = len(self._pools) + 1 - POOLS
        for place, target in enumerate(sorted(idle, key=self._asked.__getitem__)):
            if place < too_many or now - self._asked[target] > POOL_S:
                pool = self._pools.pop(target)
                del self._asked[target]
                task = asyncio.create_task(pool.aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        if len(self._pools) >= POOLS:
            message = "Too many apps are open at this server; try again."
            raise Unavailable(message, code="too_many_apps_open")


async def pass_request(
    scope: Scope,
    receive: Receive,
    send: Send,
    pool: httpcore.AsyncConnectionPool,
    headers: list[tuple[bytes, bytes]],
    hold: Coroutine[Any, Any, None],
    own_cookies: Iterable[str],
) -> None:
    """Pass a request on and its answer back. `hold` ends when the login does, and the answer with
    it."""
    exchange = _Exchange(scope, receive, send, own_cookies)
    try:
        await first_to_end(exchange.run(pool, headers), exchange.gone(), hold)
    except _TooLarge:
        await exchange.fail(_too_large())
    except (httpcore.ConnectError, httpcore.ReadError, httpcore.WriteError) as error:
        message = f"The app does not answer: {error}" if str(error) else "The app does not answer."
        await exchange.fail(_bad_gateway("app_unreachable", message))
    except httpcore.TimeoutException:
        await exchange.fail(_bad_gateway("app_slow", "The app did not answer in time.", 504))
    except httpcore.ProtocolError:
        await exchange.fail(_bad_gateway("app_answer_invalid", "The app's answer is no HTTP."))
    await exchange.end()


class _TooLarge(Exception):
    pass


class _Exchange:
    def __init__(
        self, scope: Scope, receive: Receive, send: Send, own_cookies: Iterable[str]
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._own_cookies = own_cookies
        self._read = asyncio.Event()  # the request's body, to its end
        self._started = False

    async def run(
        self, pool: httpcore.AsyncConnectionPool, headers: list[tuple[bytes, bytes]]
    ) -> None:
        path = self._scope.get("raw_path") or self._scope["path"].encode()
        query = self._scope["query_string"]
        given = self._scope["headers"]
        length = h.get(given, b"content-length")
        if length.isdigit() and int(length) > MAX_BODY:
            raise _TooLarge
        has_body = bool(length) or any(k.lower() == b"transfer-encoding" for k, _ in given)
        if has_body and not length:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        if not has_body:
            self._read.set()
        timeouts = {"read": ANSWER_S, "write": ANSWER_S, "pool": PLACE_S, "connect": PLACE_S}
        request = httpcore.Request(
            self._scope["method"],
            httpcore.URL(
                scheme=b"http",
                host=b"app",
                port=80,
                target=path + (b"?" + query if query else b""),
            ),
            headers=headers,
            content=self._body() if has_body else None,
            extensions={"timeout": timeouts},
        )
        response = await pool.handle_async_request(request)
        try:
            await self._answer(response)
        finally:
            await response.aclose()

    async def _answer(self, response: httpcore.Response) -> None:
        self._started = True
        passed = h.to_browser(response.headers, self._own_cookies)
        start: dict[str, Any] = {"type": "http.response.start", "status": response.status}
        await self._send({**start, "headers": passed})
        async for piece in response.aiter_stream():
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _body(self) -> AsyncIterator[bytes]:
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise httpcore.WriteError("the browser left")
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                raise _TooLarge
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._read.set()
                return

    async def gone(self) -> None:
        """Wait until the browser has left."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def fail(self, problem: SkepError) -> None:
        if not self._started:
            self._started = True
            await answers.error(self._send, problem)

    async def end(self) -> None:
        """What was begun and is not complete stays so: the server then closes the connection, by
        which the browser notices."""
        message = "The login at the app ended; open its page again."
        await self.fail(Unauthorized(message, code="login_ended"))


def _bad_gateway(code: str, message: str, status: int = 502) -> SkepError:
    error = SkepError(message, code=code)
    error.status = status
    return error


def _too_large() -> SkepError:
    error = SkepError(f"A request has at most {MAX_BODY} bytes.", code="request_too_large")
    error.status = 413
    return error
