"""The life of each attempt on a node, as a table of transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from skep_agent.core.attempt import OVER, Attempt, History, State, Tombstone, Transition
from skep_agent.core.checks import Limits
from skep_agent.core.deadlines import Deadlines
from skep_agent.core.events import Moment
from skep_agent.core.gpus import GpuTable
from skep_agent.core.instructions import (
    Cancel,
    Create,
    EndLogs,
    Forget,
    Instruction,
    Pull,
    Remember,
    Remove,
    SendFacts,
    ShipLogs,
    Signal,
    Start,
    Stop,
    VerifyGpus,
    Watch,
)
from skep_agent.core.lease import Lease
from skep_agent.core.outbox import Outbox
from skep_agent.core.records import Outcome, StopReason
from skep_agent.protocol import AttemptFact, AttemptSpec, Phase

# How long a state may last, in seconds, before the tick does something about it.
PULL_STALL_S = 900.0  # without progress
OPERATION_S = 300.0  # create, start, remove, a look at the GPUs
STOP_MARGIN_S = 30.0  # beyond the grace time, before stop is asked again
LOG_PATIENCE_S = 3600.0  # for a log that the server does not take, of an attempt it forgot
# The server waits only a little longer than the lease (its margin is 5 s by default).
FENCE_GRACE_S = 3.0
TOMBSTONES_KEPT = 2000
# Of a fact: engines and registries quote what tenants wrote.
MESSAGE_CHARS = 2000
CODE_CHARS = 64

NODE_LOST = "The node lost the control plane for longer than its lease, and stopped the task."
NEVER_STARTED = Outcome("exited", message="Stopped before it started.")


class IllegalTransition(RuntimeError):
    """A transition that the table does not have; the text has the attempt's history."""


class Lifecycle:
    """Attempts and what they hold. Whoever handles an event calls `begin` first and takes the
    instructions from `out` after it."""

    def __init__(self, limits: Limits, next_seq: int, on_gone: Callable[[str], None]) -> None:
        """`on_gone` is called with the id of an attempt that is gone: the id is free again."""
        self.limits = limits
        self.attempts: dict[str, Attempt] = {}
        self.tombstones: dict[str, Tombstone] = {}  # oldest first, at most TOMBSTONES_KEPT
        self.gpus = GpuTable()
        self.outbox = Outbox(next_seq)
        self.acked_seq = 0
        self.deadlines = Deadlines()  # by attempt id, and "lease"
        self.lease = Lease()
        self.now = Moment(0.0, 0.0)
        self.cause = ""
        self.out: list[Instruction] = []
        self._on_gone = on_gone

    def begin(self, cause: str, now: Moment) -> None:
        """Start to collect the instructions that follow from one event."""
        self.now, self.cause, self.out = now, cause, []

    def history(self, attempt_id: str) -> History:
        """What happened to an attempt that is held, or is gone not long ago."""
        holder = self.attempts.get(attempt_id) or self.tombstones.get(attempt_id)
        return holder.history if holder else History()

    @property
    def lease_until(self) -> float | None:
        """Monotonic seconds; None before any server was met."""
        return self.lease.until

    def set_lease(self, until: float) -> None:
        self.lease.until = until
        self.deadlines.set("lease", until)

    def stop(self, attempt: Attempt, reason: StopReason) -> None:
        """Stop it for good, whatever it is doing. Only the first reason counts, but a fence
        shortens the grace time of a stop under way."""
        if attempt.state in OVER:
            return
        if attempt.stop_reason is not None:
            if reason == "fenced":
                self._hurry(attempt)
            return
        attempt.stop_reason = reason
        if attempt.state == "running":
            self._begin_stop(attempt)
        elif attempt.state == "pulling":
            self.out.append(Cancel(attempt.attempt_id, attempt.epoch))
            self.end(attempt, NEVER_STARTED)
        elif attempt.state in ("new", "created"):
            self.end(attempt, NEVER_STARTED)
        # creating, starting: cannot be interrupted; looked at when they are done

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its process is dead, or never was."""
        unsynced = outcome.error_code == "storage_not_synced"  # and it exited with 0
        if attempt.stop_reason == "fenced" and (outcome.phase == "exited" or unsynced):
            outcome = Outcome("failed", error_code="node_lost", message=NODE_LOST)
        attempt.xids = attempt.xids or outcome.xids
        message = outcome.message[:MESSAGE_CHARS]
        attempt.outcome = replace(outcome, xids=attempt.xids, message=message)
        self.move(attempt, "ended")

    def move(self, attempt: Attempt, finish: State) -> None:
        """Make one transition. Raises IllegalTransition for a pair that the table does not have."""
        start = attempt.state
        attempt.history.append(Transition(self.now.wall, start, finish, self.cause))
        step = _TABLE.get((start, finish))
        if step is None:
            raise IllegalTransition(f"{attempt.attempt_id}: {start} → {finish}\n{attempt.history}")
        attempt.state = finish
        attempt.retries = 0
        self.deadlines.cancel(attempt.attempt_id)
        step(self, attempt)

    def finish_if_due(self, attempt: Attempt) -> None:
        """The container goes last: until then it is the proof of what happened."""
        if attempt.state == "released" and attempt.release_acked and attempt.drained:
            self.move(attempt, "removing" if attempt.container_id else "gone")

    def report(self, attempt: Attempt, phase: Phase, outcome: Outcome | None = None) -> None:
        self._report(attempt.attempt_id, attempt.epoch, phase, outcome, attempt)

    def report_again(self, attempt_id: str, tombstone: Tombstone) -> None:
        """A server that lists an attempt that is gone has missed its end."""
        if tombstone.reported_seq > self.acked_seq:
            return
        if tombstone.outcome.phase != "lost":
            self._report(attempt_id, tombstone.epoch, tombstone.outcome.phase, tombstone.outcome)
        self._report(attempt_id, tombstone.epoch, "released")
        tombstone.reported_seq = self.outbox.next_seq - 1

    def ports_held(self) -> set[int]:
        return {port for attempt in self.attempts.values() for port in attempt.ports}

    def _report(
        self,
        attempt_id: str,
        epoch: int,
        phase: Phase,
        outcome: Outcome | None = None,
        attempt: Attempt | None = None,
    ) -> None:
        reported = outcome or _NOTHING
        pulling = attempt is not None and phase == "pulling"
        self.outbox.add(
            AttemptFact(
                seq=self.outbox.take_seq(),
                attempt_id=attempt_id,
                epoch=epoch,
                phase=phase,
                at=self.now.wall,
                container_id=attempt.container_id if attempt else "",
                exit_code=reported.exit_code,
                signal=reported.signal,
                oom_killed=reported.oom_killed,
                error_code=reported.error_code[:CODE_CHARS],
                message=reported.message[:MESSAGE_CHARS],
                pull_percent=attempt.pull_percent if attempt and pulling else None,
                pull_bytes=attempt.pull_bytes if attempt and pulling else None,
                pull_total_bytes=attempt.pull_total_bytes if attempt and pulling else None,
                memory_peak_mb=reported.memory_peak_mb,
                xids=list(attempt.xids if attempt else reported.xids),
                disk_full=reported.disk_full,
            )
        )
        if not self.out or not isinstance(self.out[-1], SendFacts):
            self.out.append(SendFacts())

    # --- one function per transition of the table, in the order of a life

    def _pull(self, attempt: Attempt) -> None:
        self.report(attempt, "pulling")
        key, spec = (attempt.attempt_id, attempt.epoch), _spec(attempt)
        self.out.append(Pull(*key, spec.image, spec.working_files, tuple(spec.s3)))
        self.within(attempt, PULL_STALL_S)

    def _create(self, attempt: Attempt) -> None:
        self.report(attempt, "creating")
        self.out.append(Create(attempt.attempt_id, attempt.epoch, _spec(attempt)))
        self.within(attempt, OPERATION_S)

    def _wait(self, attempt: Attempt) -> None:
        """Only the server knows whether the others of its gang are ready too; and whether it is
        still wanted, when this agent was not there for a while."""
        if attempt.whole:
            self.out.append(Remember(attempt.record()))
            self.report(attempt, "ready")

    def _start(self, attempt: Attempt) -> None:
        self.out.append(Remember(attempt.record()))
        key = attempt.attempt_id, attempt.epoch, attempt.container_id
        self.out.append(Start(*key, attempt.ports))
        self.within(attempt, OPERATION_S)

    def _run(self, attempt: Attempt) -> None:
        key = attempt.attempt_id, attempt.epoch, attempt.container_id
        self.out += [Watch(*key), ShipLogs(*key)]
        attempt.shipping = True
        self.report(attempt, "running")
        if attempt.stop_reason is not None:
            self._begin_stop(attempt)

    def _save(self, attempt: Attempt) -> None:
        self.report(attempt, "stopping")
        key = attempt.attempt_id, attempt.epoch, attempt.container_id
        if attempt.save_until is None:
            attempt.save_until = self.now.mono + attempt.plan.signal_grace_s
            self.out.append(Remember(attempt.record()))
            self.out.append(Signal(*key, attempt.plan.signal))
        self.deadlines.set(attempt.attempt_id, attempt.save_until)

    def _stop(self, attempt: Attempt) -> None:
        if attempt.save_until is None:
            self.report(attempt, "stopping")
        if attempt.kill_at is None:
            fenced = attempt.stop_reason == "fenced"
            grace_s = FENCE_GRACE_S if fenced else attempt.plan.grace_s
            if attempt.plan.signal == "SIGTERM" and attempt.save_until is not None and not fenced:
                # A shell's trap may be all that saves: it keeps the time that it was given.
                grace_s += max(attempt.save_until - self.now.mono, 0.0)
            attempt.kill_at = self.now.mono + grace_s
            self.out.append(Remember(attempt.record()))
        self.send_stop(attempt, self._grace_left(attempt))

    def _end(self, attempt: Attempt) -> None:
        outcome = attempt.outcome
        assert outcome is not None
        attempt.ended_at = self.now.mono
        if outcome.phase != "lost":
            self.report(attempt, outcome.phase, outcome)
        self._close_logs(attempt, readable=outcome.phase != "lost")
        if attempt.container_id:
            self.out.append(Remember(attempt.record()))
        if attempt.gpus:
            self.out.append(VerifyGpus(attempt.attempt_id, attempt.epoch, attempt.gpus))
            self.within(attempt, OPERATION_S)
        else:
            self.move(attempt, "released")

    def _release(self, attempt: Attempt) -> None:
        self.gpus.release(attempt.attempt_id, attempt.gpus)
        attempt.gpus = attempt.ports = ()
        self.report(attempt, "released")
        self.out.append(Remember(attempt.record()))
        self.within(attempt, LOG_PATIENCE_S)
        self.finish_if_due(attempt)

    def _remove(self, attempt: Attempt) -> None:
        self.out.append(Remove(attempt.attempt_id, attempt.epoch, attempt.container_id))
        self.within(attempt, OPERATION_S)

    def _retire(self, attempt: Attempt) -> None:
        assert attempt.outcome is not None
        del self.attempts[attempt.attempt_id]
        while len(self.tombstones) >= TOMBSTONES_KEPT:
            del self.tombstones[next(iter(self.tombstones))]
        tombstone = Tombstone(attempt.epoch, attempt.outcome, attempt.history)
        self.tombstones[attempt.attempt_id] = tombstone
        self.out.append(Forget(attempt.attempt_id))
        self._on_gone(attempt.attempt_id)

    # --- what several transitions share

    def _begin_stop(self, attempt: Attempt) -> None:
        """Begin to stop the attempt, or continue a stop that an earlier agent began."""
        saves = attempt.preempted and attempt.plan.signal and attempt.stop_reason != "fenced"
        saving = attempt.save_until is not None or saves
        self.move(attempt, "saving" if saving and attempt.kill_at is None else "stopping")

    def _grace_left(self, attempt: Attempt) -> float:
        """In whole milliseconds: deadlines are sums."""
        assert attempt.kill_at is not None
        return max(round(attempt.kill_at - self.now.mono, 3), 0.0)

    def _hurry(self, attempt: Attempt) -> None:
        if attempt.state not in ("saving", "stopping"):
            return
        latest = self.now.mono + FENCE_GRACE_S
        attempt.kill_at = min(attempt.kill_at or latest, latest)
        if attempt.state == "saving":
            self.move(attempt, "stopping")
        else:
            self.send_stop(attempt, self._grace_left(attempt))

    def within(self, attempt: Attempt, seconds: float) -> None:
        self.deadlines.set(attempt.attempt_id, self.now.mono + seconds)

    def send_stop(self, attempt: Attempt, grace_s: float) -> None:
        self.out.append(Stop(attempt.attempt_id, attempt.epoch, attempt.container_id, grace_s))
        self.within(attempt, grace_s + STOP_MARGIN_S)

    def _close_logs(self, attempt: Attempt, *, readable: bool) -> None:
        if not attempt.shipping:
            # The server waits for the end of every log, also of one that never began.
            self.out.append(ShipLogs(attempt.attempt_id, attempt.epoch, ""))
            readable = False
        self.out.append(EndLogs(attempt.attempt_id, attempt.epoch, readable))


_NOTHING = Outcome("lost")

_TABLE: dict[tuple[State, State], Callable[[Lifecycle, Attempt], None]] = {
    ("new", "pulling"): Lifecycle._pull,
    ("new", "created"): Lifecycle._wait,  # adopted
    ("new", "running"): Lifecycle._run,  # adopted
    ("new", "ended"): Lifecycle._end,  # refused, stopped before it came here, or adopted dead
    ("pulling", "creating"): Lifecycle._create,
    ("pulling", "ended"): Lifecycle._end,
    ("creating", "created"): Lifecycle._wait,
    ("creating", "starting"): Lifecycle._start,
    ("creating", "ended"): Lifecycle._end,
    ("created", "creating"): Lifecycle._create,  # adopted, and not whole
    ("created", "starting"): Lifecycle._start,
    ("created", "ended"): Lifecycle._end,
    ("starting", "running"): Lifecycle._run,
    ("starting", "ended"): Lifecycle._end,
    ("running", "saving"): Lifecycle._save,
    ("running", "stopping"): Lifecycle._stop,
    ("running", "ended"): Lifecycle._end,
    ("saving", "stopping"): Lifecycle._stop,
    ("saving", "ended"): Lifecycle._end,
    ("stopping", "ended"): Lifecycle._end,
    ("ended", "released"): Lifecycle._release,
    ("released", "removing"): Lifecycle._remove,
    ("released", "gone"): Lifecycle._retire,
    ("removing", "gone"): Lifecycle._retire,
}


def _spec(attempt: Attempt) -> AttemptSpec:
    assert attempt.spec is not None, "only a listed attempt is prepared"
    return attempt.spec
