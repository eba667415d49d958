"""One session of one node: frames in, facts to the database, desired state out.

The reader never waits for the database: of heartbeats, inventories and notifications only the
newest is kept, facts and log frames queue up to a bound and then stop the reading. Each kind of
work has one worker, so that a node never has two builds of its desired state, or two heartbeats, at
once. Its log frames go to the store by a `LogShipper`, which gathers, bounds and acknowledges them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from types import ModuleType
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings
from redis import RedisError

from skep_agent.frames import LogFrame
from skep_agent.protocol import (
    CLOSE_PROTOCOL,
    CLOSE_REPLACED,
    CLOSE_SILENT,
    KEEPS,
    LOG_ACKS,
    AgentMessage,
    AttemptFact,
    CheckReport,
    Heartbeat,
    HeartbeatAck,
    Hello,
    ImageSaveReport,
    Inventory,
    InventoryChanged,
    Leaving,
    NodeImages,
    PrefetchReport,
    ProtocolError,
    Refused,
    Report,
    ReportAck,
    Samples,
    UnknownMessage,
    parse_agent_message,
)
from skep_platform.cluster import checks, network
from skep_platform.cluster import services as cluster
from skep_platform.cluster.node_work import FRESH_S
from skep_platform.core import failures
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.logs import rarely
from skep_platform.core.notifications import Message
from skep_platform.gateway import concurrency, relay
from skep_platform.gateway.concurrency import (
    BatchQueue,
    LatestValue,
    raise_unless_away,
    retry_while_unavailable,
)
from skep_platform.gateway.grouped import groups
from skep_platform.gateway.log_shipping import LogShipper
from skep_platform.gateway.presence import presence
from skep_platform.gateway.socket import CLOSE_RESTART, Refusal, Socket, first_to_end
from skep_platform.images import prefetching
from skep_platform.jobs import image_saves
from skep_platform.jobs.containers.desired import DesiredFrame, SessionState
from skep_platform.telemetry import services as telemetry

log = structlog.get_logger(__name__)

MAX_FACTS = 2000  # waiting, after which the socket is not read
MAX_REPORTS = 200  # of prefetches and of saves, likewise
FAREWELL_S = 3.0  # for an agent to say that it knows that the server stops
WORK = (prefetching, image_saves, checks)  # that nodes have beside tasks
BIG_FRAME = 64 * 1024  # characters; parsing more would hold up every other connection


class Session:
    def __init__(
        self,
        socket: Socket,
        node_id: UUID,
        epoch: int,
        first_state: DesiredFrame | None = None,
        features: Collection[str] = (),
    ) -> None:
        """`first_state`: the desired state, where it is known without asking the database;
        `features` are those of the agent's Hello."""
        self._socket = socket
        self.node_id = node_id
        self.epoch = epoch
        self._first_state = first_state
        self._sent = SessionState(epoch, keeps=KEEPS in features)
        self._sent_frame = ""  # where attempts could not be described
        self._heartbeats: LatestValue[Heartbeat] = LatestValue()
        self._inventories: LatestValue[Inventory] = LatestValue()
        self._changes: LatestValue[None] = LatestValue()
        self._orders: LatestValue[bool] = LatestValue()  # whether those of all nodes are due
        self._images: LatestValue[NodeImages] = LatestValue()
        self._prefetches: BatchQueue[PrefetchReport] = BatchQueue(MAX_REPORTS)
        self._saves: BatchQueue[ImageSaveReport] = BatchQueue(MAX_REPORTS)
        self._checks: BatchQueue[CheckReport] = BatchQueue(MAX_REPORTS)
        self._replaced = asyncio.Event()
        self._left = asyncio.Event()  # nothing more is handled: this server stops
        self._farewell: asyncio.Future[float | None] | None = None
        self._over = asyncio.Event()
        self._facts: BatchQueue[AttemptFact] = BatchQueue(MAX_FACTS)
        self._logs = LogShipper(node_id, socket, together=LOG_ACKS in features)

    def on_notification(self, message: Message) -> None:
        if message["type"] == "node.replaced":
            if message["epoch"] > self.epoch:
                self._replaced.set()
            return
        if message["type"] == "node.changed":
            self._first_state = None  # it may be older than this change
        if message["type"] != "node.open_stream":
            self._changes.put(None)
        if message["type"] != "node.changed":  # also when notifications were missed
            self._orders.put(message["type"] != "node.open_stream")

    def prepare_to_leave(self) -> None:
        """From now on the agent gets no answers: none may be older than what it is sent next."""
        self._farewell = asyncio.get_running_loop().create_future()
        self._left.set()

    async def leave(self, for_s: float | None) -> None:
        """Notify the agent that the server stops, and for how long its lease is extended (None: it
        is not). Returns when it closed the connection: then it knows."""
        assert self._farewell is not None
        if not self._farewell.done():
            self._farewell.set_result(for_s)
        await self._over.wait()

    async def run(self) -> None:
        """Serve until the peer goes (Closed), misbehaves or is replaced (Refusal), or the server
        goes."""
        structlog.contextvars.bind_contextvars(node_id=str(self.node_id))  # in all that it logs
        presence().add(self)
        telemetry.node_connected(self.node_id)
        try:
            await self._work()
            if self._farewell is not None:
                await self._take_leave(await self._farewell)
        finally:
            presence().discard(self)
            telemetry.node_disconnected(self.node_id)
            self._over.set()

    async def _take_leave(self, for_s: float | None) -> None:
        """The agent closes when it has understood; one that is older does not."""
        if for_s is not None:
            await self._socket.send(Leaving(for_s=for_s).model_dump_json())
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    while True:
                        await self._socket.next()
        message = "This server stops; connect again."
        raise Refusal("server_stops", message, CLOSE_RESTART)

    async def _work(self) -> None:
        self._changes.put(None)  # the first desired state
        try:
            await first_to_end(
                self._read(),
                self._beat(),
                self._send_state(),
                self._send_orders(),
                self._apply_facts(),
                self._logs.run(),
                self._store_inventories(),
                self._store_images(),
                self._store(self._prefetches, prefetching.apply_reports),
                self._store(self._saves, image_saves.apply_reports),
                self._store(self._checks, checks.apply_reports),
                self._end_when_replaced(),
                self._end_when_left(),
            )
        except Conflict as error:
            if error.code != "session_fenced":
                raise
            if self._left.is_set():  # we ended it ourselves
                return
            raise Refusal(error.code, error.message, CLOSE_REPLACED) from error

    async def _read(self) -> None:
        while True:
            frame = await self._socket.next()
            try:
                if isinstance(frame, bytes):
                    await self._logs.put(LogFrame.decode(frame))
                else:
                    await self._handle(await parse(frame))
            except UnknownMessage as error:
                log.debug("unknown_message", node_id=str(self.node_id), error=str(error))
            except ProtocolError as error:
                raise Refusal(error.code, str(error), CLOSE_PROTOCOL) from error

    async def _handle(self, message: AgentMessage) -> None:
        match message:
            case Heartbeat():
                self._heartbeats.put(message)
            case Report():
                await self._facts.put(message.facts)
            case Samples():
                telemetry.store_samples(self.node_id, message)
            case InventoryChanged():
                self._inventories.put(message.inventory)
            case NodeImages():
                self._images.put(message)
            case PrefetchReport():
                await self._prefetches.put([message])
            case ImageSaveReport():
                await self._saves.put([message])
            case CheckReport():
                await self._checks.put([message])
            case Hello():
                raise Refusal("hello_again", "Hello is the first frame only.", CLOSE_PROTOCOL)

    async def _beat(self) -> None:
        """Renew the lease, with one query for the heartbeats of many nodes. A database that is away
        renews no lease; the agent then fences itself by its own clock, and goes on if the database
        is back before that."""
        while True:
            try:
                async with asyncio.timeout(settings.SKEP_LEASE_S):
                    heartbeat = await self._heartbeats.take()
            except TimeoutError:
                message = f"No heartbeat for {settings.SKEP_LEASE_S:g} s."
                raise Refusal("heartbeat_missing", message, CLOSE_SILENT) from None
            try:
                revision = await groups().heartbeat(self.node_id, self.epoch, heartbeat)
            except failures.DATABASE_ERRORS as error:
                raise_unless_away(error)
                rarely(log, "heartbeat", "heartbeat_not_stored", error=str(error)[:200])
                continue
            await self._socket.send(HeartbeatAck(seq=heartbeat.seq).model_dump_json())
            if revision != self._sent.revision:
                self._changes.put(None)

    async def _send_state(self) -> None:
        """Send what tasks may reach first: then nothing starts under an older policy."""
        sent = await _network_policy()
        await self._socket.send(sent)
        await first_to_end(
            self._send_desired(),
            self._send_policies(sent),
            self._send_work(),
        )

    async def _send_policies(self, sent: str) -> None:
        while True:
            await asyncio.sleep(network.FRESH_S)
            frame = await _network_policy()
            if frame != sent:
                await self._socket.send(frame)
                sent = frame

    async def _send_desired(self) -> None:
        while True:
            await self._changes.take()
            state, self._first_state = self._first_state, None
            if state is None:
                state = await groups().desired_frame(self.node_id, self._sent)
            if state is not None:
                telemetry.hold(self.node_id, state.attempts, state.kept)
                if state.frame != self._sent_frame:
                    await self._socket.send(state.frame)
                # Whether they can be described is asked again at each heartbeat.
                self._sent_frame = state.frame if state.kept else ""
                revision = None if state.kept else state.revision
                self._sent = self._sent._replace(revision=revision)

    async def _send_orders(self) -> None:
        """Send orders to open streams. One that is lost with the broker is asked for again by its
        client."""
        while True:
            together = await self._orders.take()
            try:
                if together:  # with those of all others that connect, or missed notifications
                    orders = await groups().orders(self.node_id)
                else:
                    orders = await relay.orders_of(self.node_id)
            except (RedisError, OSError) as error:
                log.warning("orders_not_read", error=type(error).__name__)
                continue
            for order in orders:
                await self._socket.send(order.decode())

    async def _apply_facts(self) -> None:
        while True:
            facts = await self._facts.take()
            await groups().store_facts(self.node_id, facts)
            last = max(fact.seq for fact in facts)
            await self._socket.send(ReportAck(seq=last).model_dump_json())

    async def _store_inventories(self) -> None:
        while True:
            inventory = await self._inventories.take()
            try:
                await retry_while_unavailable(
                    concurrency.control,
                    cluster.update_inventory,
                    self.node_id,
                    self.epoch,
                    inventory,
                )
            except SkepError as error:
                if error.code == "session_fenced":
                    raise
                # What runs on the node matters more: refuse it, and go on with the old inventory.
                await self._socket.send(refused(error).model_dump_json())

    async def _store_images(self) -> None:
        while True:
            found = await self._images.take()
            await groups().store_images(self.node_id, found)

    async def _store(self, reports: BatchQueue[Any], apply: Callable[..., None]) -> None:
        while True:
            found = await reports.take()
            await retry_while_unavailable(concurrency.control, apply, self.node_id, found)

    async def _send_work(self) -> None:
        """Send what there is to do beside tasks, of each kind: first, and when it changed."""
        sent: dict[ModuleType, str] = {}
        while True:
            await asyncio.sleep(FRESH_S)
            for work in WORK:
                frame = work.NOTHING
                if self.node_id in await _nodes_with(work):
                    frame = await retry_while_unavailable(
                        concurrency.control, work.frame, self.node_id
                    )
                if frame != sent.get(work):
                    await self._socket.send(frame)
                    sent[work] = frame

    async def _end_when_replaced(self) -> None:
        await self._replaced.wait()
        message = "A newer connection of this agent took over."
        raise Refusal("session_fenced", message, CLOSE_REPLACED)

    async def _end_when_left(self) -> None:
        await self._left.wait()


async def _nodes_with(work: ModuleType) -> Collection[UUID]:
    if (nodes := work.nodes_with_work.fresh()) is not None:  # spares a change of threads
        return nodes
    return await retry_while_unavailable(concurrency.control, work.nodes_with_work)


async def _network_policy() -> str:
    if fresh := network.fresh_frame():  # spares a change of threads at each Hello
        return fresh
    return await retry_while_unavailable(concurrency.control, network.frame)


async def parse(text: str) -> AgentMessage:
    """Raises ProtocolError."""
    if len(text) > BIG_FRAME:
        return await concurrency.control.run(parse_agent_message, text)
    return parse_agent_message(text)


def refused(error: SkepError | Refusal) -> Refused:
    return Refused(code=error.code, message=error.message, details=error.details)


log = structlog.get_logger(__name__)

LIVE_EVERY_S = 1.0
ROLLUP_EVERY = 15  # live flushes


class Flusher:
    """Stores the samples of all agents of this process, while it has some."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for _ in range(ROLLUP_EVERY):
                await asyncio.sleep(LIVE_EVERY_S)
                await _tried(telemetry.flush_live)
            await flush()


async def flush() -> None:
    await _tried(telemetry.flush_rollups)


async def _tried(store: Callable[[], object]) -> None:
    """Run it and log a failure: samples that cannot be stored now are stored later or lost."""
    try:
        await concurrency.control.run(store)
    except Exception:
        log.exception("samples_not_stored")


_flushers: WeakKeyDictionary[asyncio.AbstractEventLoop, Flusher] = WeakKeyDictionary()


def flusher() -> Flusher:
    """Return the flusher of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _flushers:
        _flushers[loop] = Flusher()
    return _flushers[loop]
