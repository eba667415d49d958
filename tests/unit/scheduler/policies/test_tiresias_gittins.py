"""2D-Gittins live: the order of the published simulator, by what a virtual cluster's own jobs were
served."""

from __future__ import annotations

import csv
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random

import pytest
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler import engine
from skep_scheduler.explain.standings import sentence
from skep_scheduler.model import Options, Plan, PolicyChoice
from skep_scheduler.policies.ordered import Ordered
from skep_scheduler.policies.tiresias import LEAST_SERVICES, TiresiasGittins
from skep_scheduler.simulator.presets import tiresias
from skep_scheduler.simulator.workload import TraceJob

OPTIONS = Options(starvation_s=1e9, min_run_s=0.0, leave_s=0.0)
# Most jobs end early; who is served for more than 2,000 GPU-seconds goes on for long.
SAMPLE = (
    *(float(n) for n in range(200, 2_000, 60)),
    *(float(n) for n in range(9_000, 40_000, 999)),
)


class WithSample(Cluster):
    """Its order goes by `SAMPLE`, whatever ends meanwhile."""

    def plan(self) -> Plan:
        policy = Ordered(TiresiasGittins().by_services(SAMPLE))
        return engine.plan(self.state, self.now, self.options, lambda vc: policy)


@pytest.mark.parametrize("seed", range(12))
def test_jobs_end_when_they_do_in_the_published_simulator(seed: int, tmp_path: Path) -> None:
    """Who runs, who is displaced and when, on two GPUs where a restart costs nothing."""
    random, submitted, jobs = Random(seed), 0, []
    for number in range(14):
        submitted += random.randint(1, 2_000)
        duration = round(exp(random.uniform(4.0, 9.5)))
        jobs.append(TraceJob(f"j{number:02}", submitted, duration, random.choice([1, 1, 2])))
    published = tiresias.run(jobs, 2, "dlas-gpu-gittins", _sample_file(tmp_path))
    vcs = [replace(vc, policy=PolicyChoice("tiresias_gittins")) for vc in owns(a=2)]
    live = WithSample([node("n0", 2)], vcs, OPTIONS, 0.0, keep_progress=True)
    for job in jobs:
        live.lifetimes[job.id] = job.duration_s
        live.submit_later(gang(job.id, gpus=job.gpus, at=job.submit_s))
    live.run_to_end(tick_limit=5_000)
    ends = {known.id: known.ended_at for known in published.jobs}
    assert {known.id: known.ended_at for known in live.outcome().jobs} == pytest.approx(ends)
    assert sum(known.preemptions for known in published.jobs) > 2


def _sample_file(folder: Path) -> Path:
    path = folder / "services.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["duration"], *([value] for value in SAMPLE)])
    return path


def test_a_waiting_and_a_preempted_job_say_how_many_earlier_jobs_ended_soon() -> None:
    policy = TiresiasGittins(quantum_gpu_s=3_600)
    new, served = gang("new"), gang("served", attained_gpu_s=2_000.0)
    order = policy.by_services(SAMPLE)
    assert order.key(new, 0.0) < order.key(served, 0.0)
    assert sentence(order.standing(new), 0.0) == (
        "it has had 0 GPU-seconds, so it is in queue 1 of 3, which goes first; within a queue "
        "those that most probably end soon go first: 48% of the earlier jobs that were served "
        "longer than it was ended within 1.0 GPU-hours more"
    )
    assert "0% of the earlier jobs that" in sentence(order.standing(served), 0.0)
    beyond = order.standing(gang("beyond", attained_gpu_s=1e6))
    assert sentence(beyond, 0.0).endswith(
        "no earlier job was served longer than it was, so the others go first"
    )


def test_with_too_few_jobs_that_ended_the_first_submitted_goes_first() -> None:
    few = TiresiasGittins().by_services(SAMPLE[: LEAST_SERVICES - 1])
    assert few.key(gang("new"), 0.0) == few.key(gang("served", attained_gpu_s=3_000.0), 0.0)
    assert "until more is known (19 jobs of 20 have ended)" in sentence(
        few.standing(gang("new")), 0.0
    )


def test_jobs_that_end_teach_the_order_from_the_next_hour_on() -> None:
    vcs = [replace(vc, policy=PolicyChoice("tiresias_gittins")) for vc in owns(a=2, b=2)]
    cluster = Cluster([node("n0", 4)], vcs, OPTIONS)
    cluster.run(gang("short"), gang("foreign", vc="b", gpus=2))
    cluster.advance(100.0)
    cluster.end("short")
    cluster.tick()
    assert cluster.state.services == {}
    cluster.advance(3_600.0)
    assert cluster.state.services == {"a": (100.0,)}
    assert cluster.state.inventory.virtual_clusters[0].services == (100.0,)
