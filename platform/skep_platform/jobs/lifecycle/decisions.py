"""When a job runs, ends or is tried again: one pure function on the counts of its tasks.

Policies are OpenPAI's: a role whose `min_failed` is reached fails the job, one whose
`min_succeeded` is reached ends it well, and a job whose tasks have all ended without either ends
well. Once decided, the verdict stands: the rest of the tasks is stopped, and what they answer
changes nothing. A job that is preempted before that is tried again whatever its tasks
answer, and pays for it neither with a retry nor with its place in the queue.

Whether a failure is tried again depends on why it happened: nothing is decided before a diagnosis
is there. Tasks of an incremental job are tried again by themselves, by the same rules (`retry_of`).
"""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from skep_platform.jobs.states import ATTEMPT, AttemptState, JobState

MAX_FREE_RETRIES = 50  # over the life of a job
# Of attempts that fail one after the other without running for PROGRESS_S: what is retried for free
# is bounded in number, by the reaction, and in time.
PROGRESS_S = 600.0
MAX_IN_A_ROW = {"ALWAYS_RETRY": 5, "ALWAYS_BACKOFF_RETRY": 8}
MAX_ELSEWHERE_IN_A_ROW = 10
MAX_FAILING_S = 3600.0
MAX_BACKOFF_S = 300.0
CONFLICT_BACKOFF_S = 60, 900  # what was in the way goes on for minutes: OpenPAI's range
UNLIMITED = -1  # as a retry count: any failure is tried again
ALWAYS = -2  # and any success, too

FAILED_STATES = (AttemptState.FAILED, AttemptState.LOST, AttemptState.STOPPED)
STOPPABLE_STATES = (AttemptState.ASSIGNED, AttemptState.PREPARING, AttemptState.RUNNING)
ACTIVE_STATES = tuple(ATTEMPT.active)


class Verdict(StrEnum):
    """How the present job attempt ends; the values are those of the job's state, but for
    PREEMPTED, after which the job is in the queue again."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    PREEMPTED = "PREEMPTED"


class Reaction(StrEnum):
    """What a diagnosis asks for, by OpenPAI's names."""

    ALWAYS_RETRY = "ALWAYS_RETRY"
    ALWAYS_BACKOFF_RETRY = "ALWAYS_BACKOFF_RETRY"
    RETRY_TO_MAX = "RETRY_TO_MAX"
    NEVER_RETRY = "NEVER_RETRY"


class Retry(StrEnum):
    """Why there is another attempt; only COUNTED ones are limited by the job file."""

    FREE = "free"  # it was not its fault
    ELSEWHERE = "elsewhere"  # nor the job's: a node's, which is avoided for a while
    CONFLICT = "conflict"  # others were in its way: after a long pause
    COUNTED = "counted"  # against jobRetryCount (or a task's taskRetryCount)
    PREEMPTED = "preempted"  # at once, and counted by itself


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """A task role of the present job attempt: its policy and its tasks by state."""

    min_failed: int  # -1: never, as for min_succeeded
    min_succeeded: int
    states: MutableMapping[str, int]

    def count(self, states: Sequence[str]) -> int:
        return sum(self.states.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a placed job."""

    state: str
    roles: Sequence[RoleCounts]
    started: int = 0  # tasks that have run, now or before
    unreleased: int = 0  # tasks whose GPUs are not given back
    unplaced: int = 0  # tasks that still wait for a place or a diagnosis, of an incremental job
    held: bool = False  # its tasks begin together, and have not begun yet
    unready: int = 0  # tasks that live and are not ready to begin
    verdict: Verdict | None = None  # decided earlier
    stop_requested: bool = False
    preempting: bool = False  # asked to leave its nodes
    diagnosis: Reaction | None = None  # of the present failure; None: not known yet
    node_to_blame: bool = False
    lost: bool = False  # a node was lost, or lost a task
    retries_allowed: int = 0
    retries_used: int = 0
    free_retries: int = 0  # earlier ones
    failing_retries: int = 0  # of those the last ones, without a run of PROGRESS_S between them
    failing_s: float = 0.0  # how long ago the first of these attempts began
    retries_ended: bool = False  # its owner asked that no failure be tried again

    @property
    def asked_to_end(self) -> bool:
        return self.stop_requested or self.preempting or self.verdict is not None

    def count(self, states: Sequence[str]) -> int:
        return sum(role.count(states) for role in self.roles)


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to the job. `state` is its next state, or the one that it has. `begin`: its
    tasks begin now. `diagnose`: find out why it failed; it waits for that when all has ended."""

    state: str
    verdict: Verdict | None = None
    stop_rest: bool = False
    retry: Retry | None = None
    begin: bool = False
    diagnose: bool = False

    @property
    def finished(self) -> bool:
        return self.state == self.verdict


def decide(view: View) -> Decision:
    """Decide what happens to the job. Idempotent: after its decision was carried out, it decides
    the same or goes on."""
    verdict = _verdict(view)
    if verdict is None:
        return Decision(_live_state(view), begin=view.held and not view.unready)
    diagnose = verdict == Verdict.FAILED and view.diagnosis is None
    if view.count(ACTIVE_STATES):
        state = JobState.STOPPING if verdict == Verdict.STOPPED else _live_state(view)
        rest = view.count(STOPPABLE_STATES) > 0
        return Decision(state, verdict, stop_rest=rest, diagnose=diagnose)
    if diagnose:
        return Decision(_live_state(view), verdict, diagnose=True)
    retry = _retry(view, verdict)
    if retry and view.unreleased:
        return Decision(_live_state(view), verdict)  # the next attempt may need the same GPUs
    if retry:
        return Decision(JobState.WAITING, verdict, retry=retry)
    return Decision(str(verdict), verdict)


def judge(roles: Sequence[RoleCounts], unplaced: int = 0) -> Verdict | None:
    """Return how the tasks' states end the job attempt, or None while it goes on. It goes on while
    some tasks have no place yet, unless a role's policy says otherwise."""
    if any(0 < r.min_failed <= r.count(FAILED_STATES) for r in roles):
        return Verdict.FAILED
    if any(0 < r.min_succeeded <= r.count((AttemptState.SUCCEEDED,)) for r in roles):
        return Verdict.SUCCEEDED
    if not unplaced and not any(r.count(ACTIVE_STATES) for r in roles):
        return Verdict.SUCCEEDED
    return None


def retry_of(
    reaction: Reaction,
    *,
    node_to_blame: bool = False,
    allowed: int,
    used: int,
    free: int,
    in_a_row: int = 0,
    failing_s: float = 0.0,
) -> Retry | None:
    """Return why a failure is tried again, or None where it is not, after `used` retries of the
    `allowed` ones, and `free` ones that are not counted, of which `in_a_row` came within the last
    `failing_s` seconds."""
    if reaction == Reaction.NEVER_RETRY:
        return None
    if reaction == Reaction.RETRY_TO_MAX and not node_to_blame:
        return Retry.COUNTED if allowed < 0 or used < allowed else None
    most = MAX_ELSEWHERE_IN_A_ROW if node_to_blame else MAX_IN_A_ROW.get(reaction, MAX_FREE_RETRIES)
    if free >= MAX_FREE_RETRIES or in_a_row >= most or failing_s > MAX_FAILING_S:
        # What is left are the retries that the job file allows.
        return Retry.COUNTED if used < allowed else None
    if reaction == Reaction.ALWAYS_BACKOFF_RETRY:
        return Retry.CONFLICT
    return Retry.ELSEWHERE if node_to_blame else Retry.FREE


def backoff_s(failures: int) -> float:
    """Return the seconds to wait after this many failures: 1, 2, 4, … up to MAX_BACKOFF_S."""
    return min(2.0 ** min(failures - 1, 30), MAX_BACKOFF_S)


def conflict_backoff_s(subject: UUID, attempt: int) -> float:
    """Return seconds within CONFLICT_BACKOFF_S, at random between subjects so that those that were
    in each other's way do not meet again; for one and its attempt always the same."""
    least, most = CONFLICT_BACKOFF_S
    seed = hashlib.sha256(f"{subject}:{attempt}".encode()).digest()
    return float(least + int.from_bytes(seed[:8]) % (most - least + 1))


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
    if view.retries_ended:
        return None
    if verdict == Verdict.SUCCEEDED and view.retries_allowed == ALWAYS:
        return Retry.COUNTED
    if verdict != Verdict.FAILED or view.diagnosis is None:
        return None
    reaction = view.diagnosis
    if reaction == Reaction.RETRY_TO_MAX and view.lost:
        reaction = Reaction.ALWAYS_RETRY  # who talked to a lost node fails for no reason of its own
    return retry_of(
        reaction,
        node_to_blame=view.node_to_blame,
        allowed=view.retries_allowed,
        used=view.retries_used,
        free=view.free_retries,
        in_a_row=view.failing_retries,
        failing_s=view.failing_s,
    )
