"""How our servers answer over ASGI: Django's handler, time limits on connections, bounds of bodies,
and the addresses of clients behind reverse proxies."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections, connection, reset_queries
from django.urls import ResolverMatch, get_resolver, set_script_prefix
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skep_agent import tracing
from skep_platform.core import gc_control, metrics, processes
from skep_platform.core.errors import SkepError

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[Any]]


MAX_IDLE_THREADS = 64


class Utf8Request(ASGIRequest):
    """A request whose texts are UTF-8, whatever `charset` it names. Django decodes forms with any
    codec of Python, of which some are slow, and fails while it makes a request whose Content-Type
    has a parameter in a character set of its own (RFC 2231)."""

    def _set_content_type_params(self, meta: Mapping[str, str]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}


class Handler(ASGIHandler):
    """Django behind ASGI, with all of its middleware called in the thread of the request.

    Django's own handler runs middleware in an event loop wherever that can be. Ours cannot: each
    request then opened a loop of its own inside its thread, and changed threads twice for every
    layer. Views that are coroutines may still be added; Django runs them as it does behind WSGI.

    The thread gives its database connection back before the answer is sent, and not, as Django has
    it, after the last byte: a client that does not read would hold one as long as it likes. It also
    closes an answer that is whole, for which Django changes threads once more.
    """

    request_class = Utf8Request

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Its thread is one that an earlier request has left: Django starts a new
        one for each."""
        if scope["type"] != "http":
            raise ValueError(f"Django serves HTTP, not {scope['type']}.")
        complete = False

        async def watched(message: Mapping[str, Any]) -> None:
            nonlocal complete
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body")

        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, watched)
        finally:
            # A request that was cancelled leaves a thread that may still work for it.
            if complete and len(self._idle) < MAX_IDLE_THREADS:
                self._idle.append(thread)
            else:
                thread.shutdown(wait=False)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as Django does. Whether its client has gone is of interest for a stream
        only: a view that runs cannot be cancelled, and two tasks for each request are not free."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            response = refusal if request is None else await self.run_get_response(request)
            assert response is not None
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    async def _stream(self, response: Any, receive: Receive, send: Send) -> None:
        """Send an answer until it ends or its client has gone: the one message that can come."""
        gone = asyncio.ensure_future(receive())
        sending = asyncio.ensure_future(self.send_response(response, send))
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            await sync_to_async(response.close)()
        if not sending.cancelled():
            sending.result()

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)
        chain = self._middleware_chain  # type: ignore[has-type]
        work = partial(at_database, partial(_answered, chain))
        self._middleware_chain = sync_to_async(work, thread_sensitive=True)

    def resolve_request(self, request: Any) -> ResolverMatch:
        """Return the route of a request. Django tries one pattern after the other, of which there
        are hundreds; the paths of most requests were seen before."""
        if len(request.path_info) > LONGEST_REMEMBERED or hasattr(request, "urlconf"):
            return super().resolve_request(request)
        request.resolver_match = _resolved(settings.ROOT_URLCONF, request.path_info)
        return cast(ResolverMatch, request.resolver_match)


LONGEST_REMEMBERED = 128  # characters of a path


@lru_cache(maxsize=2048)
def _resolved(urlconf: str, path: str) -> ResolverMatch:
    return get_resolver(urlconf).resolve(path)


def _answered(chain: Callable[[Any], Any], request: Any) -> Any:
    response = chain(request)
    if not response.streaming:
        request.close()
        response.close()
    return response


def application() -> Handler:
    """Set Django up and serve it. Python's collector of cycles is off from here to `finish_start`:
    it would walk all modules that are loaded again and again, a tenth of the time that this takes.
    """
    gc.disable()
    django.setup(set_prefix=False)
    # Each receiver would cost a change of threads; `at_database` leaves them nothing to do.
    request_started.disconnect(reset_queries)
    request_started.disconnect(close_old_connections)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 1024 connections are few
    return Handler()


def finish_start(kind: str) -> None:
    """Load the routes, report this process as one of its kind, and leave what now lives as long as
    the process out of later collections of garbage: each of these stopped every request for 0.1 s
    or more."""
    _ = get_resolver().url_patterns
    tracing.name_service(f"skep-{kind}")
    metrics.serve()
    processes.report(kind)
    gc_control.set_aside()
    gc.enable()


HEAD_S = 20.0  # from the connection, or the last answer, to the end of the next request's head


class Impatient(HttpToolsProtocol):
    """The HTTP side of our servers, for uvicorn's `--http`: ends a connection whose client sends no
    complete request head within `HEAD_S` seconds. uvicorn waits for ever for the first request of a
    connection, and for the rest of a half one."""

    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        self._waits = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self.transport.abort()


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the value of a header of an ASGI scope; "" where it is missing, or given more than
    once."""
    found = [value for key, value in headers if key.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def behind_proxies(app: Any) -> Any:
    """Return the ASGI application `app` with the client's address and scheme as the reverse proxies
    of `SKEP_TRUSTED_PROXIES` report them (X-Forwarded-For, X-Forwarded-Proto): the last address of
    the chain that is not a proxy's. The headers of every other peer are ignored."""
    proxies: list[str] = settings.SKEP_TRUSTED_PROXIES
    return ProxyHeadersMiddleware(app, trusted_hosts=proxies) if proxies else app


def client_address(scope: Mapping[str, Any]) -> str:
    """Return the address of the client of a connection; "" where it has none (see
    `behind_proxies`)."""
    peer = scope.get("client")
    return str(peer[0]) if peer else ""


def own_origin(scope: Mapping[str, Any]) -> str:
    """Return scheme and host of the page that may open this socket, such as
    "https://skep.example.org". TLS may end at a proxy; see `behind_proxies`."""
    secure = scope["scheme"] in ("wss", "https")
    host = header(scope["headers"], b"host").lower()
    return f"{'https' if secure else 'http'}://{host}"


def gateway_url(host: str) -> str:
    """Return the gateway's address for agents, or "" where it is the web address. A setting such as
    ":8471" names a port of `host`, the name by which the caller knows us: one box does not know its
    own names."""
    url: str = settings.SKEP_GATEWAY_URL
    if not url.startswith(":"):
        return url.rstrip("/")
    name = urlsplit(f"//{host}").hostname or ""
    if not name:
        return ""
    return f"http://{f'[{name}]' if ':' in name else name}{url}"


class BodyLimit:
    """ASGI middleware: answers 413 to a body of more than `most` bytes, by its Content-Length or as
    counted. Django alone would spool the whole body to disk first."""

    def __init__(self, app: App, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._announced(scope) > self.most:
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

    def _announced(self, scope: Scope) -> int:
        given = dict(scope.get("headers", ())).get(b"content-length", b"0")
        return int(given) if given.isdigit() else 0


async def refuse(send: Send, error: SkepError) -> None:
    """Answer with a typed error before the body was read; it is never read."""
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


P = ParamSpec("P")
R = TypeVar("R")


def at_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of `work`, after which this thread holds no database connection. For
    threads that Django knows nothing of."""
    try:
        return work(*args, **kwargs)
    finally:
        close_old_connections()  # back to the pool


def give_connection_back() -> None:
    """Give the database connection of this thread back to the pool before the thread waits for
    another server: one that hangs would take the connections of all requests. The next statement
    takes another one. Within a transaction it is kept."""
    if not connection.in_atomic_block:
        close_old_connections()
