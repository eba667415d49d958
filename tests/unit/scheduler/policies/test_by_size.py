"""Longest first, fewest GPUs first, most GPUs first: the same live and in the event kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.model import Options, PolicyChoice
from skep_scheduler.policies.by_size import Largest, Ljf, Smallest
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import CountPool
from skep_scheduler.simulator.workload import TraceJob

# Name, GPUs and seconds; each is submitted before the next one.
JOBS = [("first", 2, 30), ("wide", 4, 20), ("narrow", 1, 10), ("long", 2, 40)]
ORDERS = [
    (Ljf, ["long", "first", "wide", "narrow"]),
    (Smallest, ["narrow", "first", "long", "wide"]),
    (Largest, ["wide", "first", "long", "narrow"]),
]


@pytest.mark.parametrize(("policy", "order"), ORDERS)
def test_live_gangs_are_ranked_by_it(policy: type, order: list[str]) -> None:
    (vc,) = owns(a=8)
    vcs = [replace(vc, policy=PolicyChoice(policy.name, (("backfill", "block"),)))]
    cluster = Cluster([node("n0")], vcs, Options(starvation_s=1e9))
    cluster.run(gang("blocker", gpus=8))
    for at, (name, gpus, seconds) in enumerate(JOBS):
        cluster.submit(gang(name, gpus=gpus, at=float(at), duration_s=float(seconds)))
    cluster.tick()
    cluster.end("blocker")
    # All ask for 9 GPUs: the last one finds none.
    assert [p.gang for p in cluster.tick().placements] == order[:3]


@pytest.mark.parametrize(("policy", "order"), ORDERS)
def test_simulated_jobs_start_in_the_same_order(policy: type, order: list[str]) -> None:
    jobs = [TraceJob("blocker", 0, 10, 4)]
    jobs += [TraceJob(name, at + 1, seconds, gpus) for at, (name, gpus, seconds) in enumerate(JOBS)]
    outcome = Kernel(jobs, {"": (CountPool(4), policy(backfill="block"))}).run()
    starts = {job.id: (job.started_at, order.index(job.id)) for job in outcome.jobs[1:]}
    assert sorted(starts, key=lambda name: starts[name]) == order


def test_a_job_of_unknown_duration_is_last_of_the_longest_first() -> None:
    known, unknown = gang("a", duration_s=1.0), gang("b")
    assert Ljf().key(known, 0.0) < Ljf().key(unknown, 0.0)
