"""A node without a machine: it carries out the agent core's instructions against containers that
are entries of a dict, and watches that the core never does what it must not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from skep_agent.containers import Container, Exit
from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.checks import Limits
from skep_agent.core.invariants import validate
from skep_agent.core.machine import NodeMachine
from skep_agent.core.records import Remembered
from skep_agent.protocol import AttemptFact, AttemptSpec, Gpu

LIMITS = Limits(cpus=8, memory_mb=1024, port_range=(20000, 20010))
LEASE_S = 30.0
Pending = do.Pull | do.Create | do.Start | do.Stop | do.Remove | do.VerifyGpus | do.Watch


@dataclass
class Log:
    """A log being shipped: drained once its end is known."""

    epoch: int
    ended: bool = False
    reported: bool = False


class World:
    """`send(event)` hands an event to the core and takes in what it answers. Operations wait in
    `pending` until a test completes them."""

    def __init__(self, gpus: list[Gpu] | None = None, *, strict: bool = True) -> None:
        self.strict = strict
        self.now = 1000.0
        self.gpus = gpus or []
        self.containers: dict[str, Container] = {}
        self.journal: dict[str, Remembered] = {}
        self.journal_lease: float | None = None
        self.pending: list[Pending] = []
        self.watched: dict[str, tuple[str, int]] = {}
        self.logs: dict[str, Log] = {}
        self.facts: list[AttemptFact] = []  # as they were made
        self.warnings: list[str] = []
        self.inventories = 0
        self.reconnects = 0
        self.evidence: set[tuple[str, int]] = set()  # lives (id, epoch) that may be stopped
        self.signals: dict[tuple[str, int], str] = {}  # by life
        self.busy: set[str] = set()  # GPUs with a process left on them
        self.lease_until: float | None = None
        self.revision = -1
        self.listed: dict[str, AttemptSpec] = {}  # by the newest Desired
        self.kept: dict[str, AttemptSpec | None] = {}  # as they were listed before
        self.connected = False
        self.machine = NodeMachine(LIMITS)
        self.begin()

    # --- the agent's process

    def begin(self) -> None:
        self.send(
            ev.AgentStarted(
                tuple(self.journal.values()),
                tuple(self.containers.values()),
                tuple(self.gpus),
                self.journal_lease,
            )
        )

    def restart(self) -> None:
        """SIGKILL: what was under way is forgotten, containers and journal stay."""
        self.pending.clear()
        self.watched.clear()
        self.logs.clear()
        self.connected = False
        self.machine = NodeMachine(LIMITS, next_seq=self.machine.outbox.next_seq)
        self.lease_until = self.journal_lease
        if self.lease_until is None:
            self.lease_until = self.now + LEASE_S
        self.begin()

    def send(self, event: ev.Event) -> list[do.Instruction]:
        out = self.machine.handle(event, ev.Moment(self.now, self.now))
        for instruction in out:
            self._take(instruction)
        validate(self.machine)
        return out

    def advance(self, seconds: float) -> None:
        self.now += seconds
        if self.lease_until is not None and self.now >= self.lease_until:
            self.evidence |= {(a.attempt_id, a.epoch) for a in self.machine.attempts.values()}
            self.connected = False
        if (due := self.machine.deadlines.next()) is not None and due <= self.now:
            self.send(ev.Tick())

    def freeze(self, seconds: float) -> None:
        """The agent's process is stopped: time passes, and it receives nothing, not even of its
        deadlines. What happens next comes to it before they do."""
        self.now += seconds
        if self.lease_until is not None and self.now >= self.lease_until:
            self.evidence |= {(a.attempt_id, a.epoch) for a in self.machine.attempts.values()}

    def lease_is_over(self) -> bool:
        until = self.machine.lease_until
        return until is not None and until <= self.now

    # --- the server

    def welcome(self) -> None:
        self.connected, self.revision = True, -1
        self.send(ev.Welcomed(LEASE_S, self.now))
        self.lease_until = max(self.now + LEASE_S, self.lease_until or 0)

    def disconnect(self) -> None:
        self.connected = False
        self.send(ev.Disconnected())

    def heartbeat(self) -> None:
        self.send(ev.HeartbeatAcked(self.now))
        if self.connected:
            self.lease_until = max(self.now + LEASE_S, self.lease_until or 0)

    def lease_seen(self) -> None:
        """The link renewed the lease, and the core does not know how."""
        self.send(ev.LeaseSeen(self.now + LEASE_S))
        self.lease_until = max(self.now + LEASE_S, self.lease_until or 0)

    def desire(
        self, *specs: AttemptSpec, revision: int | None = None, keep: Collection[str] = ()
    ) -> None:
        revision = self.revision + 1 if revision is None else revision
        if self.connected and revision >= self.revision:
            self.revision = revision
            before = self.kept | self.listed
            self.kept = {attempt_id: before.get(attempt_id) for attempt_id in keep}
            self.listed = {spec.attempt_id: spec for spec in specs}
            self._note_evidence()
        self.send(ev.DesiredArrived(revision, tuple(specs), frozenset(keep)))

    def _note_evidence(self) -> None:
        held: list[Any] = [*self.machine.attempts.values(), *self.containers.values()]
        for attempt in held:
            spec = self.listed.get(attempt.attempt_id)
            ordered = spec and spec.epoch == attempt.epoch and spec.desired == "stop"
            if spec is None:
                if attempt.attempt_id not in self.kept:
                    self.evidence.add((attempt.attempt_id, attempt.epoch))
            elif spec.epoch > attempt.epoch or ordered:
                self.evidence.add((attempt.attempt_id, attempt.epoch))

    def ack_facts(self) -> None:
        self.machine.outbox.take(10_000)
        if self.machine.outbox.sent:
            self.send(ev.FactsAcked(self.machine.outbox.sent[-1].seq))

    # --- the engine

    def look(self) -> None:
        """The agent lists its containers."""
        if self.connected and self.revision >= 0:
            self._note_evidence()
        self.send(ev.ContainersSeen(tuple(self.containers.values())))

    def complete(self, operation: Pending, error: str = "") -> None:
        """Carry out a pending operation and report its result."""
        self.pending.remove(operation)
        key = operation.attempt_id, operation.epoch
        if error:
            name: Any = type(operation).__name__.lower()
            self.send(ev.OperationFailed(*key, name, error, "as the test says"))
            return
        match operation:
            case do.Pull():
                self.send(ev.Pulled(*key))
            case do.Create():
                self.send(ev.Created(*key, self.create(operation)))
            case do.Start():
                self._start(operation)
            case do.Stop():
                self.exit(operation.container_id, 143)
            case do.Remove():
                self._remove(operation)
            case do.VerifyGpus():
                self._verify(operation)
            case do.Watch():
                self._report_end(operation)

    def fail_signal(self, attempt_id: str, epoch: int) -> None:
        """The engine did not answer when the checkpoint signal was to be sent."""
        self.send(ev.OperationFailed(attempt_id, epoch, "signal", "engine_down", "gone"))

    def complete_all(self) -> None:
        while self.pending:
            self.complete(self.pending[0])

    def create(self, operation: do.Create) -> str:
        container_id = f"c-{operation.attempt_id}-{operation.epoch}"
        spec = operation.spec
        self.containers.setdefault(
            container_id,
            Container(
                container_id,
                spec.attempt_id,
                spec.epoch,
                spec.job_id,
                tuple(spec.gpu_uuids),
                "created",
            ),
        )
        return container_id

    def exit(self, container_id: str, code: int = 0, **more: Any) -> None:
        container = self.containers.get(container_id)
        if container is not None and container.status == "running":
            end = Exit(code, **more)
            self.containers[container_id] = replace(container, status="exited", exit=end)
            if key := self.watched.pop(container_id, None):
                self.send(ev.Exited(*key, end))

    def vanish(self, container_id: str) -> None:
        """Someone removes the container behind the agent's back."""
        self.containers.pop(container_id, None)
        if key := self.watched.pop(container_id, None):
            self.send(ev.Vanished(*key))

    def drain(self, attempt_id: str) -> None:
        log = self.logs[attempt_id]
        if log.ended and not log.reported:
            log.reported = True
            self.send(ev.LogsDrained(attempt_id, log.epoch))

    def drain_all(self) -> None:
        for attempt_id in list(self.logs):
            if attempt_id in self.logs:
                self.drain(attempt_id)

    def settle(self) -> None:
        """Let everything that waits succeed, until nothing moves."""
        for _ in range(20):
            self.complete_all()
            self.drain_all()
            self.ack_facts()
            self.advance(0.1)

    def running(self) -> list[Container]:
        return [c for c in self.containers.values() if c.status == "running"]

    def phases(self, attempt_id: str) -> list[str]:
        return [fact.phase for fact in self.facts if fact.attempt_id == attempt_id]

    def _start(self, operation: do.Start) -> None:
        key = operation.attempt_id, operation.epoch
        container = self.containers.get(operation.container_id)
        if container is None:
            self.send(ev.OperationFailed(*key, "start", "start_failed", "no such container"))
            return
        assert container.status != "exited" or not self.strict, f"{container} starts again"
        if container.status == "created":
            self._check_start(container)
            container = replace(container, status="running")
            self.containers[container.container_id] = container
        self.send(ev.Started(*key))

    def _check_start(self, container: Container) -> None:
        for other in self.running() if self.strict else []:
            shared = set(other.gpu_uuids) & set(container.gpu_uuids)
            assert not shared, f"{container} starts on GPUs of {other}"

    def _report_end(self, watch: do.Watch) -> None:
        key = watch.attempt_id, watch.epoch
        container = self.containers.get(watch.container_id)
        end = container.exit if container is not None else None
        self.send(ev.Exited(*key, end) if end else ev.Vanished(*key))

    def _remove(self, operation: do.Remove) -> None:
        container = self.containers.pop(operation.container_id, None)
        if self.strict and container is not None and container.status == "running":
            key = operation.attempt_id, operation.epoch
            assert key in self.evidence, f"{container} killed without evidence"
        self.send(ev.Removed(operation.attempt_id, operation.epoch))

    def _verify(self, operation: do.VerifyGpus) -> None:
        key = operation.attempt_id, operation.epoch
        busy = {uuid: [4711] for uuid in operation.uuids if uuid in self.busy}
        self.send(ev.GpusBusy(*key, busy) if busy else ev.GpusClean(*key))

    # --- what the core answers

    def _take(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.Watch():
                self._watch(instruction)
            case do.ShipLogs():
                self.logs[instruction.attempt_id] = Log(instruction.epoch)
            case do.EndLogs() | do.DropLogs():
                self.logs[instruction.attempt_id].ended = True
            case do.Cancel(attempt_id=attempt_id):
                self.pending = [
                    op
                    for op in self.pending
                    if op.attempt_id != attempt_id
                    or not isinstance(op, do.Pull | do.Create | do.Start)
                ]
            case do.Signal(attempt_id, epoch):
                life = (attempt_id, epoch)
                if self.strict:
                    assert life in self.evidence, f"{attempt_id}: no evidence"
                    assert life not in self.signals, f"{attempt_id}: signalled twice"
                self.signals[life] = instruction.signal
            case do.Start():
                self._check_word(instruction)
                assert not self.lease_is_over() or not self.strict, f"{instruction} past the lease"
                self.pending.append(instruction)
            case do.Stop(attempt_id, epoch):
                if self.strict:
                    assert (attempt_id, epoch) in self.evidence, f"{attempt_id}: no evidence"
                self.pending.append(instruction)
            case do.Remember(record=record):
                self.journal[record.attempt_id] = record
            case do.Forget(attempt_id=attempt_id):
                self.journal.pop(attempt_id, None)
            case do.RememberLease(until=until):
                self.journal_lease = until
            case do.SendFacts():
                self._note_facts()
            case do.SendInventory():
                self.inventories += 1
            case do.Reconnect():
                self.reconnects += 1
                self.connected = False
            case do.Warn(code=code):
                self.warnings.append(code)
            case _:
                self.pending.append(instruction)

    def _watch(self, watch: do.Watch) -> None:
        container = self.containers.get(watch.container_id)
        if container is not None and container.status == "running":
            self.watched[watch.container_id] = watch.attempt_id, watch.epoch
        else:
            self.pending.append(watch)  # its end is to be reported

    def _check_word(self, start: do.Start) -> None:
        spec = self.listed.get(start.attempt_id) or self.kept.get(start.attempt_id)
        held = spec is not None and spec.epoch == start.epoch and spec.desired == "hold"
        assert not held, f"{start} while the server holds it back"

    def _note_facts(self) -> None:
        known = self.facts[-1].seq if self.facts else 0
        for fact in self.machine.outbox.waiting.values():
            if fact.seq > known:
                self.facts.append(fact)
                if fact.phase == "released":
                    self._check_release(fact)

    def _check_release(self, fact: AttemptFact) -> None:
        running = [c.attempt_id for c in self.running() if c.epoch == fact.epoch]
        assert fact.attempt_id not in running or not self.strict, f"{fact} while it runs"
