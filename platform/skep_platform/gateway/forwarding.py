"""Forwarding of agents' connections from the web server to the gateway, at both ends.

It serves agents that know the web address only: those that joined before there was a gateway, and
all of them where no proxy in front routes by path. Both directions wait for the reader, so nothing
piles up here. The web server sends what it saw of the connection in a signed header, which no
other program can make.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import structlog
from django.conf import settings
from django.core import signing
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from skep_agent.protocol import MAX_TEXT_FRAME
from skep_platform.core.errors import SkepError, Unavailable
from skep_platform.core.serving import client_address, header
from skep_platform.gateway.socket import (
    CLOSE_NORMAL,
    Closed,
    Receive,
    Scope,
    Send,
    Socket,
    first_to_end,
)

log = structlog.get_logger(__name__)

HEADER = b"skep-forwarded"
SALT = "skep.gateway.forwarded"
MAX_AGE_S = 300  # the clocks of two servers may differ
CONNECT_S = 12.0  # a gateway that all agents come back to is slow to answer; they wait 15 s
CLOSE_S = 1.0
CLOSE_GONE = 1001
CLOSE_TRY_AGAIN = 1013
UNSENDABLE = frozenset({1004, 1005, 1006, 1015})  # close codes that no frame may carry
# Of this hop only, or written anew by who connects.
OWN_HEADERS = frozenset(
    {
        *(b"connection", b"upgrade", b"host", b"content-length", b"transfer-encoding"),
        *(b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", HEADER),
        *(b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions"),
        *(b"sec-websocket-protocol", b"keep-alive", b"te", b"trailer"),
    }
)


async def forward_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Connect a socket to the same path of the gateway (an ASGI application)."""
    socket = Socket(scope, receive, send)
    try:
        gateway = await _dialled(scope)
    except InvalidStatus as refused:
        await _deny(scope, send, refused.response.status_code, bytes(refused.response.body))
        return
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI) as error:
        log.warning("gateway_not_reached", error=type(error).__name__)
        away = Unavailable("The gateway does not answer; try again.", code="gateway_away")
        await _deny_with(scope, send, away)
        return
    try:
        await socket.accept(gateway.subprotocol)
        await first_to_end(_inwards(socket, gateway), _outwards(socket, gateway))
    except Closed as closed:
        await gateway.close(_sendable(closed.code, CLOSE_GONE))
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 1006
        reason = closed.rcvd.reason if closed.rcvd else ""
        await socket.close(_sendable(code, CLOSE_TRY_AGAIN), reason)
    finally:
        with suppress(ConnectionClosed):
            await gateway.close()


async def _dialled(scope: Scope) -> ClientConnection:
    kept = [
        (key.decode("latin-1"), value.decode("latin-1"))
        for key, value in scope["headers"]
        if key.lower() not in OWN_HEADERS
    ]
    return await connect(
        _target(scope),
        additional_headers=[*kept, (HEADER.decode(), statement(scope))],
        subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", ())] or None,
        user_agent_header=None,
        compression=None,
        proxy=None,
        max_size=MAX_TEXT_FRAME,
        max_queue=4,
        open_timeout=CONNECT_S,
        close_timeout=CLOSE_S,
        ping_interval=None,  # both ends have their own
    )


def _target(scope: Scope) -> str:
    backend = urlsplit(settings.SKEP_GATEWAY_BACKEND)
    scheme = "wss" if backend.scheme == "https" else "ws"
    path = cast(bytes, scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope.get("query_string", b"").decode("latin-1")
    return urlunsplit((scheme, backend.netloc, path, query, ""))


async def _inwards(socket: Socket, gateway: ClientConnection) -> None:
    while True:
        await gateway.send(await socket.next())


async def _outwards(socket: Socket, gateway: ClientConnection) -> None:
    while True:
        await socket.send(await gateway.recv())


def _sendable(code: int, otherwise: int) -> int:
    return otherwise if code in UNSENDABLE else code or CLOSE_NORMAL


async def _deny_with(scope: Scope, send: Send, error: SkepError) -> None:
    await _deny(scope, send, error.status, json.dumps(error.as_dict()).encode())


async def _deny(scope: Scope, send: Send, status: int, body: bytes) -> None:
    """Refuse the handshake by an HTTP answer."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start: dict[str, Any] = {"type": "websocket.http.response.start", "status": status}
    await send(start | {"headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def statement(scope: Scope) -> str:
    """Return the value of the header: client address, scheme and Host as the web server saw
    them."""
    seen = [client_address(scope), scope["scheme"], header(scope["headers"], b"host")]
    return signing.dumps(seen, salt=SALT)


class Forwarded:
    """ASGI middleware of the gateway: shows `app` a forwarded connection as it came to the web
    server. `scope["forwarded"]` is whether it was one."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "lifespan":
            scope = {**scope, "forwarded": False}
            _restore(scope)
        return await self._app(scope, receive, send)


def _restore(scope: Scope) -> None:
    given = header(scope["headers"], HEADER)
    if not given:
        return
    others = [(key, value) for key, value in scope["headers"] if key.lower() != HEADER]
    try:
        address, scheme, host = signing.loads(given, salt=SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        scope["headers"] = others  # not signed by a web server of ours
        return
    kept = [(key, value) for key, value in others if key.lower() != b"host"]
    scope["forwarded"] = True
    scope["client"] = (address, 0)
    scope["scheme"] = scheme
    scope["headers"] = [(b"host", host.encode("latin-1")), *kept]
