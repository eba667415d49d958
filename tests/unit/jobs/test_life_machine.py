"""A job under everything that may happen to it, in any order: the pure decisions, carried out on a
model as the platform carries them out on rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.support.examples import examples

from skep_platform.jobs.lifecycle.decisions import (
    MAX_FREE_RETRIES,
    STOPPABLE_STATES,
    Decision,
    Reaction,
    Retry,
    RoleCounts,
    Verdict,
    View,
    decide,
)
from skep_platform.jobs.states import ATTEMPT, JOB

LIVING = sorted(ATTEMPT.active)
WALK_S = 400  # steps in which any job that is left alone by its owner comes to its end


@dataclass
class Task:
    state: str = "ASSIGNED"
    ready: bool = False
    ran: bool = False
    released: bool = False


@dataclass
class Model:
    """A gang of one role, as its rows would be."""

    tasks_total: int
    min_failed: int
    min_succeeded: int
    retries_allowed: int
    state: str = "WAITING"
    tasks: list[Task] | None = None  # None: it is in the queue
    attempt: int = 0
    begun: bool = False
    verdict: Verdict | None = None
    diagnosis: Reaction | None = None
    node_to_blame: bool = False
    diagnosing: bool = False
    stop_requested: bool = False
    preempting: bool = False
    over_time: bool = False
    retries_used: int = 0
    free_retries: int = 0
    preemptions: int = 0
    ended: list[tuple[Verdict, Retry | None]] = field(default_factory=list)

    @property
    def present(self) -> list[Task]:
        return self.tasks or []

    @property
    def finished(self) -> bool:
        return self.state in JOB.terminal

    def view(self) -> View:
        states: dict[str, int] = {}
        for task in self.present:
            states[task.state] = states.get(task.state, 0) + 1
        return View(
            state=self.state,
            roles=[RoleCounts(self.min_failed, self.min_succeeded, states)],
            started=sum(task.ran for task in self.present),
            unreleased=sum(not task.released for task in self.present),
            held=self.tasks_total > 1 and not self.begun,
            unready=sum(
                task.state == "ASSIGNED" or (task.state == "PREPARING" and not task.ready)
                for task in self.present
            ),
            verdict=self.verdict,
            stop_requested=self.stop_requested,
            preempting=self.preempting,
            diagnosis=Reaction.NEVER_RETRY if self.over_time else self.diagnosis,
            node_to_blame=self.node_to_blame,
            lost=any(task.state == "LOST" for task in self.present),
            retries_allowed=self.retries_allowed,
            retries_used=self.retries_used,
            free_retries=self.free_retries,
        )

    def advance(self) -> Decision | None:
        if self.tasks is None or self.finished:
            return None
        decision = decide(self.view())
        if decision.state != self.state:
            JOB.check(self.state, decision.state, "model")
            self.state = decision.state
        self._carry_out(decision)
        return decision

    def _carry_out(self, decision: Decision) -> None:
        self.begun |= decision.begin
        self.diagnosing |= decision.diagnose
        if decision.verdict and decision.verdict != Verdict.PREEMPTED:
            self.verdict = decision.verdict
        if decision.stop_rest:
            for task in self.present:
                if task.state in STOPPABLE_STATES:
                    task.state = "STOPPING"
        if decision.finished or decision.retry:
            assert decision.verdict is not None
            known = self.diagnosis is not None or self.over_time
            assert known or decision.verdict != Verdict.FAILED, "no one knows why it failed"
            self.ended.append((decision.verdict, decision.retry))
            self.diagnosing = False
        if decision.retry:
            self._requeue(decision.retry)

    def _requeue(self, retry: Retry) -> None:
        assert all(task.released for task in self.present), "GPUs are held by an old attempt"
        self.retries_used += retry == Retry.COUNTED
        self.preemptions += retry == Retry.PREEMPTED
        self.free_retries += retry in (Retry.FREE, Retry.ELSEWHERE, Retry.CONFLICT)
        self.tasks, self.begun, self.preempting = None, False, False
        self.verdict = self.diagnosis = None
        self.node_to_blame = False

    def place(self) -> None:
        self.attempt += 1
        self.tasks = [Task() for _ in range(self.tasks_total)]

    def move(self, task: Task, state: str) -> None:
        """A node's word."""
        if ATTEMPT.allows(task.state, state):
            task.state = state
            task.ran |= state in ("RUNNING", "SUCCEEDED")
            task.ready |= task.ran


class LifeOfAJob(RuleBasedStateMachine):
    @initialize(
        tasks=st.integers(1, 4),
        min_failed=st.sampled_from([-1, 1, 2]),
        min_succeeded=st.sampled_from([-1, 1, 4]),
        retries=st.sampled_from([0, 1, 3]),
        left=st.sampled_from([1, MAX_FREE_RETRIES]),
    )
    def submit(
        self, tasks: int, min_failed: int, min_succeeded: int, retries: int, left: int
    ) -> None:
        self.job = Model(tasks, min_failed, min(min_succeeded, tasks), retries)
        self.job.free_retries = self.job.attempt = MAX_FREE_RETRIES - left
        self.stood: tuple[int, Verdict | None] = (0, None)

    @precondition(lambda self: self.job.tasks is None and not self.job.finished)
    @rule()
    def place(self) -> None:
        self.job.place()

    @precondition(lambda self: self.job.tasks)
    @rule(
        which=st.integers(0, 3),
        state=st.sampled_from(["PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED", "LOST"]),
    )
    def a_node_reports(self, which: int, state: str) -> None:
        job = self.job
        task = job.present[which % job.tasks_total]
        asked = task.state == "STOPPING"
        if state == "STOPPED" and not asked:
            return  # it was not asked to
        if state in ("RUNNING", "SUCCEEDED") and not asked and job.view().held:
            task.ready = True  # it waits for the others
            job.move(task, "PREPARING")
        else:
            job.move(task, state)
        task.released |= state == "LOST"
        job.advance()

    @precondition(lambda self: self.job.tasks)
    @rule(which=st.integers(0, 3))
    def a_node_finds_the_gpus_clean(self, which: int) -> None:
        task = self.job.present[which % self.job.tasks_total]
        if task.state not in LIVING:
            task.released = True
            self.job.advance()

    @precondition(lambda self: self.job.diagnosing)
    @rule(reaction=st.sampled_from(Reaction), blame=st.booleans())
    def a_reader_of_the_log(self, reaction: Reaction, blame: bool) -> None:
        self.job.diagnosis, self.job.node_to_blame = reaction, blame
        self.job.diagnosing = False
        self.job.advance()

    @precondition(lambda self: self.job.tasks and not self.job.finished)
    @rule(reaction=st.sampled_from(Reaction))
    def a_whole_attempt_fails(self, reaction: Reaction) -> None:
        """In one step, so that random walks get through many attempts."""
        for task in list(self.job.present):
            for state in ("FAILED", "STOPPED"):
                self.job.move(task, state)
            self.job.advance()
        self.job.diagnosis = self.job.diagnosis or reaction
        self.job.diagnosing = False
        for task in self.job.present:
            task.released = True
        self.job.advance()

    @precondition(lambda self: not self.job.finished)
    @rule()
    def its_owner_stops_it(self) -> None:
        job = self.job
        job.stop_requested, job.verdict = True, Verdict.STOPPED
        if job.tasks is None:
            JOB.check(job.state, "STOPPED", "model")
            job.state = "STOPPED"
        job.advance()
        assert not job.diagnosing or job.view().count(LIVING)

    @precondition(lambda self: self.job.tasks and not self.job.finished)
    @rule()
    def another_one_wants_its_place(self) -> None:
        job = self.job
        if job.verdict is None and not job.stop_requested:
            job.preempting = True
            job.advance()

    @precondition(lambda self: self.job.tasks and not self.job.finished)
    @rule()
    def its_time_is_over(self) -> None:
        job = self.job
        if job.verdict is None and not (job.preempting or job.stop_requested):
            job.over_time, job.verdict = True, Verdict.FAILED
            job.advance()

    @rule()
    def the_reconciler_looks(self) -> None:
        before = self.picture()
        self.job.advance()
        assert self.picture() == before, "what was decided was not carried out at once"

    @precondition(lambda self: self.job.tasks and self.job.view().held)
    @rule()
    def the_barrier_is_over(self) -> None:
        job = self.job
        if job.verdict is not None or job.preempting:
            return
        for task in job.present:
            if task.state == "ASSIGNED" or (task.state == "PREPARING" and not task.ready):
                task.state = "FAILED"
        job.advance()

    def picture(self) -> Any:
        job = self.job
        tasks = [(t.state, t.ready, t.released) for t in job.present]
        return job.state, job.verdict, job.begun, job.diagnosing, len(job.ended), tasks

    @invariant()
    def never_both_finished_and_active(self) -> None:
        if self.job.finished:
            assert not any(task.state in LIVING for task in self.job.present)
            assert not self.job.diagnosing

    @invariant()
    def retries_never_exceed(self) -> None:
        job = self.job
        assert job.retries_used <= job.retries_allowed
        assert job.free_retries <= MAX_FREE_RETRIES
        assert job.attempt <= job.retries_used + job.free_retries + job.preemptions + 1
        assert len(job.ended) <= job.attempt

    @invariant()
    def the_verdict_stands(self) -> None:
        """Within an attempt; but for the owner's word."""
        attempt, verdict = self.stood
        job = self.job
        if verdict and attempt == len(job.ended) and not job.stop_requested:
            assert job.verdict == verdict
        self.stood = len(job.ended), job.verdict

    @invariant()
    def no_task_runs_before_its_gang_begins(self) -> None:
        if self.job.tasks_total > 1 and not self.job.begun:
            assert not any(task.state == "RUNNING" for task in self.job.present)

    def teardown(self) -> None:
        """Progress: whatever state it is in, its nodes, its readers and the clock bring it on."""
        _let_it_end(self.job)


def _let_it_end(job: Model) -> None:
    for _ in range(WALK_S):
        if job.finished:
            return
        _next_step(job)
        job.advance()
    raise AssertionError(f"it does not come to its end: {job}")


def _next_step(job: Model) -> None:
    """What happens by itself, at the latest when a deadline is over; tasks end well."""
    if job.tasks is None:
        job.place()
    elif job.diagnosing:
        job.diagnosis, job.diagnosing = Reaction.RETRY_TO_MAX, False
    elif living := [task for task in job.present if task.state in LIVING]:
        held = job.view().held
        for task in living:
            if task.state == "STOPPING":
                job.move(task, "STOPPED")
            elif held:
                job.move(task, "PREPARING")
                task.ready = True
            else:
                job.move(task, "SUCCEEDED")
    else:
        for task in job.present:
            task.released = True


LifeOfAJob.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
test_life_of_a_job = LifeOfAJob.TestCase
