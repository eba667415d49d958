"""`/ws/agent`: authenticates the agent, admits it in its turn, and serves its session."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings

from skep_agent.protocol import (
    CLOSE_DUPLICATE,
    CLOSE_PROTOCOL,
    CLOSE_SILENT,
    CLOSE_UNAUTHORIZED,
    PROTOCOL_VERSION,
    Hello,
    LogPosition,
    ProtocolError,
    Wait,
    Welcome,
)
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core import notifications
from skep_platform.core.errors import SkepError
from skep_platform.core.serving import client_address, gateway_url
from skep_platform.gateway import concurrency
from skep_platform.gateway.grouped import MAX_ATTEMPTS, Opened, groups, settle_memories
from skep_platform.gateway.listener import listener
from skep_platform.gateway.presence import presence
from skep_platform.gateway.session import Session, flush, flusher, parse, refused
from skep_platform.gateway.socket import (
    CLOSE_INTERNAL,
    CLOSE_RESTART,
    Closed,
    Receive,
    Refusal,
    Scope,
    Send,
    Socket,
    agent_limits,
)
from skep_platform.jobs.containers import desired
from skep_platform.telemetry import services as telemetry

log = structlog.get_logger(__name__)

HELLO_S = 10.0
WAIT_EVERY_S = 5.0
AT_ONCE = 3  # sessions opened by themselves: as many as `concurrency.control` has threads
# The agent gives up for good on two of them; whatever else is refused it tries again.
CLOSE_CODES = {
    "agent_duplicate": CLOSE_DUPLICATE,
    "inventory_invalid": CLOSE_PROTOCOL,
    "node_removed": CLOSE_UNAUTHORIZED,
}


async def agent_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve an agent (an ASGI application). It accepts before it looks at the credential, because
    only then can a close code reach the agent: the codes say whether to connect again."""
    socket = Socket(scope, receive, send)
    try:
        await socket.accept()
        await _serve(socket)
    except Closed:
        pass
    except Refusal as refusal:
        log.info("agent_refused", code=refusal.code, message=refusal.message)
        await _refuse(socket, refusal)
    except Exception:
        log.exception("agent_connection_failed")
        message = "The server failed; connect again."
        await _refuse(socket, Refusal("internal", message, CLOSE_INTERNAL))


async def _serve(socket: Socket) -> None:
    _refuse_when_leaving()
    node = await _authenticated(socket)
    hello = await _hello(socket)
    node, positions = await _admitted(socket, node, hello)
    try:
        _refuse_when_leaving()
        first = desired.frame_of_new_node(node)
        session = Session(socket, node.pk, node.session_epoch, first, hello.features)
        async with listener().subscribed(
            notifications.node_group(node.pk), session.on_notification
        ):
            welcome = _welcome(node, positions, socket)
            await socket.send(welcome.model_dump_json())
            flusher().start()
            await session.run()
    finally:
        await asyncio.shield(_closed(node.pk, node.session_epoch))


def _refuse_when_leaving() -> None:
    if presence().leaving:
        raise Refusal("server_stops", "This server stops; connect again.", CLOSE_RESTART)


async def _authenticated(socket: Socket) -> Node:
    credential, node = socket.bearer(), None
    if credential:
        async with agent_limits.authenticating(client_address(socket.scope)):
            node = await groups().authenticated(credential)
    if node is None:
        message = "The credential is missing, unknown, or its node was removed; join again."
        raise Refusal("credential_invalid", message, CLOSE_UNAUTHORIZED)
    return node


async def _hello(socket: Socket) -> Hello:
    try:
        async with asyncio.timeout(HELLO_S):
            frame = await socket.next()
        hello = await parse(frame) if isinstance(frame, str) else None
    except TimeoutError:
        message = f"No Hello within {HELLO_S:g} s."
        raise Refusal("hello_missing", message, CLOSE_SILENT) from None
    except ProtocolError as error:
        raise Refusal(error.code, str(error), CLOSE_PROTOCOL) from error
    if not isinstance(hello, Hello):
        raise Refusal("hello_missing", "The first frame is a Hello.", CLOSE_PROTOCOL)
    if hello.protocol_version != PROTOCOL_VERSION:
        message = f"This server speaks version {PROTOCOL_VERSION} of the protocol; update."
        raise Refusal("protocol_version", message, CLOSE_PROTOCOL, supported=[PROTOCOL_VERSION])
    return hello


async def _admitted(socket: Socket, node: Node, hello: Hello) -> Opened:
    """Open the session in its turn: agents whose lease ends first come first. An agent that waits
    is sent `Wait`."""
    expires = node.lease_expires_at

    async def in_turn() -> Opened:
        known = node.state != NodeState.JOINED
        if known and (opened := await groups().reopen(node, hello)) is not None:
            return opened
        async with admission().turn(expires.timestamp() if expires else 0.0):
            return await _opened(node, hello)

    opening = asyncio.ensure_future(in_turn())
    try:
        while not (await asyncio.wait([opening], timeout=WAIT_EVERY_S))[0]:
            await socket.send(Wait().model_dump_json())
        return opening.result()
    finally:
        opening.cancel()


async def _opened(node: Node, hello: Hello) -> Opened:
    try:
        return await concurrency.control.run(_open, node.pk, hello)
    except SkepError as error:
        close = CLOSE_CODES.get(error.code, CLOSE_INTERNAL)
        raise Refusal(error.code, error.message, close, **error.details) from error


def _open(node_id: UUID, hello: Hello) -> Opened:
    node = cluster.open_session(node_id, hello.instance_id, hello)
    if not node.first_session:
        settle_memories({node: hello})
    return node, telemetry.log_positions(node_id, hello.attempt_ids[:MAX_ATTEMPTS])


def _welcome(node: Node, positions: list[LogPosition], socket: Socket) -> Welcome:
    forwarded = socket.scope.get("forwarded", False)
    return Welcome(
        node_name=node.name,
        session_epoch=node.session_epoch,
        lease_s=settings.SKEP_LEASE_S,
        heartbeat_interval_s=settings.SKEP_HEARTBEAT_S,
        sample_interval_s=settings.SKEP_SAMPLE_S,
        log_positions=positions,
        gateway_url=gateway_url(socket.header("host")) if forwarded else "",
        log_times=True,
    )


async def _closed(node_id: UUID, epoch: int) -> None:
    try:
        await concurrency.control.run(cluster.close_session, node_id, epoch)
    except Exception:
        log.exception("session_not_closed", node_id=str(node_id))  # its lease will run out
    await flush()


async def _refuse(socket: Socket, refusal: Refusal) -> None:
    try:
        await socket.send(refused(refusal).model_dump_json())
    except Closed:
        return
    await socket.close(refusal.close, refusal.code)


class Admission:
    """Lets at most `at_once` tasks into `turn` at a time. The others enter in the order of
    `lease_end` (seconds since the epoch), whichever came first."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @asynccontextmanager
    async def turn(self, lease_end: float) -> AsyncIterator[None]:
        await self._enter(lease_end)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, lease_end: float) -> None:
        if self._free > 0:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (lease_end, next(self._numbers), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was given to us just now
                self._leave()
            raise

    def _leave(self) -> None:
        """Give the place to the next one, or free it."""
        while self._waiting:
            _, _, next_one = heapq.heappop(self._waiting)
            if not next_one.done():
                next_one.set_result(None)
                return
        self._free += 1


_admissions: WeakKeyDictionary[asyncio.AbstractEventLoop, Admission] = WeakKeyDictionary()


def admission() -> Admission:
    """Return the admission of this event loop."""
    return _admissions.setdefault(asyncio.get_running_loop(), Admission(AT_ONCE))
