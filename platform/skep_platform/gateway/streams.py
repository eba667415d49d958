"""`/ws/attempts/{id}/exec` and `.../forward?port=N`: a person reaches into a running task.

This side asks the node's agent to dial (see `agent_stream`), and both meet in `relay`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import structlog
from redis import RedisError

from skep_platform.accounts.models import User
from skep_platform.core.addresses import client_address
from skep_platform.core.errors import SkepError
from skep_platform.gateway import frames, relay, seats, threads
from skep_platform.gateway.callers import Credential, origin_allowed, user_group
from skep_platform.gateway.listener import listener
from skep_platform.gateway.mailbox import Newest
from skep_platform.gateway.pump import Pump
from skep_platform.gateway.relay import Gone, Pipe, TooMany
from skep_platform.gateway.retry import steadily
from skep_platform.gateway.socket import (
    CLOSE_INTERNAL,
    CLOSE_NORMAL,
    Closed,
    Receive,
    Refusal,
    Scope,
    Send,
    Socket,
)
from skep_platform.gateway.stream_rights import (
    Asked,
    Reach,
    asked_exec,
    asked_forward,
    may_reach,
    reach,
)

log = structlog.get_logger(__name__)

CLOSE_UNAUTHORIZED = 4401
CLOSE_TOO_MANY = 4429
CLOSE_UNAVAILABLE = 4503
ASK_S = 10.0  # until the first frame says what to run
IDLE_S = 3600.0
RECHECK_S = 30.0


async def exec_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application. The first frame is text: {"argv", "tty", "rows", "cols"}."""
    await _stream(Socket(scope, receive, send), "exec")


async def forward_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application, of one connection to a port of the task."""
    await _stream(Socket(scope, receive, send), "forward")


async def _stream(socket: Socket, kind: str) -> None:
    if not origin_allowed(socket):
        await socket.close(CLOSE_NORMAL)  # before accept: HTTP 403
        return
    try:
        await socket.accept()
        await _serve(socket, kind)
        await socket.close(CLOSE_NORMAL)
    except Closed:
        pass
    except Refusal as refusal:
        await _refuse(socket, refusal)
    except (RedisError, OSError) as error:
        log.warning("stream_without_broker", error=type(error).__name__)
        message = "Streams are not available for a moment; try again."
        await _refuse(socket, Refusal("unavailable", message, CLOSE_UNAVAILABLE))
    except Exception:
        log.exception("stream_failed")
        message = "The server failed; try again."
        await _refuse(socket, Refusal("internal", message, CLOSE_INTERNAL))


async def _serve(socket: Socket, kind: str) -> None:
    credential, address = Credential.of(socket), client_address(socket.scope)
    async with seats.people.stranger(address):
        user = await threads.credentials.run(credential.user)
    if user is None:
        raise _not_logged_in()
    with seats.people.taken(address, user.pk):
        await _serve_known(socket, kind, credential, user)


async def _serve_known(socket: Socket, kind: str, credential: Credential, user: User) -> None:
    asked = await _asked(socket, kind)
    attempt_id = socket.scope["url_route"]["kwargs"]["attempt_id"]
    try:
        found = await threads.control.run(reach, user, attempt_id, asked)
    except SkepError as error:
        close = 4000 + error.status
        raise Refusal(error.code, error.message, close, **error.details) from error
    async with _opened(user, found) as pipe:
        await _relay(socket, pipe, _Rights(credential, user, attempt_id))


async def _asked(socket: Socket, kind: str) -> Asked:
    if kind == "forward":
        return asked_forward(socket.scope["query_string"])
    try:
        async with asyncio.timeout(ASK_S):
            return asked_exec(await socket.next())
    except TimeoutError:
        message = f"Nothing to run was named within {ASK_S:g} s."
        raise Refusal("nothing_asked", message, frames.CLOSE_MALFORMED) from None


@asynccontextmanager
async def _opened(user: User, found: Reach) -> AsyncIterator[Pipe]:
    """The agent is asked to dial, and has somebody to talk to until this ends."""
    pipe = Pipe(relay.new_id(), "client", found.node_id, user.pk)
    async with pipe.heard():
        try:
            await pipe.order(found.order(pipe.stream_id))
            await threads.control.run(found.record, user)
            yield pipe
        except TooMany as error:
            raise Refusal("too_many_streams", str(error), CLOSE_TOO_MANY) from error
        except Gone:
            message = "The connection to the node is lost."
            raise Refusal("stream_lost", message, CLOSE_UNAVAILABLE) from None
        finally:
            await asyncio.shield(_closed(pipe))


async def _closed(pipe: Pipe) -> None:
    try:
        await pipe.close()
    except (RedisError, OSError) as error:
        log.warning("stream_not_closed", error=type(error).__name__)


async def _relay(socket: Socket, pipe: Pipe, rights: _Rights) -> None:
    pump = Pump(socket, pipe, frames.OF_CLIENT)
    await pump.run(_living(pipe), rights.hold(), _end_idle(pipe))
    if pump.ended and not pump.told_end:
        raise Gone


async def _living(pipe: Pipe) -> None:
    """While the agent is on its way, and then while it is there."""
    try:
        await pipe.dialled()
    except TimeoutError:
        message = "The node does not answer; try again."
        raise Refusal("node_silent", message, CLOSE_UNAVAILABLE) from None
    await pipe.watch()


class _Rights:
    """What its user may do may end while a stream is open."""

    def __init__(self, credential: Credential, user: User, attempt_id: UUID) -> None:
        self._credential = credential
        self._user = user
        self._attempt_id = attempt_id
        self._changed: Newest[None] = Newest()

    async def hold(self) -> None:
        """Until they end: raises Refusal. Looks now and then, and when something happened to the
        credential or the user."""
        groups = (self._credential.group(), user_group(self._user.pk))
        async with (
            listener().hearing(groups[0], lambda _: self._changed.put(None)),
            listener().hearing(groups[1], lambda _: self._changed.put(None)),
        ):
            while True:
                try:
                    async with asyncio.timeout(RECHECK_S):
                        await self._changed.take()
                except TimeoutError:
                    pass
                await self._check()

    async def _check(self) -> None:
        user = await steadily(threads.control, self._credential.user)
        if user is None or user.pk != self._user.pk:
            raise _not_logged_in()
        if not await steadily(threads.control, may_reach, user, self._attempt_id):
            message = "You may not reach into this task any more."
            raise Refusal("forbidden", message, 4403)


async def _end_idle(pipe: Pipe) -> None:
    while (left := pipe.moved_at + IDLE_S - time.monotonic()) > 0:  # noqa: ASYNC110 it moves on
        await asyncio.sleep(left)
    raise Refusal("idle", f"Nothing was sent for {IDLE_S / 60:g} minutes.", CLOSE_NORMAL)


def _not_logged_in() -> Refusal:
    return Refusal("not_authenticated", "Log in (again).", CLOSE_UNAUTHORIZED)


async def _refuse(socket: Socket, refusal: Refusal) -> None:
    try:
        await socket.send(frames.error(refusal.code, refusal.message))
    except Closed:
        return
    await socket.close(refusal.close, refusal.code)
