"""`/ws/attempts/{id}/exec` and `.../forward?port=N`: a person reaches into a running task.

This side asks the node's agent to dial (`agent_stream_socket`), and both meet in `relay`.

`/ws/agent/streams/{id}` is the other end: the agent dials to carry a stream that a user opened.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from uuid import UUID

import structlog
from django.db import DatabaseError
from redis import RedisError

from skep_agent.frames import Channel
from skep_platform.accounts.models import User
from skep_platform.audit import refusals
from skep_platform.cluster import services as cluster
from skep_platform.core import caller
from skep_platform.core.errors import SkepError
from skep_platform.core.models import uuid7
from skep_platform.core.serving import client_address
from skep_platform.gateway import concurrency, relay
from skep_platform.gateway.callers import (
    AUDITED,
    Asked,
    Credential,
    Reach,
    asked_exec,
    asked_forward,
    may_reach,
    origin_allowed,
    reach,
    user_group,
)
from skep_platform.gateway.concurrency import LatestValue, retry_while_unavailable
from skep_platform.gateway.listener import listener
from skep_platform.gateway.relay import LOOK_S, Pipe, StreamGone, TooManyStreams
from skep_platform.gateway.socket import (
    CLOSE_INTERNAL,
    CLOSE_MALFORMED,
    CLOSE_NORMAL,
    CLOSE_TOO_MANY,
    CLOSE_UNAUTHORIZED,
    Closed,
    Receive,
    Refusal,
    Scope,
    Send,
    Socket,
    first_to_end,
    people_limits,
)

PIECE = 64 * 1024  # bytes of payload that travel as one frame
MAX_FRAME = 1024 * 1024
MAX_CONTROL = 4096
CLIENT_CHANNELS = frozenset({Channel.INPUT, Channel.CONTROL})
AGENT_CHANNELS = frozenset({Channel.OUTPUT, Channel.ERROR, Channel.CONTROL})


def split_frame(frame: str | bytes, allowed: frozenset[Channel]) -> Iterator[bytes]:
    """Give the same bytes in frames of a size that others can get between. Raises Refusal."""
    if not isinstance(frame, bytes) or not frame or frame[0] not in allowed:
        raise _malformed("Binary frames, please, whose first byte is a channel that you may use.")
    most = MAX_CONTROL if frame[0] == Channel.CONTROL else MAX_FRAME
    if len(frame) > most:
        raise _malformed(f"A frame of this channel has at most {most} bytes.")
    for start in range(1, max(len(frame), 2), PIECE):
        yield frame[:1] + frame[start : start + PIECE]


def error_frame(code: str, message: str) -> bytes:
    return _control({"error": {"code": code, "message": message}})


def is_last_frame(frame: bytes) -> bool:
    """Return whether the frame says to the client how the stream ended."""
    if frame[:1] != bytes([Channel.CONTROL]):
        return False
    try:
        message = json.loads(frame[1:])
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and bool({"exit", "error"} & message.keys())


def _control(message: object) -> bytes:
    return bytes([Channel.CONTROL]) + json.dumps(message).encode()


def _malformed(message: str) -> Refusal:
    return Refusal("frame_invalid", message, CLOSE_MALFORMED)


CARRY_S = 30.0


class FrameRelay:
    """`ended`: why the other side closed, once all that it sent was delivered; None while this side
    is what ends. `end_sent`: whether the peer was sent how the stream ended."""

    def __init__(self, socket: Socket, pipe: Pipe, allowed: frozenset[Channel]) -> None:
        self._socket = socket
        self._pipe = pipe
        self._allowed = allowed
        self.ended: str | None = None
        self.end_sent = False

    async def run(self, *beside: Awaitable[None]) -> None:
        """Run until one side ends. Raises Closed, Refusal, StreamGone, or what `beside` raises."""
        await first_to_end(self._inwards(), self._outwards(), *beside)

    async def _inwards(self) -> None:
        while True:
            frame = await self._socket.next()
            for piece in split_frame(frame, self._allowed):
                await self._pipe.push(piece)

    async def _outwards(self) -> None:
        try:
            while self.ended is None:
                popped = await self._pipe.pop()
                for frame in popped.frames:
                    await self._socket.send(frame)
                    self.end_sent = is_last_frame(frame)
                self.ended = popped.ended
        except Closed:
            await self._carried()
            raise

    async def _carried(self) -> None:
        """The peer has closed, and what it sent before may still be read: until that ends, or
        it is no longer read."""
        while time.monotonic() < self._pipe.moved_at + CARRY_S:  # noqa: ASYNC110 it moves on
            await asyncio.sleep(LOOK_S)


log = structlog.get_logger(__name__)

CLOSE_UNAVAILABLE = 4503
ASK_S = 10.0  # until the first frame says what to run
IDLE_S = 3600.0
RECHECK_S = 30.0


async def exec_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a command in a task (an ASGI application). The first frame is text: {"argv", "tty",
    "rows", "cols"}."""
    await _stream(Socket(scope, receive, send), "exec")


async def forward_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one connection to a port of a task (an ASGI application)."""
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
    async with people_limits.authenticating(address):
        user = await concurrency.credentials.run(credential.user)
    if user is None:
        raise _not_logged_in()
    with (
        people_limits.connected(address, user.pk),
        caller.calling(address, socket.header("user-agent"), str(uuid7())),
    ):
        caller.identify(user, user.used_token)
        await _serve_known(socket, kind, credential, user)


async def _serve_known(socket: Socket, kind: str, credential: Credential, user: User) -> None:
    asked = await _asked(socket, kind)
    attempt_id = socket.scope["url_route"]["kwargs"]["attempt_id"]
    try:
        found = await concurrency.control.run(reach, user, attempt_id, asked)
    except SkepError as error:
        if error.status in refusals.REFUSED:
            facts = {"code": error.code, "status": error.status}
            tried = (AUDITED[kind], "attempt", str(attempt_id), None, facts)
            await concurrency.control.run(refusals.record, *tried)
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
        raise Refusal("nothing_asked", message, CLOSE_MALFORMED) from None


@asynccontextmanager
async def _opened(user: User, found: Reach) -> AsyncIterator[Pipe]:
    """Ask the agent to dial; the stream is open until this ends. It is recorded also when its user
    leaves meanwhile."""
    pipe = Pipe(relay.new_id(), "client", found.node_id, user.pk)
    recording: asyncio.Task[bool] | None = None
    since = time.monotonic()
    async with pipe.subscribed():
        try:
            await pipe.order(found.order(pipe.stream_id))
            recording = asyncio.create_task(concurrency.control.run(found.record, user))
            await asyncio.shield(recording)
            yield pipe
        except TooManyStreams as error:
            raise Refusal("too_many_streams", str(error), CLOSE_TOO_MANY) from error
        except StreamGone:
            message = "The connection to the node is lost."
            raise Refusal("stream_lost", message, CLOSE_UNAVAILABLE) from None
        finally:
            await asyncio.shield(_closed(pipe))
            if recording is not None:
                await asyncio.shield(_ended(found, recording, time.monotonic() - since))


async def _ended(found: Reach, recording: asyncio.Task[bool], seconds: float) -> None:
    try:
        if await recording:
            await concurrency.control.run(found.record_end, seconds)
    except DatabaseError as error:
        log.warning("end_of_stream_not_recorded", error=type(error).__name__)


async def _closed(pipe: Pipe) -> None:
    try:
        await pipe.close()
    except (RedisError, OSError) as error:
        log.warning("stream_not_closed", error=type(error).__name__)


async def _relay(socket: Socket, pipe: Pipe, rights: _Rights) -> None:
    frames = FrameRelay(socket, pipe, CLIENT_CHANNELS)
    await frames.run(_living(pipe), rights.hold(), _end_idle(pipe))
    if frames.ended and not frames.end_sent:
        raise StreamGone


async def _living(pipe: Pipe) -> None:
    """Wait for the agent, and then run while it is there."""
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
        self._changed: LatestValue[None] = LatestValue()

    async def hold(self) -> None:
        """Wait until they end: raises Refusal. Looks now and then, and when something happened to
        the credential or the user."""
        groups = (self._credential.group(), user_group(self._user.pk))
        async with (
            listener().subscribed(groups[0], lambda _: self._changed.put(None)),
            listener().subscribed(groups[1], lambda _: self._changed.put(None)),
        ):
            while True:
                try:
                    async with asyncio.timeout(RECHECK_S):
                        await self._changed.take()
                except TimeoutError:
                    pass
                await self._check()

    async def _check(self) -> None:
        user = await retry_while_unavailable(concurrency.control, self._credential.user)
        if user is None or user.pk != self._user.pk:
            raise _not_logged_in()
        if not await retry_while_unavailable(
            concurrency.control, may_reach, user, self._attempt_id
        ):
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
        await socket.send(error_frame(refusal.code, refusal.message))
    except Closed:
        return
    await socket.close(refusal.close, refusal.code)


CLOSE_UNKNOWN = 4404
CLOSE_GONE = 4410
CLOSE_GOING = 1001
LOST = "lost"


async def agent_stream_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the agent's side of a stream (an ASGI application)."""
    socket = Socket(scope, receive, send)
    try:
        await socket.accept()
        await _serve_agent(socket, scope["url_route"]["kwargs"]["stream_id"])
        await socket.close(CLOSE_NORMAL)
    except Closed:
        pass
    except StreamGone:
        await socket.close(CLOSE_GONE, "stream_gone")
    except Refusal as refusal:
        log.info("agent_stream_refused", code=refusal.code)
        await socket.close(refusal.close, refusal.code)
    except Exception:
        log.exception("agent_stream_failed")
        await socket.close(CLOSE_INTERNAL, "internal")


async def _serve_agent(socket: Socket, stream_id: str) -> None:
    credential = socket.bearer()
    node = None
    if credential:
        async with people_limits.authenticating(client_address(socket.scope)):
            node = await concurrency.credentials.run(cluster.authenticate_node, credential)
    if node is None:
        message = "The credential is missing, unknown, or its node was removed."
        raise Refusal("credential_invalid", message, CLOSE_UNAUTHORIZED)
    pipe = Pipe(stream_id, "agent", node.pk)
    async with pipe.subscribed():
        if not await pipe.dial():
            message = "No client waits for this stream of this node."
            raise Refusal("stream_unknown", message, CLOSE_UNKNOWN)
        await _relay_agent(socket, pipe)


async def _relay_agent(socket: Socket, pipe: Pipe) -> None:
    why = LOST
    try:
        await FrameRelay(socket, pipe, AGENT_CHANNELS).run(pipe.watch())
        why = ""
    except Closed as closed:
        why = "" if closed.code in (CLOSE_NORMAL, CLOSE_GOING) else LOST
        raise
    finally:
        try:
            await pipe.close(why)
        except (RedisError, OSError) as error:
            log.warning("stream_not_closed", error=type(error).__name__)
