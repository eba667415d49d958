"""HUG and Carbyne: their laws, and the simulation in fractions of GPU time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies import hug
from skep_scheduler.policies.carbyne import Claimant, allocate
from skep_scheduler.simulator import fluid
from skep_scheduler.simulator.command import SimulateRequest, WorkloadError, execute, plan_runs
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob

RESOURCES = ("V100", "cpu", "network")
DEMANDS = st.lists(
    st.fixed_dictionaries({name: st.integers(0, 9) for name in RESOURCES}).filter(
        lambda demand: any(demand.values())
    ),
    min_size=1,
    max_size=6,
)


def test_hug_on_two_links() -> None:
    """P* is 2/3; of the first link the second tenant gets its demand and no more than P*."""
    first, second = hug.allocate([{"a": 2, "b": 1}, {"a": 1, "b": 2}])
    assert first == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert second == pytest.approx({"a": 1 / 3, "b": 2 / 3})
    alone, shared = hug.allocate([{"a": 1, "b": 0.5}, {"a": 1}])
    assert (alone["a"], shared["a"]) == (0.5, 0.5)
    assert alone["b"] == 0.5, "raised from 0.25 to the bound"


@given(demands=DEMANDS)
def test_hug_guarantees_the_best_progress_and_gives_no_tenant_more_than_the_bound(demands) -> None:
    asked = [hug.normalised(demand) for demand in demands]
    progress, got = hug.best_progress(asked), hug.allocate(demands)
    for name in RESOURCES:
        used = sum(tenant.get(name, 0.0) for tenant in got)
        stage_1 = sum(progress * demand.get(name, 0.0) for demand in asked)
        assert stage_1 - 1e-9 <= used <= 1 + 1e-9
    for tenant, demand in zip(got, asked, strict=True):
        for name, part in demand.items():
            assert progress * part - 1e-9 <= tenant[name] <= progress + 1e-9


def test_a_job_that_is_ahead_gives_its_gpus_to_the_shortest_one() -> None:
    jobs = [Claimant("ahead", 90, 100, 4, 8), Claimant("short", 10, 10, 4, 8)]
    assert allocate(jobs, 8) == {"ahead": 0, "short": 8}
    assert allocate(jobs, 8, altruism=0.5) == {"ahead": 2, "short": 6}
    assert allocate([Claimant("ahead", 90, 100, 4, 8), Claimant("short", 10, 10, 4, 4)], 8) == {
        "ahead": 4,
        "short": 4,
    }


JOBS = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.integers(1, 40),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=10,
)


def jobs_of(drawn: list[tuple[int, int, int, str]]) -> list[TraceJob]:
    return [
        TraceJob(f"j{i}", float(at), float(length), gpus, user=user)
        for i, (at, length, gpus, user) in enumerate(drawn)
    ]


def ends(outcome: Outcome) -> dict[str, float]:
    return {job.id: job.ended_at for job in outcome.jobs if job.ended_at is not None}


@settings(max_examples=60, deadline=None)
@given(drawn=JOBS, altruism=st.sampled_from([0.0, 0.5, 1.0]))
def test_under_carbyne_no_job_ends_later_than_under_the_fair_policy_alone(drawn, altruism) -> None:
    jobs = jobs_of(drawn)
    fair, shared = ends(fluid.run(jobs, 8, "fair")), ends(fluid.run(jobs, 8, "carbyne", altruism))
    assert shared.keys() == fair.keys() == {job.id for job in jobs}
    for job_id, end in shared.items():
        assert end <= fair[job_id] + 1e-3


def test_under_hug_a_user_gets_an_equal_part_and_no_more() -> None:
    jobs = jobs_of([(0, 10, 8, "a"), (0, 10, 1, "b")])
    # While there are two users, the first one has 4 of 8 GPUs, though 7 are idle.
    assert ends(fluid.run(jobs, 8, "hug")) == pytest.approx({"j0": 15.0, "j1": 10.0})
    assert ends(fluid.run(jobs, 8, "fair")) == pytest.approx({"j0": 11.25, "j1": 10.0})


def test_deadlines_count_under_every_policy_of_fractions() -> None:
    jobs = [
        TraceJob("met", 0.0, 10.0, 8, deadline_s=10.0),
        TraceJob("late", 0.0, 10.0, 8, deadline_s=19.0),
    ]
    for policy in fluid.POLICIES:
        figures = fluid.run(jobs, 8, policy).figures()
        assert (figures["deadlines"], figures["deadlines_met"]) == (2, 1)


def test_carbyne_runs_from_the_command_line_and_is_no_slower_than_it_must_be() -> None:
    request = SimulateRequest(policies=("carbyne", "hug"), cluster="2x8xV100", jobs=60)
    lines = [execute(one)[0] for one in plan_runs(request)]
    assert all(line["finished"] == 60 for line in lines)
    assert lines[0]["avg_jct_s"] <= lines[1]["avg_jct_s"]
    (bad,) = plan_runs(SimulateRequest(policies=("carbyne:altruism=2",), jobs=1))
    with pytest.raises(WorkloadError, match="from 0 to 1"):
        execute(bad)
