"""The event kernel of elastic policies, on small traces."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skep_scheduler.policies.afs import Afs
from skep_scheduler.policies.chronus import Chronus
from skep_scheduler.policies.edf import Edf
from skep_scheduler.policies.elastic import ElasticPolicy
from skep_scheduler.policies.elasticflow import ElasticFlow
from skep_scheduler.policies.karuna import Karuna
from skep_scheduler.policies.mlfs import Mlfs
from skep_scheduler.policies.optimus import Optimus
from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.elastic import by_speedup, read_speedup, run_elastic
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import CountPool
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

GPUS = 8


def simulate(
    jobs: list[TraceJob], policy: ElasticPolicy, speedup: str = "amdahl:0.1", restart_s: float = 0.0
) -> Outcome:
    runs = by_speedup(jobs, read_speedup(speedup), GPUS, restart_s)
    return run_elastic(runs, policy, GPUS)


def srtf_on_one_server(jobs: list[TraceJob]) -> list[float]:
    """Return the ends of jobs, whose work is GPU-seconds, on one server of all GPUs."""
    coming = sorted((job.submit_s, n) for n, job in enumerate(jobs))
    waiting: list[tuple[float, int]] = []
    ends, now = [0.0] * len(jobs), 0.0
    while coming or waiting:
        if not waiting:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            _, n = coming.pop(0)
            heapq.heappush(waiting, (jobs[n].duration_s * jobs[n].gpus / GPUS, n))
        left, n = heapq.heappop(waiting)
        until = min(now + left, coming[0][0] if coming else now + left)
        if until < now + left:
            heapq.heappush(waiting, (left - (until - now), n))
        else:
            ends[n] = until
        now = until
    return ends


traces = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(1, 3000), st.integers(0, 3), st.integers(1, 8)),
    min_size=1,
    max_size=12,
).map(
    lambda rows: [
        TraceJob(str(n), at, run, 2**power, deadline_s=at + run * slack)
        for n, (at, run, power, slack) in enumerate(rows)
    ]
)


@given(traces)
def test_afs_is_srtf_where_speed_up_is_linear(jobs: list[TraceJob]) -> None:
    """Hwang et al., NSDI 2021, section 3: efficiency is the same for all, so that size decides."""
    outcome = simulate(jobs, Afs(), "linear")
    mean = sum(job.ended_at or 0.0 for job in outcome.jobs) / len(jobs)
    assert mean == pytest.approx(sum(srtf_on_one_server(jobs)) / len(jobs), abs=1e-3)


@given(traces)
def test_elasticflow_never_misses_a_deadline_that_it_admitted(jobs: list[TraceJob]) -> None:
    for job in simulate(jobs, ElasticFlow()).jobs:
        assert job.met is not bool(job.refused)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(traces)
def test_karuna_misses_at_most_one_deadline_where_edf_meets_all(jobs: list[TraceJob]) -> None:
    """Where all jobs have deadlines and speed-up is linear; EDF runs each at its own size."""
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    edf = Kernel(ordered, {"": (CountPool(GPUS), Edf())}).run()
    if all(job.met for job in edf.jobs):
        karuna = simulate(jobs, Karuna(round_s=1.0), "linear")
        assert sum(not job.met for job in karuna.jobs) <= 1


@given(traces, st.sampled_from((Afs(), Chronus(), ElasticFlow(), Karuna(), Mlfs(), Optimus())))
def test_every_job_ends_and_none_before_its_work_can_be_done(
    jobs: list[TraceJob], policy: ElasticPolicy
) -> None:
    speedup = read_speedup("amdahl:0.1")
    for job, result in zip(jobs, simulate(jobs, policy, restart_s=5.0).jobs, strict=True):
        if result.refused:
            continue
        least = job.duration_s * speedup(job.gpus) / speedup(GPUS)
        assert result.ended_at is not None
        assert result.ended_at >= job.submit_s + least - 1e-5


def test_a_resize_costs_time_with_the_gpus_held() -> None:
    jobs = [TraceJob("a", 0, 800, 8), TraceJob("b", 100, 80, 8)]
    a, b = simulate(jobs, Afs(), "linear", restart_s=30.0).jobs
    assert (b.ended_at, b.held_s) == (180.0, 80.0)
    assert (a.ended_at, a.held_s, a.preemptions) == (910.0, 830.0, 1)


def run(trace: Path, policy: str, **request: Any) -> dict[str, Any]:
    (only,) = plan_runs(SimulateRequest(trace, "1x8xV100", (policy,), **request))
    return execute(only)[0]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text("id,submit_s,duration_s,gpus\na,0,800,4\nb,100,80,4\n", encoding="utf-8")
    return path


def test_the_line_names_the_speed_up_that_was_assumed(trace: Path) -> None:
    assert run(trace, "afs")["speedup"] == "amdahl:0.1"
    line = run(trace, "afs", speedup="linear")
    assert (line["speedup"], line["makespan_s"], line["rescales"]) == ("linear", 440.0, 1)
    assert "speedup" not in run(trace, "fifo")


@pytest.mark.parametrize("speedup", ["amdahl:2", "amdahl:x", "quadratic", "linear:1"])
def test_an_unknown_speed_up_is_refused(trace: Path, speedup: str) -> None:
    with pytest.raises(WorkloadError) as error:
        run(trace, "afs", speedup=speedup)
    assert error.value.code == "bad_option"
    assert "amdahl:F" in error.value.message


def test_a_missing_profile_is_refused(trace: Path) -> None:
    with pytest.raises(WorkloadError) as error:
        run(trace, "afs", speedup="profile")
    assert error.value.code == "bad_profile"


def test_a_bad_parameter_is_refused(trace: Path) -> None:
    with pytest.raises(ValueError, match="future of afs is one of all, next"):
        run(trace, "afs:future=soon")
