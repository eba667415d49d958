"""What presets make of traces that were not made for them: another cluster, a job that is too
large, a file that a spreadsheet wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skep_scheduler.simulator.command import (
    SimulateRequest,
    WorkloadError,
    execute,
    plan_runs,
)
from skep_scheduler.simulator.presets.muri_themis import run_themis
from skep_scheduler.simulator.readers import read
from skep_scheduler.simulator.workload import TraceJob

MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority"
)
ELASTICFLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"


def simulate(path: Path, preset: str, policy: str, cluster: str, **more: Any) -> dict[str, Any]:
    request = SimulateRequest(
        trace=path, preset=preset, policies=(policy,), cluster=cluster, **more
    )
    (run,) = plan_runs(request)
    return execute(run)[0]


def muri(path: Path, *sizes: int) -> Path:
    """Write a trace of jobs of 100 iterations of 1 s."""
    rows = [f"{n},{gpus},0,100,vgg16,16,100000,1000,1,2,1,0" for n, gpus in enumerate(sizes)]
    path.write_text("\n".join([MURI, *rows, ""]))
    return path


@pytest.mark.parametrize("policy", ["srtf", "srsf", "tiresias-l", "antman", "themis"])
def test_a_job_larger_than_the_cluster_is_named(tmp_path: Path, policy: str) -> None:
    trace = muri(tmp_path / "jobs.csv", 1, 16)
    with pytest.raises(WorkloadError, match="job 1 needs 16 GPUs; the cluster has 8") as caught:
        simulate(trace, "muri-n8g8", policy, "1x8xV100")
    assert caught.value.code == "bad_trace"


@pytest.mark.parametrize("policy", ["srtf", "srsf", "themis"])
def test_a_job_of_more_whole_nodes_than_there_are_is_named(tmp_path: Path, policy: str) -> None:
    trace = muri(tmp_path / "jobs.csv", 1, 16)
    with pytest.raises(WorkloadError, match="job 1 needs 2 whole nodes of 8 GPUs; the cluster"):
        simulate(trace, "muri-n8g8", policy, "2x4xV100+1x8xV100")


def test_tiresias_names_a_job_larger_than_the_cluster_of_elasticflow(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(f"{ELASTICFLOW}\nlarge,0,100,bert,900,16,32,600\n")
    with pytest.raises(WorkloadError, match="job large needs 32 GPUs; the cluster has 8"):
        simulate(trace, "elasticflow", "tiresias", "1x8xA100")


def test_no_gpu_is_counted_as_held_after_the_end_of_a_job(tmp_path: Path) -> None:
    """A full GPU is used at 100 %, though the loop looks at ends up to a slot late."""
    profiles = tmp_path / "throughputs_A100"
    profiles.mkdir()
    (profiles / "bert.csv").write_text("global_batch_size,1\n16,1.0\n")
    trace = tmp_path / "jobs.csv"
    rows = [f"{n},{n},100,bert,{9000 + n},16,1,100" for n in range(4)]
    trace.write_text("\n".join([ELASTICFLOW, *rows, ""]))
    for policy in ("edf", "elasticflow"):
        line = simulate(trace, "elasticflow", policy, "1x1xA100", profiles=profiles)
        assert line["finished"] == 4
        assert 0.5 < line["utilisation"] <= 1


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("id,submit_s,duration_s,gpus\nfirst,0,60,1\n", encoding="utf-8-sig")
    assert [job.id for job in read(path).jobs] == ["first"]
    cluster = tmp_path / "cluster.csv"
    cluster.write_text("nodes,gpus,model\n2,8,V100\n", encoding="utf-8-sig")
    line = simulate(path, "", "fifo", str(cluster))
    assert line["utilisation"] == pytest.approx(1 / 16)


def test_themis_compares_seconds_and_not_iterations() -> None:
    """Both need all GPUs for 100 s, so that who is first in the trace starts; counted in
    iterations, the other one would be ten times as late."""
    jobs = [
        TraceJob("first", 0, 100, 8, model="vgg16", iterations=1000, iteration_s=0.1),
        TraceJob("second", 0, 100, 8, model="vgg16", iterations=100, iteration_s=1.0),
    ]
    first, second = run_themis(jobs, [8]).jobs
    assert (first.id, first.started_at) == ("first", 0)
    assert second.started_at == first.ended_at
