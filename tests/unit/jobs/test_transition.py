"""The step of a job's state, driven by random histories of its tasks and of its owner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.jobs.lifecycle.decisions import STOPPABLE_STATES, Reaction, RoleCounts
from skep_platform.jobs.lifecycle.diagnosing import Failed
from skep_platform.jobs.lifecycle.job_state import Failure, JobRow, LockedJob
from skep_platform.jobs.lifecycle.transition import Effects, transition
from skep_platform.jobs.states import ATTEMPT, JOB

START = datetime(2026, 1, 1, tzinfo=UTC)
BAD = ("FAILED", "LOST")
JOB_ID = UUID(int=7)


def new_row(**given_fields: Any) -> JobRow:
    none = dict.fromkeys(JobRow.__dataclass_fields__)
    known: dict[str, Any] = {
        "id": JOB_ID,
        "name": "train",
        "state": "WAITING",
        "attempt": 1,
        "tasks_total": 2,
        "incremental": False,
        "placed_at": START,
        "avoid_nodes": {},
        "unplaced": 0,
        "preemptions": 0,
        "retries_used": 0,
        "free_retries": 0,
        "failing_retries": 0,
        "retries_ended": False,
        "verdict": "",
        "job_retry_count": 1,
    }
    return JobRow(**none | known | given_fields)


@dataclass
class World:
    """A gang of one role as its rows would be; `carry_out` does what `advance` does."""

    row: JobRow
    min_failed: int
    min_succeeded: int
    now: datetime = START
    tasks: list[str] = field(default_factory=list)
    released: list[bool] = field(default_factory=list)
    ran: bool = False
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place()

    def place(self) -> None:
        self.tasks = ["ASSIGNED"] * self.row.tasks_total
        self.released = [False] * self.row.tasks_total
        self.ran = False

    def locked(self) -> LockedJob:
        states = {state: self.tasks.count(state) for state in set(self.tasks)}
        unready = sum(state in ("ASSIGNED", "PREPARING") for state in self.tasks)
        failures = [
            Failure(JOB_ID, 1, n, state, 0, 0, 0, None, _failed(n, self.now))
            for n, state in enumerate(self.tasks)
            if state in BAD
        ]
        return LockedJob(
            row=replace(self.row),
            roles={1: RoleCounts(self.min_failed, self.min_succeeded, states)},
            started=int(self.ran),
            first_start=START if self.ran else None,
            unreleased=self.released.count(False),
            unready=unready,
            lost="LOST" in self.tasks,
            failures=failures,
        )

    def step(self) -> Effects | None:
        if self.row.placed_at is None or self.row.state in JOB.terminal:
            return None
        job, before = self.locked(), self.locked()
        row, effects = transition(job, self.now)
        again, same = transition(job, self.now)
        assert job == before, "it leaves what it is given alone"
        assert row == again
        assert _comparable(effects) == _comparable(same)
        validate(self.row, row, effects)
        self.row = row
        self.carry_out(effects)
        return effects

    def carry_out(self, effects: Effects) -> None:
        self.ended += [attempt.outcome for attempt in effects.attempts]
        if effects.stop:
            stoppable = {str(state) for state in STOPPABLE_STATES}
            self.tasks = ["STOPPING" if s in stoppable else s for s in self.tasks]
        if effects.requeued:  # and is placed at once
            self.row.attempt += 1
            self.row.placed_at, self.row.not_before = self.now, None
            self.place()


def _failed(rank: int, now: datetime) -> Failed:
    known: dict[str, Any] = dict.fromkeys(Failed.__dataclass_fields__)
    known |= {"id": UUID(int=rank + 100), "rank": rank, "role": "worker", "index": rank}
    known |= {"tasks": 2, "node_id": UUID(int=1), "node": "n1", "exit_code": 1, "oom_killed": False}
    known |= {"error_code": "", "error_message": "", "xids": [], "disk_full": False}
    return Failed(**known | {"started_at": START, "finished_at": START})


def _comparable(effects: Effects) -> tuple[Any, ...]:
    events = [(event.kind, event.message, event.data) for event in effects.events]
    attempts = [(one.index, one.outcome, one.retry) for one in effects.attempts]
    return events, attempts, effects.begin, effects.stop, effects.requeued


def validate(before: JobRow, row: JobRow, effects: Effects) -> None:
    """What holds after each step, whatever happened."""
    assert row.state == before.state or JOB.allows(before.state, row.state)
    assert (row.exit_reason is not None) == bool(row.verdict)
    if row.state in JOB.terminal:
        assert (row.verdict, row.finished_at is not None) == (row.state, True)
        assert [one.outcome for one in effects.attempts] == [row.state]
    elif effects.requeued:
        assert (row.state, row.placed_at, row.verdict, row.unplaced) == ("WAITING", None, "", 0)
        assert row.preempting_at is row.begun_at is row.ends_at is row.diagnosing_at is None
        assert row.wait_reason is not None
        assert len(effects.attempts) == 1
    else:
        assert not effects.attempts
        assert not before.verdict or row.verdict == before.verdict, "a verdict stands"
        assert row.placed_at == before.placed_at
    assert not effects.begin or (before.begun_at is None and row.begun_at is not None)
    assert not effects.stop or row.verdict or row.preempting_at
    assert row.retries_used >= before.retries_used
    assert row.free_retries >= before.free_retries
    assert row.preemptions >= before.preemptions


STEPS = st.one_of(
    st.tuples(st.just("task"), st.integers(0, 3), st.sampled_from(sorted(ATTEMPT.moves))),
    st.tuples(st.just("release"), st.integers(0, 3), st.just("")),
    st.tuples(st.sampled_from(["stop", "preempt", "wait"]), st.just(0), st.just("")),
    st.tuples(st.just("diagnose"), st.just(0), st.sampled_from([str(r) for r in Reaction])),
)


def happen(world: World, kind: str, number: int, word: str) -> None:
    row, number = world.row, number % world.row.tasks_total
    if row.placed_at is None or row.state in JOB.terminal:
        return
    if kind == "task" and ATTEMPT.allows(world.tasks[number], word):
        world.tasks[number] = word
        world.ran |= word == "RUNNING"
    elif kind == "release" and world.tasks[number] in ATTEMPT.terminal:
        world.released[number] = True
    elif kind == "wait":
        world.now += timedelta(seconds=400)
    elif kind == "stop":
        why = {"code": "stopped", "message": "Stopped by ann.", "details": {}}
        row.stop_requested_at, row.exit_reason, row.verdict = world.now, why, "STOPPED"
    elif kind == "preempt" and not row.verdict:
        why = {"code": "evicted", "message": "", "details": {"why": "It is drained."}}
        row.preempting_at, row.wait_reason = world.now, why
    elif kind == "diagnose" and row.diagnosing_at:
        row.diagnosis = {**UNKNOWN, "reaction": word}
        row.diagnosing_at = None


UNKNOWN = {
    "name": "Unknown",
    "code": 255,
    "title": "Unknown",
    "category": "",
    "blame": "unknown",
    "node": None,
    "task": None,
    "rule": "",
    "remedy": "",
    "evidence": {"source": "none", "text": ""},
}


@given(
    steps=st.lists(STEPS, max_size=60),
    tasks=st.integers(1, 3),
    min_failed=st.sampled_from([-1, 1, 2]),
    min_succeeded=st.sampled_from([-1, 1, 3]),
    retries=st.sampled_from([None, 0, 2, -1, -2]),
)
def test_no_history_breaks_what_holds_of_a_job(steps, tasks, min_failed, min_succeeded, retries):
    row = new_row(tasks_total=tasks, job_retry_count=retries)
    world = World(row, min_failed, min_succeeded)
    for step in steps:
        happen(world, *step)
        world.step()
    # Left alone, its tasks end and are released, and so does a job that its owner stops.
    happen(world, "stop", 0, "")
    for _ in range(6):
        world.step()
        world.tasks = [s if s in ATTEMPT.terminal else "STOPPED" for s in world.tasks]
        world.released = [True] * len(world.tasks)
    assert world.row.state in JOB.terminal
    assert world.ended[-1] == world.row.state


@pytest.mark.parametrize("code", ["succeeded", "stopped", "owner_left"])
def test_the_code_of_a_reason_decides_nothing(code):
    why = {"code": code, "message": "As a node said.", "details": {}}
    world = World(new_row(tasks_total=1, exit_reason=why, verdict="FAILED"), 1, -1)
    world.tasks, world.released = ["FAILED"], [True]
    world.row.diagnosis = {**UNKNOWN, "reaction": "NEVER_RETRY"}
    world.step()
    assert world.row.state == "FAILED"
