"""Policies that compare all jobs of a virtual cluster as of the start of a round: MLFS, and the
auction of Themis. They run live by the code of their simulated form."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.explain.standings import sentence
from skep_scheduler.model import Gang, Options, PolicyChoice
from skep_scheduler.policies.base import RoundView
from skep_scheduler.policies.mlfs import Mlfs, facts_of
from skep_scheduler.policies.themis import Bidder, Themis, auction, winners

OPTIONS = Options(starvation_s=1e9, min_run_s=0.0, leave_s=0.0)


def cluster_of(name: str, gpus: int = 8, **parameters: str | float) -> Cluster:
    choice = PolicyChoice(name, tuple(sorted(parameters.items())))
    vcs = [replace(vc, policy=choice) for vc in owns(a=gpus)]
    return Cluster([node("n0", gpus)], vcs, OPTIONS, 0.0, keep_progress=True)


def view_of(gangs: list[Gang], gpus: float, start: float, **placed_at: float) -> RoundView:
    def demand(one: Gang) -> dict[str, float]:
        return {"A100": float(one.gpus)}

    return RoundView(start, gangs, demand, {"A100": gpus}, lambda one: True, placed_at)


@pytest.mark.parametrize("seed", range(6))
def test_mlfs_runs_the_jobs_that_its_simulated_form_runs(seed: int) -> None:
    """Of jobs that came before a round, on GPUs where all fit that are enough."""
    random = Random(seed)
    jobs = [
        gang(
            f"j{n}",
            gpus=random.choice([1, 1, 2, 4]),
            at=random.uniform(0, 3_000),
            duration_s=random.choice([None, random.uniform(300, 40_000)]),
            deadline_at=random.choice([None, random.uniform(4_000, 30_000)]),
        )
        for n in range(9)
    ]
    world = cluster_of("mlfs")
    world.now = 3_600.0
    world.submit(*jobs)
    world.tick()
    view = view_of(jobs, 8.0, 3_600.0)
    in_order = sorted(jobs, key=lambda job: job.submitted_at)
    sizes = Mlfs().decide([facts_of(view, job) for job in in_order], 8, 3_600.0)
    assert world.state.running.keys() == sizes.gpus.keys()


def test_a_running_job_yields_at_the_start_of_a_round_and_says_why() -> None:
    world = cluster_of("mlfs", round_s=60.0)
    world.run(gang("long", gpus=8, duration_s=400_000.0))
    world.now = 130.0
    world.submit(gang("short", gpus=8, at=130.0, duration_s=600.0))
    plan = world.tick()
    assert not plan.preemptions
    assert "it came after they were compared; jobs are compared again" in (
        plan.reasons["short"].message
    )
    assert plan.next_at == 180.0
    world.now = 180.0
    (made,) = world.tick().preemptions
    (victim,) = made.victims
    assert (made.gang, victim.gang) == ("short", "long")
    assert sentence(victim.standing, 180.0).startswith(
        "its value is 0.30, the largest goes first; its remaining time counts most for it; jobs are"
    )


def test_a_job_that_is_due_soon_goes_before_one_that_is_short() -> None:
    short = gang("short", duration_s=3_600.0)
    due = gang("due", at=1.0, duration_s=7_200.0, deadline_at=8_000.0)
    weighs_deadlines = Mlfs(deadline_weight=10.0, left_weight=0.1)
    for policy, first in ((Mlfs(), "short"), (weighs_deadlines, "due")):
        assert policy.ranking(view_of([due, short], 8.0, 60.0)).order[0] == first


def test_themis_offers_gpus_to_those_that_end_latest_by_an_equal_part() -> None:
    """A job that waited for as long as it runs is before one that just came."""
    waited = gang("waited", gpus=8, at=0.0, duration_s=2_000.0)
    came = gang("came", gpus=8, at=1_880.0, duration_s=2_000.0)
    ranking = Themis().ranking(view_of([came, waited], 8.0, 2_000.0))
    assert ranking.order == ["waited", "came"]
    assert ranking.numbers["waited"] == {"rho": 1.3, "bids": True}
    # It ends 3,320 s after it came, or 4,000 s with half of the GPUs.
    assert ranking.numbers["came"] == {"rho": 0.83, "bids": False}


@pytest.mark.parametrize("seed", range(4))
def test_themis_gives_gpus_to_those_that_the_auction_of_the_simulator_gives_them(seed: int) -> None:
    random = Random(seed)
    jobs = [
        gang(
            f"j{n:02}",
            gpus=random.choice([1, 2, 4, 8]),
            at=random.uniform(0, 5_000),
            duration_s=random.uniform(600, 30_000),
        )
        for n in range(20)
    ]
    jobs.sort(key=lambda job: job.submitted_at)
    view, policy = view_of(jobs, 16.0, 6_000.0), Themis(fairness=0.5)
    bids = [policy._bid(view, job, job.gpus, 16 / 20) for job in jobs]
    granted = auction(bids, 16, 0.5)
    free, given = 16, set()
    for gang_id in policy.ranking(view).order:
        gpus = next(job.gpus for job in jobs if job.id == gang_id)
        if gpus <= free:
            free -= gpus
            given.add(gang_id)
    assert given == {job.id for job, gangs in zip(jobs, granted, strict=True) if gangs}


def test_an_auction_is_the_same_in_units_of_the_largest_common_gang() -> None:
    bids = [Bidder((2.0, 1.5), 8), Bidder((3.0, 2.9), 4), Bidder((1.8, 1.0), 12)]
    assert winners(bids, 16) == winners([replace(one, gang=one.gang // 4) for one in bids], 4)
    assert winners(bids, 24) == [1, 1, 1]


def test_a_job_keeps_its_gpus_for_its_term_under_themis() -> None:
    world = cluster_of("themis", round_s=600.0)
    world.now = 660.0
    world.run(gang("first", gpus=8, at=650.0, duration_s=9_000.0))
    world.submit(gang("second", gpus=8, at=600.0, duration_s=1_000.0))
    plan = world.tick()
    assert (plan.preemptions, plan.next_at) == ((), 1_200.0)
    assert "the next auction of GPUs is in about 9 min" in plan.reasons["second"].message
    world.now = 1_200.0
    (made,) = world.tick().preemptions
    assert made.gang == "second"
