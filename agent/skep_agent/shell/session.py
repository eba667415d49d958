"""One accepted connection, as the main loop uses it: facts and logs go out, and what the server
says is handed to whoever it is for. Heartbeats are the link's (`shell/link.py`)."""

from __future__ import annotations

import asyncio
from typing import Protocol

from websockets.exceptions import ConnectionClosed

from skep_agent.core import events as ev
from skep_agent.core.machine import NodeMachine
from skep_agent.journal import Journal
from skep_agent.protocol import (
    Desired,
    ImageSaves,
    LogAck,
    LogAcks,
    Message,
    NetworkPolicy,
    NodeChecks,
    OpenStream,
    Prefetches,
    Report,
    ReportAck,
    ServerMessage,
    Welcome,
)
from skep_agent.shell.checks import NodeCheckRuns
from skep_agent.shell.image_saves import ContainerSaves
from skep_agent.shell.inbox import Connection
from skep_agent.shell.link import parsed
from skep_agent.shell.logs import LogShipper
from skep_agent.shell.prefetches import PrefetchPulls
from skep_agent.shell.tasks import first_of

# Facts of a burst travel together: what follows within so long, as long as more comes.
QUIET_S = 0.01
REPORT_DELAY_S = 0.02
REPORT_FACTS = 500
UNACKED_FACTS = 5000


class Node(Protocol):
    """What a session needs of its agent."""

    machine: NodeMachine
    journal: Journal
    logs: LogShipper
    prefetches: PrefetchPulls
    saves: ContainerSaves
    checks: NodeCheckRuns
    facts_due: asyncio.Event

    def dispatch(self, event: ev.Event) -> None: ...
    def broke(self, error: BaseException) -> None: ...
    def learn(self, desired: Desired) -> None: ...
    def use_network_policy(self, policy: NetworkPolicy) -> None: ...
    def open_stream(self, what: OpenStream) -> None: ...


class Session:
    """`open` when the server welcomed us, `close` when the connection is lost."""

    def __init__(self, node: Node, connection: Connection) -> None:
        self._node = node
        self._connection = connection
        self._sending: asyncio.Task[None] | None = None

    @property
    def welcome(self) -> Welcome:
        return self._connection.welcome

    def open(self) -> None:
        connection, welcome = self._connection, self.welcome
        self._node.dispatch(
            ev.Welcomed(welcome.lease_s, connection.sent_at, connection.welcomed_at)
        )
        self._node.logs.connected(welcome.log_positions, with_times=welcome.log_times)
        self._node.facts_due.set()
        self._sending = asyncio.create_task(self._send_all())

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        self._node.logs.disconnected()
        self._node.dispatch(ev.Disconnected())

    def acknowledged(self, sent_at: float) -> None:
        self._node.dispatch(ev.HeartbeatAcked(sent_at))

    def take(self, message: ServerMessage | str) -> None:
        match parsed(message) if isinstance(message, str) else message:
            case Desired() as desired:
                attempts, keep = tuple(desired.attempts), frozenset(desired.keep)
                self._node.dispatch(ev.DesiredArrived(desired.revision, attempts, keep))
                self._node.learn(desired)
            case NetworkPolicy() as policy:
                self._node.use_network_policy(policy)
            case Prefetches() as wanted:
                self._node.prefetches.want(wanted)
            case ImageSaves() as wanted:
                self._node.saves.want(wanted)
            case NodeChecks() as wanted:
                self._node.checks.want(wanted)
            case OpenStream() as what:
                self._node.open_stream(what)
            case ReportAck() as ack:
                self._node.dispatch(ev.FactsAcked(ack.seq))
                self._node.facts_due.set()
            case LogAck() as ack:
                self._node.logs.ack(ack)
            case LogAcks(acks=acks):
                for ack in acks:
                    self._node.logs.ack(ack)

    async def send(self, message: Message) -> None:
        """Raises ConnectionClosed."""
        await self._connection.send(message.model_dump_json())

    async def _send_all(self) -> None:
        try:
            await first_of(self._send_facts(), self._send_logs())
        except ConnectionClosed:
            return  # the link reports it
        except Exception as error:
            self._node.broke(error)

    async def _send_facts(self) -> None:
        outbox = self._node.machine.outbox
        while True:
            await self._node.facts_due.wait()
            await self._quiet()
            self._node.facts_due.clear()
            while outbox.waiting and len(outbox.sent) < UNACKED_FACTS:
                self._node.journal.reserve(outbox.next_seq)
                await self.send(Report(facts=outbox.take(REPORT_FACTS)))

    async def _quiet(self) -> None:
        """Wait until no more facts come for the moment, at most REPORT_DELAY_S."""
        loop, outbox = asyncio.get_running_loop(), self._node.machine.outbox
        end, seen = loop.time() + REPORT_DELAY_S, -1
        while seen != outbox.next_seq and loop.time() < end:
            seen = outbox.next_seq
            await asyncio.sleep(QUIET_S)

    async def _send_logs(self) -> None:
        while True:
            frame = await self._node.logs.next_frame()
            await self._connection.send(frame.encode())
