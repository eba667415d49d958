"""When a job runs, ends or is tried again: one pure function on the counts of its tasks.

Policies are OpenPAI's: a role whose `min_failed` is reached fails the job, one whose
`min_succeeded` is reached ends it well, and a job whose tasks have all ended without either ends
well. Once decided, the verdict stands: the rest of the tasks is stopped, and what they answer
changes nothing. A job that is asked to make room before that is tried again whatever its tasks
answer, and pays for it neither with a retry nor with its place in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from skep_platform.jobs.states import ATTEMPT, AttemptState, JobState

MAX_FREE_RETRIES = 50  # lost nodes and faults of the platform, over the life of a job
MAX_BACKOFF_S = 300.0

# Error codes of the agent and of our own deadlines that are not the job's fault: its retry is free.
PLATFORM_FAULTS = frozenset(
    {
        "node_lost",
        "container_lost",
        "container_gone",
        "start_timeout",
        "engine_down",
        "gpu_unavailable",
        "disk_full",
    }
)

FAILED_STATES = (AttemptState.FAILED, AttemptState.LOST, AttemptState.STOPPED)
STOPPABLE_STATES = (AttemptState.ASSIGNED, AttemptState.PREPARING, AttemptState.RUNNING)


class Verdict(StrEnum):
    """How the present job attempt ends; the values are those of the job's state, but for
    PREEMPTED, after which the job is in the queue again."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    PREEMPTED = "PREEMPTED"


class Retry(StrEnum):
    FREE = "free"  # the platform's fault
    COUNTED = "counted"  # against jobRetryCount
    PREEMPTED = "preempted"  # at once, and counted by itself


@dataclass(frozen=True, slots=True)
class Role:
    """A task role of the present job attempt: its policy and its tasks by state."""

    min_failed: int  # -1: never, as for min_succeeded
    min_succeeded: int
    states: Mapping[str, int]

    def count(self, states: Sequence[str]) -> int:
        return sum(self.states.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a placed job."""

    state: str
    roles: Sequence[Role]
    attempt: int = 1
    started: int = 0  # tasks that have run, now or before
    unreleased: int = 0  # tasks whose GPUs are not given back
    unplaced: int = 0  # tasks that still wait for a place, of an incremental job
    verdict: Verdict | None = None  # decided earlier
    stop_requested: bool = False
    preempting: bool = False  # asked to make room
    platform_fault: bool = False  # some task of this attempt failed by one
    retries_allowed: int = 0
    retries_used: int = 0
    preemptions: int = 0  # earlier ones

    def count(self, states: Sequence[str]) -> int:
        return sum(role.count(states) for role in self.roles)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the job. `state` is its next state, or the one that it has."""

    state: str
    verdict: Verdict | None = None
    stop_rest: bool = False
    retry: Retry | None = None

    @property
    def finished(self) -> bool:
        return self.state == self.verdict


def decide(view: View) -> Decision:
    """Idempotent: asked again after its decision was carried out, it says the same or goes on."""
    verdict = _verdict(view)
    if verdict is None:
        return Decision(_live_state(view))
    if view.count(tuple(ATTEMPT.active)):
        state = JobState.STOPPING if verdict == Verdict.STOPPED else _live_state(view)
        return Decision(state, verdict, stop_rest=view.count(STOPPABLE_STATES) > 0)
    retry = _retry(view, verdict)
    if retry and view.unreleased:
        return Decision(_live_state(view), verdict)  # the next attempt may need the same GPUs
    if retry:
        return Decision(JobState.WAITING, retry=retry)
    return Decision(str(verdict), verdict)


def judge(roles: Sequence[Role], unplaced: int = 0) -> Verdict | None:
    """How the tasks' states end the job attempt, or None while it goes on. It goes on while some
    tasks have no place yet, unless a role's policy says otherwise."""
    if any(0 < r.min_failed <= r.count(FAILED_STATES) for r in roles):
        return Verdict.FAILED
    if any(0 < r.min_succeeded <= r.count((AttemptState.SUCCEEDED,)) for r in roles):
        return Verdict.SUCCEEDED
    if not unplaced and not any(r.count(tuple(ATTEMPT.active)) for r in roles):
        return Verdict.SUCCEEDED
    return None


def backoff_s(attempt: int) -> float:
    """Seconds to wait after this many job attempts: 1, 2, 4, … up to MAX_BACKOFF_S."""
    return min(2.0 ** min(attempt - 1, 30), MAX_BACKOFF_S)


def _verdict(view: View) -> Verdict | None:
    """The owner's word comes first, then what was decided before the job was asked to go."""
    if view.stop_requested:
        return Verdict.STOPPED
    if view.verdict:
        return view.verdict
    return Verdict.PREEMPTED if view.preempting else judge(view.roles, view.unplaced)


def _live_state(view: View) -> str:
    return JobState.RUNNING if view.started else view.state


def _retry(view: View, verdict: Verdict) -> Retry | None:
    if verdict == Verdict.PREEMPTED:
        return Retry.PREEMPTED
    if verdict != Verdict.FAILED:
        return None
    if view.platform_fault:
        free_used = view.attempt - 1 - view.retries_used - view.preemptions
        return Retry.FREE if free_used < MAX_FREE_RETRIES else None
    return Retry.COUNTED if view.retries_used < view.retries_allowed else None
