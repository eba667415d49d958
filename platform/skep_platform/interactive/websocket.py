"""WebSockets on their way to an app and back, one message at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from skep_platform.core.errors import SkepError
from skep_platform.gateway.forwarding import UNSENDABLE
from skep_platform.gateway.socket import (
    CLOSE_NORMAL,
    Closed,
    Receive,
    Scope,
    Send,
    Socket,
    first_to_end,
)
from skep_platform.interactive import headers as h
from skep_platform.interactive.tunnel import NotReached, Target, as_socket

MAX_MESSAGE = 16 * 1024 * 1024
OPEN_S = 30.0
CLOSE_S = 2.0
CLOSE_GOING = 1001
CLOSE_ENDED = 4401
IDLE_S = 8 * 3600.0


async def pass_socket(
    scope: Scope,
    receive: Receive,
    send: Send,
    target: Target,
    headers: list[tuple[bytes, bytes]],
    hold: Coroutine[Any, Any, None],
    used: Callable[[], Awaitable[None]],
) -> None:
    """Join a browser's WebSocket with one of an app, until either side closes it, or `hold` ends,
    as the login does. Raises SkepError before the handshake is answered."""
    socket = Socket(scope, receive, send)
    try:
        async with as_socket(target) as connected, _opened(scope, headers, connected) as app:
            await socket.accept(app.subprotocol)
            await _join(socket, app, hold, used)
    except NotReached as problem:
        raise _refused("app_unreachable", f"The app does not answer: {problem}", 502) from None
    except InvalidStatus as refused:
        status = refused.response.status_code
        status = status if 400 <= status < 600 else 502
        raise _refused("app_refused", "The app refused the connection.", status) from None
    except (InvalidHandshake, TimeoutError, EOFError, OSError):
        raise _refused("app_unreachable", "The app answers no WebSocket.", 502) from None


def _opened(scope: Scope, headers: list[tuple[bytes, bytes]], connected: Any) -> connect:
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    host = h.get(headers, b"host")
    plain = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers if k != b"host"]
    return connect(
        f"ws://{host}{path}{'?' + query if query else ''}",
        sock=connected,
        additional_headers=plain,
        subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", ())] or None,
        user_agent_header=None,
        compression=None,
        proxy=None,
        max_size=MAX_MESSAGE,
        max_queue=4,
        open_timeout=OPEN_S,
        close_timeout=CLOSE_S,
        ping_interval=None,  # the browser and the app have their own
    )


async def _join(
    socket: Socket,
    app: ClientConnection,
    hold: Coroutine[Any, Any, None],
    used: Callable[[], Awaitable[None]],
) -> None:
    ended = False

    async def held() -> None:
        nonlocal ended
        await hold
        ended = True

    moved = asyncio.get_running_loop().time()

    async def inwards() -> None:
        nonlocal moved
        while True:
            message = await socket.next()
            moved = asyncio.get_running_loop().time()
            await used()
            await app.send(message)

    async def outwards() -> None:
        nonlocal moved
        while True:
            message = await app.recv()
            moved = asyncio.get_running_loop().time()
            await socket.send(message)

    async def idle() -> None:
        loop = asyncio.get_running_loop()
        while (left := moved + IDLE_S - loop.time()) > 0:  # noqa: ASYNC110 it moves on
            await asyncio.sleep(left)

    try:
        await first_to_end(inwards(), outwards(), held(), idle())
        await socket.close(CLOSE_ENDED if ended else CLOSE_GOING)
    except Closed as closed:
        code = CLOSE_GOING if closed.code in UNSENDABLE else closed.code or CLOSE_NORMAL
        with suppress(ConnectionClosed, OSError):
            await app.close(code)
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else CLOSE_GOING
        reason = closed.rcvd.reason if closed.rcvd else ""
        await socket.close(CLOSE_GOING if code in UNSENDABLE else code, reason)


def _refused(code: str, message: str, status: int) -> SkepError:
    error = SkepError(message, code=code)
    error.status = status
    return error
