"""The event kernel under any order policy: no job is lost, none holds what another one has, and
equal jobs give equal results."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skep_scheduler.policies import Fifo, Sjf, Srsf, Srtf, Tiresias
from skep_scheduler.policies.edf import Edf
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import CountPool, NodePool
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob

ANY = [Fifo(), Fifo("skip"), Sjf(), Sjf(backfill="block"), Srtf(), Srsf(), Tiresias(20, 60), Edf()]
JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.sampled_from([1, 1, 2, 3, 4, 8, 16])),
    min_size=1,
    max_size=25,
)


def jobs(*facts: tuple[int, int, int], deadlines: bool = False) -> list[TraceJob]:
    """(submission, duration, GPUs) of each."""
    made = [
        TraceJob(f"j{n}", at, duration, gpus, deadline_s=at + 2 * duration if deadlines else None)
        for n, (at, duration, gpus) in enumerate(facts)
    ]
    return sorted(made, key=lambda job: job.submit_s)


def simulate(facts: list[TraceJob], policy: Any, pool: Any = None, **more: Any) -> Outcome:
    return Kernel(facts, {"": (pool or NodePool([8, 8]), policy)}, **more).run()


def ends(outcome: Outcome) -> dict[str, float | None]:
    return {job.id: job.ended_at for job in outcome.jobs}


@settings(max_examples=examples(150), deadline=None)
@given(facts=JOBS, policy=st.sampled_from(ANY), nodes=st.booleans())
def test_every_job_ends_once_after_its_duration(facts: Any, policy: Any, nodes: bool) -> None:
    """`Outcome.check` also asserts that no GPU is held twice over."""
    outcome = simulate(
        jobs(*facts, deadlines=True), policy, NodePool([8, 8]) if nodes else CountPool(16)
    )
    for job in outcome.jobs:
        assert job.ended_at is not None
        assert job.held_s == job.duration_s
        assert job.jct_s >= job.duration_s


@settings(max_examples=examples(60), deadline=None)
@given(facts=JOBS, policy=st.sampled_from(ANY))
def test_equal_jobs_give_equal_results(facts: Any, policy: Any) -> None:
    first, again = (simulate(jobs(*facts), policy) for _ in range(2))
    assert first.figures() == again.figures()
    assert ends(first) == ends(again)


@settings(max_examples=examples(60), deadline=None)
@given(facts=JOBS, policy=st.sampled_from(ANY))
def test_with_endless_capacity_a_job_takes_its_duration(facts: Any, policy: Any) -> None:
    outcome = simulate(jobs(*facts), policy, NodePool([16] * 30))
    assert all(job.jct_s == job.duration_s for job in outcome.jobs)


@settings(max_examples=examples(60), deadline=None)
@given(facts=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), min_size=1, max_size=20))
def test_on_one_gpu_srtf_has_no_larger_mean_than_any_other(facts: Any) -> None:
    """Its mean is the least of all orders (Schrage, 1968)."""
    one = jobs(*((at, duration, 1) for at, duration in facts))
    means = [
        sum(Fraction(job.jct_s) for job in simulate(one, policy, CountPool(1)).jobs)
        for policy in (Srtf(), Fifo(), Sjf(), Srsf(), Tiresias(20, 60))
    ]
    assert means[0] == min(means)


@settings(max_examples=examples(60), deadline=None)
@given(facts=JOBS)
def test_tiresias_with_one_endless_queue_is_fifo_that_skips(facts: Any) -> None:
    las, fifo = Tiresias(10**9, 0), Fifo("skip")
    assert ends(simulate(jobs(*facts), las)) == ends(simulate(jobs(*facts), fifo))


def test_a_short_job_takes_the_place_of_a_long_one_and_the_other_goes_on() -> None:
    outcome = simulate(jobs((0, 100, 8), (10, 5, 16), (12, 100, 1)), Srtf())
    assert ends(outcome) == {"j0": 105, "j1": 15, "j2": 115}
    assert [job.preemptions for job in outcome.jobs] == [1, 0, 0]


def test_only_those_leave_that_have_to() -> None:
    """The longest is released first, and put back as the 4 GPUs of the other one are enough."""
    outcome = simulate(jobs((0, 100, 4), (0, 90, 4), (10, 5, 4)), Srtf(), CountPool(8))
    assert [job.preemptions for job in outcome.jobs] == [1, 0, 0]
    outcome = simulate(jobs((0, 100, 1), (0, 90, 7), (10, 5, 7)), Srtf(), CountPool(8))
    assert [job.preemptions for job in outcome.jobs] == [0, 1, 0]


def test_a_job_is_demoted_when_it_was_served_for_the_limit() -> None:
    """10 s on 2 GPUs are 20 GPU-seconds: the job that waits since 3 s takes its place then."""
    outcome = simulate(jobs((0, 30, 2), (3, 5, 2)), Tiresias(20, 0), CountPool(2))
    assert ends(outcome) == {"j0": 35, "j1": 15}


def test_a_restart_costs_time_on_the_gpus() -> None:
    outcome = simulate(jobs((0, 100, 8), (10, 5, 8)), Srtf(), CountPool(8), restart_s=7)
    assert ends(outcome) == {"j0": 112, "j1": 15}


def test_a_job_on_two_nodes_is_slower_where_locality_counts() -> None:
    outcome = simulate(jobs((0, 80, 16), (0, 80, 8)), Fifo(), locality=(1.0, 0.5))
    assert ends(outcome) == {"j0": 160, "j1": 240}


@settings(max_examples=examples(100), deadline=None)
@given(facts=JOBS, policy=st.sampled_from(ANY))
def test_a_slow_job_loses_nothing_by_being_looked_at(facts: Any, policy: Any) -> None:
    outcome = simulate(jobs(*facts, deadlines=True), policy, locality=(1.0, 0.854))
    for job in outcome.jobs:
        assert job.duration_s <= job.held_s <= job.duration_s / 0.854 + 1e-6 * (2 + job.preemptions)


def test_jobs_wait_for_their_share_or_for_a_place() -> None:
    facts = jobs((0, 10, 5), (0, 10, 5), (0, 10, 4), (0, 10, 8))
    outcome = simulate(facts, Fifo("skip"))
    assert outcome.queueing_s == {"fair_share": 10, "fragmentation": 10}


@pytest.mark.parametrize("best_fit", [True, False])
def test_a_node_with_the_fewest_gpus_that_are_enough_is_taken(best_fit: bool) -> None:
    pool = NodePool([8, 4, 2], best_fit=best_fit)
    assert pool.take(2) == (((2, 2),) if best_fit else ((0, 2),))
    assert pool.take(16) is None
    assert pool.free == 12


def test_a_job_larger_than_a_node_takes_whole_nodes_and_one_for_the_rest() -> None:
    pool = NodePool([8, 8, 8])
    place = pool.take(20)
    assert place == ((0, 8), (1, 8), (2, 4))
    assert pool.take(5) is None
    pool.give_back(place)
    assert pool.free == 24


def test_a_job_larger_than_the_cluster_never_starts_and_is_no_other_jobs_matter() -> None:
    outcome = simulate(jobs((0, 10, 99), (1, 10, 8)), Fifo())
    assert ends(outcome) == {"j0": None, "j1": 11}


def test_a_job_runs_as_fast_as_the_slowest_of_its_nodes() -> None:
    facts = jobs((0, 210, 1), (0, 210, 1), (1000, 210, 2))
    outcome = simulate(facts, Fifo(), NodePool([1, 1]), speeds=(2.1, 1.0))
    assert ends(outcome) == {"j0": 100, "j1": 210, "j2": 1210}


@pytest.mark.parametrize(
    ("speeds", "end"), [((1.0, 1.0), 345), ((1.0, 2.0), 305), ((2.0, 1.0), 225)]
)
def test_a_start_on_another_node_costs_a_migration_at_any_speed(
    speeds: tuple[float, float], end: float
) -> None:
    """A short job of two GPUs takes the place of the long one, which goes on where another one
    has ended, after 35 s without progress."""
    facts = jobs((0, 50, 1), (0, 300, 1), (40, 20, 2))
    outcome = simulate(facts, Srtf(), NodePool([1, 2]), restart_s=5, migration_s=30, speeds=speeds)
    assert ends(outcome)["j1"] == end
    assert [job.migrations for job in outcome.jobs] == [0, 1, 0]
    assert outcome.figures()["migrations"] == 1


def test_edf_refuses_what_would_be_late_on_idle_gpus_if_it_is_told_to() -> None:
    made = [
        TraceJob("late", 0, 100, 8, deadline_s=50),
        TraceJob("good", 0, 100, 8, deadline_s=100),
        TraceJob("free", 0, 10, 8),
    ]
    outcome = simulate(made, Edf(admission="refuse"), CountPool(8))
    assert ends(outcome) == {"late": None, "good": 100, "free": 110}
    assert [job.refused for job in outcome.jobs] == ["deadline", "", ""]
    assert outcome.figures()["deadlines_met"] == 1
    assert ends(simulate(made, Edf(), CountPool(8)))["late"] == 100
