"""One session of one node: frames in, facts to the database, desired state out.

The reader never waits for the database: heartbeats, inventories and doorbells keep only their
newest, facts and log frames pile up to a bound and then stop the reading. Each kind of work has
one worker, so that a node never has two builds of its desired state, or two heartbeats, at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import structlog
from django.conf import settings
from redis import RedisError

from skep_agent.protocol import (
    CLOSE_PROTOCOL,
    CLOSE_REPLACED,
    CLOSE_SILENT,
    AgentMessage,
    AttemptFact,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Inventory,
    InventoryChanged,
    Leaving,
    LogFrame,
    ProtocolError,
    Refused,
    Report,
    ReportAck,
    Samples,
    UnknownMessage,
    parse_agent_message,
)
from skep_platform.cluster import network
from skep_platform.cluster import services as cluster
from skep_platform.core import outages
from skep_platform.core.doorbells import Message
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.logs import rarely
from skep_platform.gateway import relay, threads
from skep_platform.gateway.desired import build
from skep_platform.gateway.mailbox import Newest, Pile
from skep_platform.gateway.presence import presence
from skep_platform.gateway.retry import raise_unless_away, steadily
from skep_platform.gateway.shipping import LogShipper
from skep_platform.gateway.socket import CLOSE_RESTART, Refusal, Socket, first_to_end
from skep_platform.jobs import services as jobs
from skep_platform.telemetry import services as telemetry

log = structlog.get_logger(__name__)

MAX_FACTS = 2000  # waiting, after which the socket is not read
FAREWELL_S = 3.0  # for an agent to say that it knows that the server stops
BIG_FRAME = 64 * 1024  # characters; parsing more would hold up every other connection


class Session:
    def __init__(self, socket: Socket, node_id: UUID, epoch: int) -> None:
        self._socket = socket
        self.node_id = node_id
        self.epoch = epoch
        self._told_revision: int | None = None
        self._heartbeats: Newest[Heartbeat] = Newest()
        self._inventories: Newest[Inventory] = Newest()
        self._bells: Newest[None] = Newest()
        self._orders: Newest[None] = Newest()
        self._replaced = asyncio.Event()
        self._left = asyncio.Event()  # nothing more is handled: this server stops
        self._farewell: asyncio.Future[float | None] | None = None
        self._over = asyncio.Event()
        self._facts: Pile[AttemptFact] = Pile(MAX_FACTS)
        self._logs = LogShipper(node_id, socket)

    def on_bell(self, bell: Message) -> None:
        if bell["type"] == "node.replaced":
            if bell["epoch"] > self.epoch:
                self._replaced.set()
            return
        if bell["type"] != "node.open_stream":
            self._bells.put(None)
        if bell["type"] != "node.changed":  # also when bells were missed
            self._orders.put(None)

    def prepare_to_leave(self) -> None:
        """From now on the agent gets no answers: none may be older than what it is told next."""
        self._farewell = asyncio.get_running_loop().create_future()
        self._left.set()

    async def leave(self, for_s: float | None) -> None:
        """Tell the agent that the server stops, and for how long its lease is extended (None: it
        is not). Returns when it closed the connection: then it knows."""
        assert self._farewell is not None
        if not self._farewell.done():
            self._farewell.set_result(for_s)
        await self._over.wait()

    async def run(self) -> None:
        """Until the peer goes (Closed), misbehaves or is replaced (Refusal), or the server goes."""
        presence().add(self)
        try:
            await self._work()
            if self._farewell is not None:
                await self._take_leave(await self._farewell)
        finally:
            presence().discard(self)
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
        self._bells.put(None)  # the first desired state
        try:
            await first_to_end(
                self._read(),
                self._beat(),
                self._tell(),
                self._tell_orders(),
                self._apply_facts(),
                self._logs.run(),
                self._store_inventories(),
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
                log.debug("unknown_message", node=str(self.node_id), error=str(error))
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
            case Hello():
                raise Refusal("hello_again", "Hello is the first frame only.", CLOSE_PROTOCOL)

    async def _beat(self) -> None:
        """One query each. A database that is away renews no lease; the agent then fences itself
        by its own clock, and goes on if the database is back before that."""
        while True:
            try:
                async with asyncio.timeout(settings.SKEP_LEASE_S):
                    heartbeat = await self._heartbeats.take()
            except TimeoutError:
                message = f"No heartbeat for {settings.SKEP_LEASE_S:g} s."
                raise Refusal("heartbeat_missing", message, CLOSE_SILENT) from None
            try:
                revision = await threads.beats.run(
                    cluster.heartbeat, self.node_id, self.epoch, heartbeat
                )
            except outages.DATABASE_ERRORS as error:
                raise_unless_away(error)
                rarely(log, "heartbeat", "heartbeat_not_stored", error=str(error)[:200])
                continue
            await self._socket.send(HeartbeatAck(seq=heartbeat.seq).model_dump_json())
            if revision != self._told_revision:
                self._bells.put(None)

    async def _tell(self) -> None:
        """What tasks may reach first: then nothing starts under an older policy."""
        told = await steadily(threads.control, network.frame)
        await self._socket.send(told)
        await first_to_end(self._tell_desired(), self._tell_policies(told))

    async def _tell_policies(self, told: str) -> None:
        while True:
            await asyncio.sleep(network.FRESH_S)
            frame = await steadily(threads.control, network.frame)
            if frame != told:
                await self._socket.send(frame)
                told = frame

    async def _tell_desired(self) -> None:
        while True:
            await self._bells.take()
            state = await steadily(
                threads.control, build, self.node_id, self.epoch, self._told_revision
            )
            if state is not None:
                telemetry.hold(self.node_id, state.attempts)
                await self._socket.send(state.frame)
                self._told_revision = state.revision

    async def _tell_orders(self) -> None:
        """To open streams. One that is lost with the broker is asked for again by its client."""
        while True:
            await self._orders.take()
            try:
                orders = await relay.orders_of(self.node_id)
            except (RedisError, OSError) as error:
                log.warning("orders_not_read", error=type(error).__name__)
                continue
            for order in orders:
                await self._socket.send(order.decode())

    async def _apply_facts(self) -> None:
        while True:
            facts = await self._facts.take()
            await steadily(threads.facts, jobs.apply_facts, self.node_id, facts)
            last = max(fact.seq for fact in facts)
            await self._socket.send(ReportAck(seq=last).model_dump_json())

    async def _store_inventories(self) -> None:
        while True:
            inventory = await self._inventories.take()
            try:
                await steadily(
                    threads.control,
                    cluster.update_inventory,
                    self.node_id,
                    self.epoch,
                    inventory,
                )
            except SkepError as error:
                if error.code == "session_fenced":
                    raise
                # What runs on the node matters more: say no, and go on with the old inventory.
                await self._socket.send(refused(error).model_dump_json())

    async def _end_when_replaced(self) -> None:
        await self._replaced.wait()
        message = "A newer connection of this agent took over."
        raise Refusal("session_fenced", message, CLOSE_REPLACED)

    async def _end_when_left(self) -> None:
        await self._left.wait()


async def parse(text: str) -> AgentMessage:
    """Raises ProtocolError."""
    if len(text) > BIG_FRAME:
        return await threads.control.run(parse_agent_message, text)
    return parse_agent_message(text)


def refused(error: SkepError | Refusal) -> Refused:
    return Refused(code=error.code, message=error.message, details=error.details)
