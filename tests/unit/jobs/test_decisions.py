"""When jobs run, end and are tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.jobs.lifecycle.decisions import (
    MAX_BACKOFF_S,
    MAX_FREE_RETRIES,
    STOPPABLE_STATES,
    Decision,
    Reaction,
    Retry,
    RoleCounts,
    Verdict,
    View,
    backoff_s,
    conflict_backoff_s,
    decide,
    retry_of,
)
from skep_platform.jobs.states import ATTEMPT, JOB

A = Reaction
F, S, X, P = Verdict.FAILED, Verdict.SUCCEEDED, Verdict.STOPPED, Verdict.PREEMPTED


def role(min_failed: int = 1, min_succeeded: int | None = None, **states: int) -> RoleCounts:
    total = sum(states.values())
    return RoleCounts(min_failed, total if min_succeeded is None else min_succeeded, states)


def view(*roles: RoleCounts, state: str = "RUNNING", **fields: Any) -> View:
    started = sum(r.count(["RUNNING", "SUCCEEDED", "FAILED"]) for r in roles)
    known = {"started": started, "diagnosis": Reaction.RETRY_TO_MAX}
    return View(state, roles, **known | fields)


CASES: dict[str, tuple[View, Decision]] = {
    "a placed job that nothing has happened to goes on waiting": (
        view(role(ASSIGNED=2), state="WAITING"),
        Decision("WAITING"),
    ),
    "a job whose images are pulled goes on waiting": (
        view(role(PREPARING=2), state="WAITING"),
        Decision("WAITING"),
    ),
    "the first running task makes the job run": (
        view(role(RUNNING=1, PREPARING=1), state="WAITING"),
        Decision("RUNNING"),
    ),
    "a running job goes on": (view(role(RUNNING=2)), Decision("RUNNING")),
    "some succeeded, others run": (view(role(RUNNING=1, SUCCEEDED=1)), Decision("RUNNING")),
    "all succeeded": (view(role(SUCCEEDED=2)), Decision("SUCCEEDED", S)),
    "all succeeded at once after being placed": (
        view(role(SUCCEEDED=1), state="WAITING"),
        Decision("SUCCEEDED", S),
    ),
    "one failed, the rest is stopped": (
        view(role(FAILED=1, RUNNING=3)),
        Decision("RUNNING", F, stop_rest=True),
    ),
    "one failed, the rest is stopping": (view(role(FAILED=1, STOPPING=3)), Decision("RUNNING", F)),
    "one failed, all ended": (view(role(FAILED=1, STOPPED=3)), Decision("FAILED", F)),
    "the image was not found, nothing ran": (
        view(role(FAILED=1, PREPARING=1), state="WAITING", started=0),
        Decision("WAITING", F, stop_rest=True),
    ),
    "fewer failures than the policy allows": (
        view(role(min_failed=2, FAILED=1, RUNNING=3)),
        Decision("RUNNING"),
    ),
    "failures never count, all failed": (
        view(role(min_failed=-1, FAILED=3)),
        Decision("SUCCEEDED", S),
    ),
    "enough succeeded, the rest is stopped": (
        view(role(min_succeeded=1, SUCCEEDED=1, RUNNING=2)),
        Decision("RUNNING", S, stop_rest=True),
    ),
    "successes never count, all done": (
        view(role(min_succeeded=-1, SUCCEEDED=2)),
        Decision("SUCCEEDED", S),
    ),
    "successes never count, one still runs": (
        view(role(min_succeeded=-1, SUCCEEDED=2, RUNNING=1)),
        Decision("RUNNING"),
    ),
    "one role done ends the job, as in OpenPAI": (
        view(role(SUCCEEDED=1), role(min_succeeded=1, RUNNING=2)),
        Decision("RUNNING", S, stop_rest=True),
    ),
    "a server role with -1 does not end the job": (
        view(role(min_succeeded=-1, SUCCEEDED=1), role(RUNNING=2)),
        Decision("RUNNING"),
    ),
    "failure wins over success of the same moment": (
        view(role(FAILED=1), role(SUCCEEDED=1)),
        Decision("FAILED", F),
    ),
    "the verdict stands although a straggler failed": (
        view(role(min_succeeded=1, SUCCEEDED=1, FAILED=1), verdict=S),
        Decision("SUCCEEDED", S),
    ),
    "the verdict stands although the others succeeded": (
        view(role(min_failed=1, FAILED=1, SUCCEEDED=3), verdict=F),
        Decision("FAILED", F),
    ),
    "a failure is retried when all is released": (
        view(role(FAILED=1), retries_allowed=1),
        Decision("WAITING", F, retry=Retry.COUNTED),
    ),
    "a retry waits until the GPUs are given back": (
        view(role(FAILED=1), retries_allowed=1, unreleased=1, verdict=F),
        Decision("RUNNING", F),
    ),
    "a job without retries ends before its GPUs are given back": (
        view(role(FAILED=1), unreleased=1),
        Decision("FAILED", F),
    ),
    "no retry is left": (
        view(role(FAILED=1), retries_allowed=2, retries_used=2),
        Decision("FAILED", F),
    ),
    "a failure that no one has explained yet is explained while the rest stops": (
        view(role(FAILED=1, RUNNING=3), diagnosis=None),
        Decision("RUNNING", F, stop_rest=True, diagnose=True),
    ),
    "all ended, and no one knows why": (
        view(role(FAILED=1, STOPPED=3), diagnosis=None, retries_allowed=1),
        Decision("RUNNING", F, diagnose=True),
    ),
    "no one knows why, and no retry would be left: it is explained all the same": (
        view(role(FAILED=1), diagnosis=None),
        Decision("RUNNING", F, diagnose=True),
    ),
    "stopped while it is diagnosed": (
        view(role(FAILED=1, STOPPED=3), diagnosis=None, verdict=F, stop_requested=True),
        Decision("STOPPED", X),
    ),
    "a transient failure is always retried": (
        view(role(FAILED=1), diagnosis=A.ALWAYS_RETRY),
        Decision("WAITING", F, retry=Retry.FREE),
    ),
    "a transient failure before anything ran": (
        view(role(FAILED=1), state="WAITING", started=0, diagnosis=A.ALWAYS_RETRY),
        Decision("WAITING", F, retry=Retry.FREE),
    ),
    "a transient failure, but too often": (
        view(role(LOST=1), diagnosis=A.ALWAYS_RETRY, free_retries=MAX_FREE_RETRIES),
        Decision("FAILED", F),
    ),
    "free retries are not those that were counted": (
        view(role(LOST=1), diagnosis=A.ALWAYS_RETRY, retries_used=MAX_FREE_RETRIES),
        Decision("WAITING", F, retry=Retry.FREE),
    ),
    "a node is to blame: elsewhere, for free": (
        view(role(FAILED=1), node_to_blame=True),
        Decision("WAITING", F, retry=Retry.ELSEWHERE),
    ),
    "a conflict is retried after a long pause": (
        view(role(FAILED=1), diagnosis=A.ALWAYS_BACKOFF_RETRY),
        Decision("WAITING", F, retry=Retry.CONFLICT),
    ),
    "a permanent failure is never retried": (
        view(role(FAILED=1), diagnosis=A.NEVER_RETRY, retries_allowed=9),
        Decision("FAILED", F),
    ),
    "an unknown failure, and any number of retries": (
        view(role(FAILED=1), retries_allowed=-1, retries_used=99),
        Decision("WAITING", F, retry=Retry.COUNTED),
    ),
    "a permanent failure, and any number of retries": (
        view(role(FAILED=1), diagnosis=A.NEVER_RETRY, retries_allowed=-2),
        Decision("FAILED", F),
    ),
    "a success is tried again only by -2": (
        view(role(SUCCEEDED=1), retries_allowed=-1),
        Decision("SUCCEEDED", S),
    ),
    "a success is tried again by -2": (
        view(role(SUCCEEDED=1), retries_allowed=-2),
        Decision("WAITING", S, retry=Retry.COUNTED),
    ),
    "a task crashed for unknown reasons, another one's node was lost": (
        view(role(FAILED=1, LOST=1), lost=True),
        Decision("WAITING", F, retry=Retry.FREE),
    ),
    "a gang is held while a task is not ready": (
        view(role(PREPARING=4), state="WAITING", held=True, unready=1),
        Decision("WAITING"),
    ),
    "a gang begins when all are ready": (
        view(role(PREPARING=4), state="WAITING", held=True),
        Decision("WAITING", begin=True),
    ),
    "a gang begins without a task that its policy can do without": (
        view(role(min_failed=2, PREPARING=3, FAILED=1), state="WAITING", held=True, started=0),
        Decision("WAITING", begin=True),
    ),
    "a gang that is held is stopped": (
        view(role(PREPARING=4), state="WAITING", held=True, unready=2, stop_requested=True),
        Decision("STOPPING", X, stop_rest=True),
    ),
    "a gang that is held is preempted": (
        view(role(PREPARING=4), state="WAITING", held=True, unready=2, preempting=True),
        Decision("WAITING", P, stop_rest=True),
    ),
    "stopped while it runs": (
        view(role(RUNNING=2), stop_requested=True),
        Decision("STOPPING", X, stop_rest=True),
    ),
    "stopping": (
        view(role(STOPPING=1, STOPPED=1), state="STOPPING", stop_requested=True),
        Decision("STOPPING", X),
    ),
    "stopped, all ended": (
        view(role(STOPPED=2), state="STOPPING", stop_requested=True),
        Decision("STOPPED", X),
    ),
    "stopped, but its task had failed by itself: no retry": (
        view(role(FAILED=2), state="STOPPING", stop_requested=True, retries_allowed=9),
        Decision("STOPPED", X),
    ),
    "a stop overrules the verdict of a job that is ending": (
        view(role(SUCCEEDED=1, STOPPING=1), verdict=S, stop_requested=True),
        Decision("STOPPING", X),
    ),
    "asked to stop for another job": (
        view(role(RUNNING=2), preempting=True),
        Decision("RUNNING", P, stop_rest=True),
    ),
    "asked to stop for another before it ran": (
        view(role(PREPARING=2), state="WAITING", preempting=True),
        Decision("WAITING", P, stop_rest=True),
    ),
    "being preempted": (view(role(STOPPING=1, STOPPED=1), preempting=True), Decision("RUNNING", P)),
    "preempted, but its GPUs are not given back": (
        view(role(STOPPED=2), preempting=True, unreleased=1),
        Decision("RUNNING", P),
    ),
    "preempted: back to the queue": (
        view(role(STOPPED=2), preempting=True),
        Decision("WAITING", P, retry=Retry.PREEMPTED),
    ),
    "preempted with a failure: that is not its own": (
        view(role(FAILED=1, SUCCEEDED=1), preempting=True, retries_allowed=0),
        Decision("WAITING", P, retry=Retry.PREEMPTED),
    ),
    "preempted and lost its node": (
        view(role(LOST=2), preempting=True, lost=True),
        Decision("WAITING", P, retry=Retry.PREEMPTED),
    ),
    "a verdict of before it was asked to stop for another job stands": (
        view(role(FAILED=1, STOPPED=1), preempting=True, verdict=F),
        Decision("FAILED", F),
    ),
    "a stop wins over a preemption": (
        view(role(STOPPING=2), preempting=True, stop_requested=True),
        Decision("STOPPING", X),
    ),
    "all placed tasks succeeded, others wait for a place": (
        view(role(min_succeeded=3, SUCCEEDED=2), unplaced=1),
        Decision("RUNNING"),
    ),
    "a task failed, others wait for a place": (
        view(role(FAILED=1, SUCCEEDED=1), unplaced=1),
        Decision("FAILED", F),
    ),
    "enough succeeded, others wait for a place": (
        view(role(min_succeeded=2, SUCCEEDED=2), unplaced=5),
        Decision("SUCCEEDED", S),
    ),
    "stopped, while tasks wait for a place": (
        view(role(SUCCEEDED=1), unplaced=5, stop_requested=True),
        Decision("STOPPED", X),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_decision(case: str) -> None:
    seen, expected = CASES[case]
    assert decide(seen) == expected


ROLES = st.builds(
    RoleCounts,
    min_failed=st.integers(-1, 3).filter(bool),
    min_succeeded=st.integers(-1, 3).filter(bool),
    states=st.dictionaries(st.sampled_from(sorted(ATTEMPT.moves)), st.integers(1, 3), min_size=1),
)
VIEWS = st.builds(
    View,
    state=st.sampled_from(["WAITING", "RUNNING"]),
    roles=st.lists(ROLES, min_size=1, max_size=3),
    started=st.integers(0, 3),
    unreleased=st.integers(0, 3),
    verdict=st.sampled_from([None, F, S]),
    stop_requested=st.booleans(),
    preempting=st.booleans(),
    unplaced=st.integers(0, 2),
    held=st.booleans(),
    unready=st.integers(0, 2),
    diagnosis=st.none() | st.sampled_from(Reaction),
    node_to_blame=st.booleans(),
    lost=st.booleans(),
    retries_allowed=st.integers(-2, 3),
    retries_used=st.integers(0, 3),
    free_retries=st.integers(0, MAX_FREE_RETRIES),
)


@given(VIEWS)
def test_every_decision_is_legal_and_never_early(seen: View) -> None:
    decision = decide(seen)
    assert decision.state == seen.state or JOB.allows(seen.state, decision.state)
    living = seen.count(tuple(ATTEMPT.active))
    if decision.finished or decision.retry:
        assert not living
    if decision.retry:
        assert not seen.unreleased
        assert not seen.stop_requested
    if decision.verdict == F and (decision.finished or decision.retry):
        assert seen.diagnosis is not None
    if decision.begin:
        assert decision.verdict is None
    if seen.stop_requested:
        assert decision.verdict == X
    assert decision.stop_rest <= (seen.count(STOPPABLE_STATES) > 0)


@given(VIEWS)
def test_preemption_never_ends_a_job_and_never_costs_a_retry(seen: View) -> None:
    decision = decide(seen)
    if seen.preempting and not seen.stop_requested and seen.verdict is None:
        assert decision.verdict in (P, None)
        assert not decision.finished
        assert decision.retry in (Retry.PREEMPTED, None)
    else:
        assert decision.verdict != P
        assert decision.retry != Retry.PREEMPTED


@given(VIEWS)
def test_exit_codes_of_a_victim_do_not_matter(seen: View) -> None:
    """Whatever its tasks answer after it was asked, the same becomes of it."""
    asked = replace(seen, preempting=True, stop_requested=False, verdict=None, started=1)
    ended = [replace(r, states={"STOPPED": sum(r.states.values())}) for r in seen.roles]
    failed = [replace(r, states={"FAILED": sum(r.states.values())}) for r in seen.roles]
    assert decide(replace(asked, roles=ended)) == decide(replace(asked, roles=failed))


@given(VIEWS)
def test_no_job_succeeds_by_being_done_while_tasks_wait_for_a_place(seen: View) -> None:
    """Only by the policy of a role."""
    waiting = replace(seen, unplaced=1, stop_requested=False, preempting=False, verdict=None)
    decision = decide(waiting)
    by_policy = any(0 < r.min_succeeded <= r.count(["SUCCEEDED"]) for r in seen.roles)
    assert decision.verdict != S or by_policy


@given(VIEWS)
def test_a_decision_carried_out_is_not_taken_again(seen: View) -> None:
    """Once the rest is stopped and the verdict is written, the same state asks for nothing."""
    decision = decide(seen)
    if not decision.stop_rest:
        return
    roles = [RoleCounts(r.min_failed, r.min_succeeded, _stopped(r.states)) for r in seen.roles]
    after = View(
        decision.state,
        roles,
        started=seen.started,
        verdict=None if decision.verdict == P else decision.verdict,
        stop_requested=seen.stop_requested,
        preempting=seen.preempting,
        diagnosis=seen.diagnosis,
    )
    diagnose = decision.diagnose
    assert decide(after) == Decision(decision.state, decision.verdict, diagnose=diagnose)


def _stopped(states: Any) -> dict[str, int]:
    after: dict[str, int] = {}
    for state, count in states.items():
        to = "STOPPING" if state in STOPPABLE_STATES else state
        after[to] = after.get(to, 0) + count
    return after


RETRIES: dict[str, tuple[dict[str, Any], Retry | None]] = {
    "transient": ({"reaction": A.ALWAYS_RETRY}, Retry.FREE),
    "transient, by the node": (
        {"reaction": A.ALWAYS_RETRY, "node_to_blame": True},
        Retry.ELSEWHERE,
    ),
    "transient, too often": ({"reaction": A.ALWAYS_RETRY, "free": MAX_FREE_RETRIES}, None),
    "conflict": ({"reaction": A.ALWAYS_BACKOFF_RETRY}, Retry.CONFLICT),
    "conflict, too often": ({"reaction": A.ALWAYS_BACKOFF_RETRY, "free": MAX_FREE_RETRIES}, None),
    "conflict, by the node": (
        {"reaction": A.ALWAYS_BACKOFF_RETRY, "node_to_blame": True},
        Retry.CONFLICT,
    ),
    "unknown, a retry is left": ({"allowed": 2, "used": 1}, Retry.COUNTED),
    "unknown, none is left": ({"allowed": 2, "used": 2}, None),
    "unknown, none was asked for": ({}, None),
    "unknown, without a limit": ({"allowed": -1, "used": 1000}, Retry.COUNTED),
    "unknown, but by the node": ({"node_to_blame": True}, Retry.ELSEWHERE),
    "permanent": ({"reaction": A.NEVER_RETRY, "allowed": 5}, None),
    "permanent, without a limit": ({"reaction": A.NEVER_RETRY, "allowed": -2}, None),
}


@pytest.mark.parametrize("case", RETRIES)
def test_retry_class(case: str) -> None:
    reported, expected = RETRIES[case]
    known = {"reaction": A.RETRY_TO_MAX, "allowed": 0, "used": 0, "free": 0}
    assert retry_of(**known | reported) == expected


def test_backoff_doubles_up_to_its_bound():
    assert [backoff_s(n) for n in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert backoff_s(50) == backoff_s(10_000) == MAX_BACKOFF_S


def test_pauses_after_conflicts_are_long_different_and_always_the_same():
    job, other = UUID(int=1), UUID(int=2)
    pauses = [conflict_backoff_s(job, n) for n in range(1, 200)]
    assert min(pauses) >= 60
    assert max(pauses) <= 900
    assert len(set(pauses)) > 100
    assert pauses == [conflict_backoff_s(job, n) for n in range(1, 200)]
    assert conflict_backoff_s(other, 1) != conflict_backoff_s(job, 1)
