"""One accepted connection: what the agent says on it, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

import structlog
from websockets.asyncio.client import ClientConnection

from skep_agent.core import events as ev
from skep_agent.core.machine import NodeMachine
from skep_agent.journal import Journal
from skep_agent.protocol import (
    Desired,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Leaving,
    LogAck,
    Message,
    NetworkPolicy,
    OpenStream,
    ProtocolError,
    Refused,
    Report,
    ReportAck,
    ServerMessage,
    Wait,
    Welcome,
    parse_server_message,
)
from skep_agent.shell.clock import Clock
from skep_agent.shell.logs import LogShipper
from skep_agent.shell.tasks import first_of

WELCOME_TIMEOUT_S = 15.0
# Facts of a burst travel together.
REPORT_DELAY_S = 0.02
REPORT_FACTS = 500
UNACKED_FACTS = 5000

log = structlog.get_logger(__name__)


class Silence(Exception):
    """The server does not answer on this connection."""


class ServerLeaves(Exception):
    """The server stops on purpose, and the lease was extended for that."""


class Node(Protocol):
    """What a session needs of its agent."""

    clock: Clock
    machine: NodeMachine
    journal: Journal
    logs: LogShipper
    facts_due: asyncio.Event

    def dispatch(self, event: ev.Event) -> None: ...
    def hello(self) -> Hello: ...
    def use_network_policy(self, policy: NetworkPolicy) -> None: ...
    def open_stream(self, what: OpenStream) -> None: ...


class Session:
    def __init__(self, node: Node, socket: ClientConnection) -> None:
        self._node = node
        self._socket = socket
        self._heartbeats: deque[tuple[int, float]] = deque()  # unacknowledged: seq, sent at
        self.welcome: Welcome | None = None

    async def run(self) -> None:
        """Until the connection ends: raises ConnectionClosed, Silence or ServerLeaves."""
        sent_at = self._node.clock.moment().mono
        await self.send(self._node.hello())
        self.welcome = welcome = await self._receive_welcome()
        self._node.dispatch(ev.Welcomed(welcome.lease_s, sent_at))
        self._node.logs.connected(welcome.log_positions)
        self._node.facts_due.set()
        try:
            await first_of(
                self._receive(),
                self._send_heartbeats(welcome),
                self._send_facts(),
                self._send_logs(),
            )
        finally:
            self._node.logs.disconnected()
            self._node.dispatch(ev.Disconnected())

    async def send(self, message: Message) -> None:
        await self._socket.send(message.model_dump_json())

    async def _next(self) -> ServerMessage | None:
        """None for a frame that means nothing: a newer server may say more than we know."""
        frame = await self._socket.recv()
        try:
            if isinstance(frame, str):
                return parse_server_message(frame)
            log.warning("frame_ignored", code="binary", size=len(frame))
        except ProtocolError as error:
            log.warning("frame_ignored", code=error.code, problem=str(error))
        return None

    async def _receive_welcome(self) -> Welcome:
        """Raises TimeoutError when the server says nothing for so long; one that has many agents
        to welcome says Wait."""
        while True:
            async with asyncio.timeout(WELCOME_TIMEOUT_S):
                message = await self._next()
            match message:
                case Welcome() as welcome:
                    return welcome
                case Wait():
                    log.info("waiting_for_welcome")
                case Refused() as refused:
                    _log_refusal(refused)

    async def _receive(self) -> None:
        while True:
            match await self._next():
                case Desired() as desired:
                    self._node.dispatch(
                        ev.DesiredArrived(desired.revision, tuple(desired.attempts))
                    )
                case NetworkPolicy() as policy:
                    self._node.use_network_policy(policy)
                case OpenStream() as what:
                    self._node.open_stream(what)
                case HeartbeatAck() as ack:
                    self._heartbeat_acked(ack.seq)
                case ReportAck() as ack:
                    self._node.dispatch(ev.FactsAcked(ack.seq))
                    self._node.facts_due.set()
                case LogAck() as ack:
                    self._node.logs.ack(ack)
                case Leaving(for_s=for_s):
                    log.warning("server_leaves_on_purpose", for_s=for_s)
                    self._node.dispatch(ev.LeaseExtended(for_s))
                    raise ServerLeaves(f"the server stops, for at most {for_s:.0f} s")
                case Refused() as refused:
                    _log_refusal(refused)

    def _heartbeat_acked(self, seq: int) -> None:
        sent_at = None
        while self._heartbeats and self._heartbeats[0][0] <= seq:
            sent_at = self._heartbeats.popleft()[1]
        if sent_at is not None:
            self._node.dispatch(ev.HeartbeatAcked(sent_at))

    async def _send_heartbeats(self, welcome: Welcome) -> None:
        """Raises Silence when half the lease passes without an answer: better a new connection
        than a fence."""
        clock, seq = self._node.clock, 0
        while True:
            await clock.sleep(welcome.heartbeat_interval_s)
            seq += 1
            now = clock.moment().mono
            if self._heartbeats and now - self._heartbeats[0][1] > welcome.lease_s / 2:
                raise Silence("heartbeats are not acknowledged")
            self._heartbeats.append((seq, now))
            await self.send(Heartbeat(seq=seq, revision=self._node.machine.revision))

    async def _send_facts(self) -> None:
        outbox = self._node.machine.outbox
        while True:
            await self._node.facts_due.wait()
            await asyncio.sleep(REPORT_DELAY_S)
            self._node.facts_due.clear()
            while outbox.waiting and len(outbox.sent) < UNACKED_FACTS:
                self._node.journal.reserve(outbox.next_seq)
                await self.send(Report(facts=outbox.take(REPORT_FACTS)))

    async def _send_logs(self) -> None:
        while True:
            frame = await self._node.logs.next_frame()
            await self._socket.send(frame.encode())


def _log_refusal(refused: Refused) -> None:
    log.error("server_refused", code=refused.code, message=refused.message)
