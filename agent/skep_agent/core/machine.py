"""The agent's brain: `handle(event, now)` returns the instructions that follow from an event.

It does no input or output and has no clock. A container is stopped only on positive evidence: asked
for, left out of a complete `Desired` of the present session, or the node's lease is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from skep_agent.core import events as ev
from skep_agent.core.adoption import Adoption
from skep_agent.core.attempt import RUNNING, Attempt, History, Tombstone
from skep_agent.core.checks import Limits, check, host_ports, well_formed
from skep_agent.core.deadlines import Deadlines
from skep_agent.core.gpus import GpuTable
from skep_agent.core.instructions import (
    Cancel,
    DropLogs,
    Instruction,
    Reconnect,
    RememberLease,
    Remove,
    SendFacts,
    SendInventory,
    Stop,
    VerifyGpus,
    Warn,
)
from skep_agent.core.lifecycle import (
    LOG_PATIENCE_S,
    NEVER_STARTED,
    OPERATION_S,
    PULL_STALL_S,
    Lifecycle,
)
from skep_agent.core.outbox import Outbox
from skep_agent.core.records import Outcome, StopPlan, unhandled
from skep_agent.protocol import AttemptSpec

PULL_REPORT_S = 1.0  # between two reports of how far a pull is
VERIFY_LIMIT_S = 60.0  # processes still on a GPU after this put it in quarantine
VERIFY_LATER_S = 30.0  # and are then looked for this often
RETRY_MAX_S = 30.0
MAX_XIDS = 32  # reported of one attempt


@dataclass(slots=True)
class ServerSession:
    """One connection, from Welcome to its end."""

    revision: int = -1  # newest Desired of this session
    listed: dict[str, AttemptSpec] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()  # they go on, as nothing is known about them

    def forgets(self, attempt_id: str) -> bool:
        """Whether an attempt that the node holds is to be stopped, as the server leaves it out."""
        return self.revision >= 0 and attempt_id not in self.listed and attempt_id not in self.kept


class NodeMachine:
    """All state of one agent; see `Lifecycle` for the attempts, `invariants.validate` for what
    always holds."""

    def __init__(self, limits: Limits, next_seq: int = 1) -> None:
        self.life = Lifecycle(limits, next_seq, self._gone)
        self._adoption = Adoption(self.life, self._adopted)
        self.session: ServerSession | None = None

    def handle(self, event: ev.Event, now: ev.Moment) -> list[Instruction]:
        """Return the instructions that follow from one event."""
        self.life.begin(type(event).__name__, now)
        if self._is_overdue() and not isinstance(event, _RENEWALS):
            # This process was stopped past the end of the lease: that comes first, before what
            # happened meanwhile is taken for an end of its own, or for leave to start something.
            self.deadlines.cancel("lease")
            self._fence()
        _HANDLERS[type(event)](self, event)
        return self.life.out

    # --- what others read of it

    @property
    def limits(self) -> Limits:
        return self.life.limits

    @property
    def attempts(self) -> dict[str, Attempt]:
        return self.life.attempts

    @property
    def tombstones(self) -> dict[str, Tombstone]:
        return self.life.tombstones

    @property
    def gpus(self) -> GpuTable:
        return self.life.gpus

    @property
    def outbox(self) -> Outbox:
        return self.life.outbox

    @property
    def acked_seq(self) -> int:
        return self.life.acked_seq

    @property
    def deadlines(self) -> Deadlines:
        return self.life.deadlines

    @property
    def lease_until(self) -> float | None:
        """The monotonic seconds of the lease's end; None before any server was met."""
        return self.life.lease_until

    def history(self, attempt_id: str) -> History:
        """Return what happened to an attempt that is held, or is gone not long ago."""
        return self.life.history(attempt_id)

    def _is_overdue(self) -> bool:
        until = self.lease_until
        return "lease" in self.deadlines and until is not None and until <= self.life.now.mono

    @property
    def revision(self) -> int:
        return max(self.session.revision, 0) if self.session else 0

    def running(self) -> list[Attempt]:
        return [a for a in self.attempts.values() if a.state in RUNNING]

    def known(self) -> list[str]:
        """Attempts that are held, or are known to be over: none of them is started again."""
        return [
            *self.attempts,
            *(id_ for id_ in self.tombstones if id_ not in self.attempts),
        ]

    # --- the server

    def _welcomed(self, event: ev.Welcomed) -> None:
        self.session = ServerSession()
        received_at = self.life.now.mono if event.received_at is None else event.received_at
        self.life.lease.welcomed(event.lease_s, event.sent_at, received_at)
        self._lease_changed()
        self.outbox.rewind()
        if self.outbox.waiting:
            self.life.out.append(SendFacts())

    def _disconnected(self, event: ev.Disconnected) -> None:
        self.session = None

    def _heartbeat_acked(self, event: ev.HeartbeatAcked) -> None:
        if self.session is not None and self.life.lease.acknowledged(event.sent_at):
            self._lease_changed()

    def _lease_extended(self, event: ev.LeaseExtended) -> None:
        if self.session is not None and self.life.lease.extended(event.for_s):
            self._lease_changed()

    def _lease_seen(self, event: ev.LeaseSeen) -> None:
        if self.life.lease.seen(event.until):
            self._lease_changed()

    def _lease_changed(self) -> None:
        assert self.life.lease.until is not None
        self.life.set_lease(self.life.lease.until)
        self.life.out.append(RememberLease(self.life.lease.until))

    def _fence(self) -> None:
        """The lease is over: the server may soon run our gangs elsewhere."""
        self.session = None
        self.life.out.append(Reconnect())
        for attempt in list(self.attempts.values()):
            self.life.stop(attempt, "fenced")

    def _desired(self, event: ev.DesiredArrived) -> None:
        session = self.session
        if session is None or event.revision < session.revision:
            return
        session.revision = event.revision
        session.listed = {spec.attempt_id: spec for spec in event.attempts}
        session.kept = event.keep
        for attempt in list(self.attempts.values()):
            if session.forgets(attempt.attempt_id):
                self.life.stop(attempt, "unlisted")
        for spec in session.listed.values():
            self._reconcile(spec)

    def _reconcile(self, spec: AttemptSpec) -> None:
        held = self.attempts.get(spec.attempt_id)
        tombstone = self.tombstones.get(spec.attempt_id)
        if held is not None:
            self._reconcile_held(held, spec)
        elif tombstone is not None and spec.epoch <= tombstone.epoch:
            self.life.report_again(spec.attempt_id, tombstone)
        else:
            self._admit(spec)

    def _reconcile_held(self, attempt: Attempt, spec: AttemptSpec) -> None:
        if spec.epoch < attempt.epoch:
            return
        if spec.epoch > attempt.epoch:
            self.life.stop(attempt, "superseded")
            return
        attempt.spec = attempt.spec or spec
        attempt.plan = StopPlan.of(attempt.spec)
        if spec.desired == "stop":
            attempt.preempted |= spec.stop_cause == "preempted" and attempt.stop_reason is None
            self.life.stop(attempt, "requested")
            if attempt.state == "saving" and spec.stop_at_once:
                self.life.move(attempt, "stopping")
            return
        attempt.hold = spec.desired == "hold"
        if attempt.state == "created" and not attempt.whole:
            self.life.move(attempt, "creating")
        elif attempt.state == "created" and not attempt.hold:
            self.life.move(attempt, "starting")

    def _admit(self, spec: AttemptSpec) -> None:
        if not well_formed(spec.attempt_id):
            self.life.out.append(
                Warn("bad_attempt_id", f"not an attempt id: {spec.attempt_id[:80]!r}")
            )
            return
        plan = StopPlan.of(spec)
        attempt = Attempt(spec.attempt_id, spec.epoch, spec.job_id, plan=plan, spec=spec)
        attempt.hold = spec.desired == "hold"
        if spec.desired == "stop":
            # An earlier life of this agent may have run it, and forgotten: its GPUs are looked at.
            seen = [uuid for uuid in spec.gpu_uuids if uuid in self.gpus.seen]
            attempt.gpus = self.gpus.hold(spec.attempt_id, seen)
            self.attempts[spec.attempt_id] = attempt
            self.life.stop(attempt, "requested")
            return
        refusal = check(spec, self.limits, self.gpus, self.life.ports_held())
        self.attempts[spec.attempt_id] = attempt
        if refusal is not None:
            self.life.end(
                attempt, Outcome("failed", error_code=refusal.code, message=refusal.message)
            )
            return
        attempt.gpus = self.gpus.hold(spec.attempt_id, spec.gpu_uuids)
        attempt.ports = host_ports(spec)
        self.life.move(attempt, "pulling")

    def _gone(self, attempt_id: str) -> None:
        """A newer life of the same attempt may be waiting for this end."""
        spec = self.session.listed.get(attempt_id) if self.session else None
        if spec is not None and spec.epoch > self.tombstones[attempt_id].epoch:
            self._admit(spec)

    def _adopted(self, attempt: Attempt) -> None:
        """Found after the start: the newest Desired already speaks about it."""
        if self.session is None:
            return
        if self.session.forgets(attempt.attempt_id):
            self.life.stop(attempt, "unlisted")
        elif (spec := self.session.listed.get(attempt.attempt_id)) is not None:
            self._reconcile_held(attempt, spec)

    def _facts_acked(self, event: ev.FactsAcked) -> None:
        for fact in self.outbox.ack(event.seq):
            self.life.acked_seq = fact.seq
            attempt = self.attempts.get(fact.attempt_id)
            if fact.phase == "released" and attempt is not None and attempt.epoch == fact.epoch:
                attempt.release_acked = True
                self.life.finish_if_due(attempt)

    # --- the runtime

    def _held(self, event: ev.AttemptEvent) -> Attempt | None:
        attempt = self.attempts.get(event.attempt_id)
        return attempt if attempt is not None and attempt.epoch == event.epoch else None

    def _pull_progressed(self, event: ev.PullProgressed) -> None:
        attempt = self._held(event)
        if attempt is None or attempt.state != "pulling":
            return
        self.life.within(attempt, PULL_STALL_S)
        rose = event.percent > attempt.pull_percent
        if rose and self.life.now.mono >= attempt.pull_reported_at + PULL_REPORT_S:
            attempt.pull_percent = min(event.percent, 100)
            attempt.pull_bytes, attempt.pull_total_bytes = event.done, event.total
            attempt.pull_reported_at = self.life.now.mono
            self.life.report(attempt, "pulling")

    def _pulled(self, event: ev.Pulled) -> None:
        attempt = self._held(event)
        if attempt is not None and attempt.state == "pulling":
            self.life.move(attempt, "creating")

    def _created(self, event: ev.Created) -> None:
        attempt = self._held(event)
        if attempt is None or attempt.state != "creating":
            return
        attempt.container_id, attempt.whole = event.container_id, True
        if attempt.stop_reason is not None:
            self.life.end(attempt, NEVER_STARTED)
        else:
            self.life.move(attempt, "created" if attempt.hold else "starting")

    def _started(self, event: ev.Started) -> None:
        attempt = self._held(event)
        if attempt is not None and attempt.state == "starting":
            self.life.move(attempt, "running")

    def _signalled(self, event: ev.Signalled) -> None:
        """Report a signal that no process handles: the server alone knows whether another task of
        the gang saves its work, and needs this one for it."""
        attempt = self._held(event)
        if attempt is not None and attempt.state == "saving" and not event.handled:
            self.life.report(attempt, "stopping", unhandled(attempt.plan.signal))

    def _exited(self, event: ev.Exited) -> None:
        attempt = self._held(event)
        if attempt is not None and attempt.state in RUNNING:
            self.life.end(attempt, Outcome.of(event.exit))

    def _vanished(self, event: ev.Vanished) -> None:
        attempt = self._held(event)
        if attempt is None or attempt.state not in RUNNING:
            return
        attempt.container_id = ""
        self.life.end(attempt, Outcome("lost", message="Someone removed its container."))

    def _removed(self, event: ev.Removed) -> None:
        attempt = self._held(event)
        if attempt is not None and attempt.state == "removing":
            self.life.move(attempt, "gone")

    def _operation_failed(self, event: ev.OperationFailed) -> None:
        attempt = self._held(event)
        if attempt is None:
            return
        if attempt.state == _DURING.get(event.operation):
            self._fail(attempt, event.code, event.message)
        elif (event.operation, attempt.state) in _RETRIED:
            self._retry(attempt)
        elif event.operation == "signal":
            text = f"{attempt.attempt_id} did not get its checkpoint signal: {event.message}"
            self.life.out.append(Warn("signal_failed", text))

    def _fail(self, attempt: Attempt, code: str, message: str) -> None:
        if attempt.stop_reason is not None:
            self.life.end(attempt, NEVER_STARTED)
        else:
            full = code == "disk_full"
            outcome = Outcome("failed", error_code=code, message=message, disk_full=full)
            self.life.end(attempt, outcome)

    def _retry(self, attempt: Attempt) -> None:
        attempt.retries += 1
        self.life.within(attempt, min(0.5 * 2**attempt.retries, RETRY_MAX_S))

    def _logs_drained(self, event: ev.LogsDrained) -> None:
        attempt = self._held(event)
        if attempt is not None:
            attempt.drained = True
            self.life.finish_if_due(attempt)

    # --- the GPUs

    def _gpus_clean(self, event: ev.GpusClean) -> None:
        attempt = self._held(event)
        if attempt is None or attempt.state != "ended":
            return
        if self.gpus.lift(attempt.gpus):
            self.life.out.append(SendInventory())
        self.life.move(attempt, "released")

    def _gpus_busy(self, event: ev.GpusBusy) -> None:
        attempt = self._held(event)
        if attempt is None or attempt.state != "ended":
            return
        if self.life.now.mono - attempt.ended_at < VERIFY_LIMIT_S:
            attempt.retries += 1
            self.life.within(attempt, min(0.05 * 2**attempt.retries, 5.0))
            return
        self._quarantine(attempt, event.pids)
        self.life.within(attempt, VERIFY_LATER_S)

    def _quarantine(self, attempt: Attempt, pids: dict[str, list[int]]) -> None:
        problems = {
            uuid: f"process {', '.join(map(str, pids[uuid]))} still on it after attempt "
            f"{attempt.attempt_id} ended"
            for uuid in attempt.gpus
            if uuid in pids
        }
        if self.gpus.quarantine(problems):
            self.life.out.append(SendInventory())
        outcome = attempt.outcome
        if not attempt.gpus_reported and outcome is not None and outcome.phase != "lost":
            attempt.gpus_reported = True
            text = "; ".join(f"GPU {uuid}: {problem}" for uuid, problem in problems.items())
            self.life.out.append(Warn("gpu_busy", text))
            self.life.report(attempt, outcome.phase, replace(outcome, message=text))

    def _gpus_seen(self, event: ev.GpusSeen) -> None:
        if self.gpus.see(event.gpus):
            self.life.out.append(SendInventory())

    def _xids_seen(self, event: ev.XidsSeen) -> None:
        """Reported with the end: the last ones may come when the process is dead already."""
        for attempt in self.attempts.values():
            if attempt.state in _ON_GPU and attempt.gpus:
                mine = [xid for uuid, xid in event.xids if not uuid or uuid in attempt.gpus]
                attempt.xids = tuple(dict.fromkeys([*attempt.xids, *mine]))[:MAX_XIDS]

    # --- the clock

    def _tick(self, event: ev.Tick) -> None:
        for name in self.deadlines.pop_due(self.life.now.mono):
            if name == "lease":
                self._fence()
            elif attempt := self.attempts.get(name):
                self._overdue(attempt)

    def _overdue(self, attempt: Attempt) -> None:
        key = attempt.attempt_id, attempt.epoch
        match attempt.state:
            case "pulling":
                self.life.out.append(Cancel(*key))
                self._fail(attempt, "image_pull", "The pull made no progress for 15 minutes.")
            case "creating" | "starting" as state:
                self.life.out.append(Cancel(*key))
                if attempt.container_id:
                    self.life.out.append(Stop(*key, attempt.container_id, 0.0))
                self._fail(attempt, "engine_down", f"The engine did not answer while {state}.")
            case "saving":
                self.life.move(attempt, "stopping")
            case "stopping":
                self.life.send_stop(attempt, 0.0)
            case "ended":
                self.life.out.append(VerifyGpus(*key, attempt.gpus))
                self.life.within(attempt, OPERATION_S)
            case "released":
                self._give_up_logs(attempt)
            case "removing":
                self.life.out.append(Remove(*key, attempt.container_id))
                self.life.within(attempt, OPERATION_S)

    def _give_up_logs(self, attempt: Attempt) -> None:
        forgotten = self.session is not None and self.session.forgets(attempt.attempt_id)
        if not forgotten or attempt.drained:
            self.life.within(attempt, LOG_PATIENCE_S)
            return
        self.life.out.append(
            Warn("log_given_up", f"the server does not take the log of {attempt.attempt_id}")
        )
        self.life.out.append(DropLogs(attempt.attempt_id, attempt.epoch))
        attempt.drained = True
        self.life.finish_if_due(attempt)


# Its process is, or was, on its GPUs.
_ON_GPU = RUNNING | {"starting", "ended"}
_DURING = {"pull": "pulling", "create": "creating", "start": "starting"}
_RETRIED = {("stop", "stopping"), ("remove", "removing")}

# They may say that the lease goes on; a Tick does the same with all that is due.
_RENEWALS = (
    ev.AgentStarted,
    ev.Welcomed,
    ev.HeartbeatAcked,
    ev.LeaseExtended,
    ev.LeaseSeen,
    ev.Tick,
)

_HANDLERS: dict[type, Callable] = {
    ev.AgentStarted: lambda node, event: node._adoption.agent_started(event),
    ev.ContainersSeen: lambda node, event: node._adoption.containers_seen(event),
    ev.Welcomed: NodeMachine._welcomed,
    ev.Disconnected: NodeMachine._disconnected,
    ev.HeartbeatAcked: NodeMachine._heartbeat_acked,
    ev.LeaseExtended: NodeMachine._lease_extended,
    ev.LeaseSeen: NodeMachine._lease_seen,
    ev.DesiredArrived: NodeMachine._desired,
    ev.FactsAcked: NodeMachine._facts_acked,
    ev.PullProgressed: NodeMachine._pull_progressed,
    ev.Pulled: NodeMachine._pulled,
    ev.Created: NodeMachine._created,
    ev.Started: NodeMachine._started,
    ev.Signalled: NodeMachine._signalled,
    ev.Exited: NodeMachine._exited,
    ev.Vanished: NodeMachine._vanished,
    ev.Removed: NodeMachine._removed,
    ev.OperationFailed: NodeMachine._operation_failed,
    ev.LogsDrained: NodeMachine._logs_drained,
    ev.GpusClean: NodeMachine._gpus_clean,
    ev.GpusBusy: NodeMachine._gpus_busy,
    ev.GpusSeen: NodeMachine._gpus_seen,
    ev.XidsSeen: NodeMachine._xids_seen,
    ev.Tick: NodeMachine._tick,
}
