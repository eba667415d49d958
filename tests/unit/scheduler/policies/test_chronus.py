"""Chronus: which deadlines are admitted, against the best of all choices."""

from __future__ import annotations

from itertools import combinations, product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies.chronus import Chronus, Demand, Schedule, greedy, rounded, select
from skep_scheduler.policies.elastic import ElasticFacts

GPUS, LENGTHS = 4, (60.0, 60.0, 60.0)


def job(name: str, left: float, gpus: int, deadline: float = inf, **more: object) -> ElasticFacts:
    facts = ElasticFacts(name, 0.0, gpus, lambda n: 1.0, 64, left, left, deadline)
    for key, value in more.items():
        setattr(facts, key, value)
    return facts


demands = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)),
    min_size=1,
    max_size=5,
).map(
    lambda rows: [
        Demand(str(n), gpus, 60.0 * terms, last, value)
        for n, (gpus, terms, last, value) in enumerate(rows)
        if terms <= last
    ]
)


def fits(schedule: Schedule, jobs: list[Demand]) -> bool:
    """Return whether a schedule meets the deadlines of its jobs on the GPUs there are."""
    of = {one.id: one for one in jobs}
    met = all(
        60.0 * sum(term < of[name].last for term in terms) >= of[name].left_s
        for name, terms in schedule.items()
    )
    used = [sum(of[n].gpus for n, terms in schedule.items() if t in terms) for t in range(3)]
    return met and max(used) <= GPUS


def best_value(jobs: list[Demand]) -> float:
    """Return the largest value of any set of jobs that can be met, by enumeration."""
    best = 0.0
    choices = [[(), *combinations(range(one.last), round(one.left_s / 60.0))] for one in jobs]
    for terms in product(*choices):
        used = [
            sum(j.gpus for j, own in zip(jobs, terms, strict=True) if t in own) for t in range(3)
        ]
        if max(used) <= GPUS:
            best = max(best, sum(j.value for j, own in zip(jobs, terms, strict=True) if own))
    return best


@settings(max_examples=40, deadline=None)
@given(demands)
def test_the_program_finds_the_best_of_all_choices(jobs: list[Demand]) -> None:
    pytest.importorskip("scipy")
    if not jobs:
        return
    schedule = select(jobs, GPUS, LENGTHS)
    assert fits(schedule, jobs)
    value = sum(one.value for one in jobs if one.id in schedule)
    assert value == pytest.approx(best_value(jobs))


@given(demands)
def test_a_greedy_schedule_meets_all_deadlines(jobs: list[Demand]) -> None:
    schedule = greedy(jobs, GPUS, LENGTHS)
    if schedule is not None:
        assert len(schedule) == len(jobs)
        assert fits(schedule, jobs)


def test_admitted_jobs_are_kept_before_those_that_are_worth_more() -> None:
    pytest.importorskip("scipy")
    jobs = [Demand("old", 4, 60, 1, 1.0, admitted=True), Demand("new", 4, 60, 1, 9.0)]
    assert set(select(jobs, GPUS, LENGTHS)) == {"old"}
    both = [Demand("a", 4, 60, 1, admitted=True), Demand("b", 4, 60, 1, admitted=True)]
    assert len(select(both, GPUS, LENGTHS)) == 1


def test_a_job_runs_as_late_as_its_deadline_allows_and_idle_gpus_are_filled() -> None:
    due, effort = job("due", 100, 4, deadline=600.0), job("effort", 1000, 4)
    assert greedy([Demand("due", 4, 110, 3)], GPUS, LENGTHS) == {"due": {1, 2}}
    sizes = Chronus().decide([due, effort], 4, 0.0)
    assert (sizes.gpus, sizes.wake_at) == ({"due": 4}, 60.0)
    waited = Chronus(patience_s=0).decide([due, job("effort", 1000, 4, submitted_at=-9.0)], 4, 0.0)
    assert waited.gpus == {"effort": 4}


def test_terms_are_not_cut_short() -> None:
    running, new = job("running", 1000, 4, held=4), job("new", 10, 4, deadline=100.0)
    assert Chronus().decide([running, new], 4, 30.0).gpus == {"running": 4, "new": 0}


def test_odd_sizes_hold_a_power_of_two() -> None:
    assert [rounded(n) for n in (1, 2, 3, 4, 5, 7, 8, 16, 20)] == [1, 2, 4, 4, 8, 8, 8, 16, 20]
