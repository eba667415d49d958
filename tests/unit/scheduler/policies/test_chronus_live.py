"""Chronus live: deadlines by terms, with admission when a job is submitted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler import engine
from skep_scheduler.explain.standings import sentence
from skep_scheduler.model import Code, Options, PolicyChoice, Reason

OPTIONS = Options(starvation_s=1e9, min_run_s=0.0, leave_s=0.0)


def cluster_of(gpus: int = 8, **parameters: str | float) -> Cluster:
    choice = PolicyChoice("chronus", tuple(sorted(parameters.items())))
    vcs = [replace(vc, policy=choice) for vc in owns(a=gpus)]
    return Cluster([node("n0", gpus)], vcs, OPTIONS, 0.0, keep_progress=True)


def test_a_job_without_a_deadline_yields_when_a_term_is_needed_for_one() -> None:
    world = cluster_of(term_s=600.0)
    world.run(gang("best-effort", gpus=8, duration_s=90_000.0))
    world.now = 100.0
    world.submit(gang("due", gpus=8, at=100.0, duration_s=1_500.0, deadline_at=9_000.0))
    for at in (100.0, 600.0):
        world.now = at
        plan = world.tick()
    (made,) = plan.preemptions
    (victim,) = made.victims
    assert (made.gang, victim.gang) == ("due", "best-effort")
    assert sentence(victim.standing, 600.0) == (
        "it has no deadline, so it runs on what those with one leave; the next term begins in "
        "about 10 min"
    )


def refusal(world: Cluster, name: str, gpus: int, runs_s: float, due_at: float) -> Reason | None:
    one = gang(name, gpus=gpus, at=world.now, duration_s=runs_s, deadline_at=due_at)
    answer = engine.explain(world.state, one, world.now, OPTIONS)
    return answer if isinstance(answer, Reason) and answer.code == Code.NOT_ADMITTED else None


def test_a_deadline_is_declined_that_leaves_too_few_terms_or_takes_those_of_another_job() -> None:
    world = cluster_of(term_s=600.0)
    world.run(gang("first", gpus=8, duration_s=6_000.0, deadline_at=7_800.0))
    assert refusal(world, "fits", 8, 3_000.0, 12_600.0) is None
    assert refusal(world, "alone", 8, 3_000.0, 3_000.0) is not None  # and none beside it counts
    declined = refusal(world, "second", 8, 3_000.0, 7_800.0)
    assert declined is not None
    earliest = declined.details["earliest"]
    assert 10_000.0 < earliest < 12_600.0
    assert refusal(world, "second", 8, 3_000.0, earliest) is None
    assert refusal(world, "best-effort", 8, 3_000.0, 1e12) is None


def test_a_gang_that_does_not_yield_counts_as_taken_until_it_ends() -> None:
    world = cluster_of()
    world.run(gang("firm", gpus=4, preemptible=False, duration_s=1e6))
    assert refusal(world, "half", 4, 3_000.0, 9_000.0) is None
    declined = refusal(world, "whole", 8, 3_000.0, 9_000.0)
    assert declined is not None
    assert "earliest" not in declined.details


def pass_time(world: Cluster, until: float) -> None:
    """Let time pass with a plan at the start of each term, as the live scheduler does."""
    while world.now < until:
        world.advance(min(world.now // 60.0 * 60.0 + 60.0, until))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))]
)
def test_admitted_jobs_meet_their_deadlines_where_a_restart_costs_nothing(seed: int) -> None:
    """Best effort comes all the time; durations are as they were declared."""
    world, random, admitted = cluster_of(term_s=60.0), Random(seed), []
    for number in range(30):
        runs_s, gpus = random.uniform(100, 2_000), random.choice([1, 2, 4, 8])
        due = world.now + random.uniform(1, 8) * runs_s + 120
        name = f"j{number:02}"
        is_due = random.random() < 0.6 and refusal(world, name, gpus, runs_s, due) is None
        if is_due:
            admitted.append(name)
        world.submit(
            gang(
                name,
                gpus=gpus,
                at=world.now,
                duration_s=runs_s,
                deadline_at=due if is_due else None,
            )
        )
        pass_time(world, world.now + random.uniform(10, 300))
    while any(world.history[name].ended_at is None for name in admitted):
        pass_time(world, world.now + 60.0)
    met = [job.met for job in world.outcome().jobs if job.id in admitted]
    assert len(met) > 4
    assert all(met)
