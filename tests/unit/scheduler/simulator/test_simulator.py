"""The simulator: what arrives ends, figures are right, and equal seeds give equal output."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples

from skep_scheduler.model import PolicyChoice
from skep_scheduler.simulator.__main__ import main
from skep_scheduler.simulator.node_events import NodeAction, NodeChange
from skep_scheduler.simulator.readers import read_trace
from skep_scheduler.simulator.results import JobResult, Outcome, percentile
from skep_scheduler.simulator.workload import (
    TraceJob,
    WorkloadError,
    gangs_of,
    nodes_of,
    synthetic_trace,
    virtual_clusters,
)

HEADER = "id,submit_s,duration_s,gpus,vc,priority\n"


def simulate(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, object]]:
    assert main(args) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        assert line.pop("wall_s") >= 0
    return lines


def trace(tmp_path: Path, rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(header + rows)
    return path


def test_equal_seeds_give_equal_output(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--cluster", "2x4xV100", "--jobs", "20", "--seeds", "3-4")
    first, again = simulate(capsys, *args), simulate(capsys, *args)
    assert first == again
    assert [line["seed"] for line in first] == [3, 4]
    assert first[0]["avg_jct_s"] != first[1]["avg_jct_s"]


def test_figures_of_two_jobs_that_take_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path, "a,100,50,8,,0\nb,110,50,8,,0\n")
    (line,) = simulate(capsys, "--cluster", "1x8xV100", "--trace", str(path))
    assert (line["jobs"], line["finished"], line["preemptions"]) == (2, 2, 0)
    assert line["avg_jct_s"] == (50 + 90) / 2
    assert line["p99_jct_s"] == 90
    assert line["makespan_s"] == 100
    assert line["utilisation"] == 1.0


def test_a_preempted_job_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """600 s of work, interrupted after 300 s for 100 s of work of a higher priority."""
    path = trace(tmp_path, "low,0,600,8,,0\nhigh,300,100,8,,50\n")
    args = ("--cluster", "1x8xV100", "--trace", str(path), "--grace", "10")
    (line,) = simulate(capsys, *args)
    assert line["preemptions"] == 1
    assert line["makespan_s"] == 700  # the grace period is work that is kept, too
    assert line["utilisation"] == 1.0


def test_a_preempted_job_has_attained_what_it_ran() -> None:
    cluster = Cluster([node("n1")], owns(a=8), grace_s=10)
    cluster.run(gang("low", gpus=8, priority=0, duration_s=600))
    cluster.advance(300)
    cluster.ask_to_leave("low")
    cluster.submit(gang("high", gpus=8, duration_s=100))
    cluster.advance(320)
    assert cluster.state.waiting["low"].attained_gpu_s == 310 * 8
    assert cluster.state.waiting["low"].left_s == 600 - 310


def test_what_ran_on_a_lost_node_starts_again_elsewhere_from_the_beginning_of_its_attempt() -> None:
    cluster = Cluster([node("n1"), node("n2")], owns(a=16), grace_s=10, keep_progress=True)
    cluster.run(gang("one", gpus=8, duration_s=600), gang("two", gpus=8, duration_s=1000))
    (lost,) = {task.node for task in cluster.state.running["one"].tasks}
    (drained,) = {task.node for task in cluster.state.running["two"].tasks}
    cluster.change_node_later(NodeChange(100, lost, NodeAction.LOSE))
    cluster.change_node_later(NodeChange(150, lost, NodeAction.OPEN))
    cluster.change_node_later(NodeChange(300, drained, NodeAction.DRAIN))
    cluster.run_to_end()
    ended = {job.id: (job.started_at, job.ended_at) for job in cluster.outcome().jobs}
    assert ended["one"] == (0, 750), "it lost 100 s, and waited for 50 s"
    # "two" goes on for the grace period of 10 s, and then waits for the node that is left.
    assert ended["two"] == (0, 750 + 1000 - 310)
    assert (cluster.history["one"].losses, cluster.history["two"].losses) == (1, 0)
    assert not cluster.state.nodes[drained].schedulable


def test_changes_of_a_node_at_one_instant_happen_in_the_order_of_the_file() -> None:
    cluster = Cluster([node("n1")], owns(a=8))
    for _ in range(20):
        for action in (NodeAction.CLOSE, NodeAction.OPEN):
            cluster.change_node_later(NodeChange(50, "n1", action))
    cluster.submit_later(gang("late", at=60, gpus=8, duration_s=10))
    cluster.run_to_end()
    assert [job.ended_at for job in cluster.outcome().jobs] == [70]
    with pytest.raises(KeyError):
        cluster.change_node_later(NodeChange(50, "n2", NodeAction.OPEN))


def test_a_decision_takes_time_and_sees_what_happens_meanwhile() -> None:
    """The second job comes while the engine is about to plan for the first one, and goes first."""
    cluster = Cluster([node("n1")], owns(a=8))
    cluster.decide_s = 2.0
    cluster.lifetimes = {"low": 100.0, "high": 100.0}
    cluster.submit_later(gang("low", at=10, gpus=8, priority=0))
    cluster.submit_later(gang("high", at=11, gpus=8, priority=50))
    cluster.run_to_end()
    ended = {job.id: (job.started_at, job.ended_at) for job in cluster.outcome().jobs}
    assert ended == {"high": (12, 112), "low": (114, 214)}


def test_a_retry_starts_when_its_moment_is_noticed() -> None:
    cluster = Cluster([node("n1")], owns(a=8))
    cluster.lifetimes, cluster.failures = {"flaky": 50.0}, {"flaky": [30.0]}
    cluster.retry_delay_s = lambda failures: 1.0
    cluster.noticed_at = lambda at: 40.0
    cluster.submit(gang("flaky", gpus=8))
    cluster.tick()
    cluster.run_to_end()
    assert [job.ended_at for job in cluster.outcome().jobs] == [40 + 50]


def test_nodes_of_a_file_keep_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, nodes = trace(tmp_path, "a,0,100,8,,0\n"), tmp_path / "cluster.csv"
    nodes.write_text("node,gpus,model\nleft,8,V100\nright,8,V100\n")
    events = tmp_path / "nodes.csv"
    events.write_text("at_s,node,action\n-5,left,close\n-5,right,close\n30,right,open\n")
    args = ("--cluster", str(nodes), "--trace", str(path), "--node-events", str(events))
    (line,) = simulate(capsys, *args, "--placement", "cells")
    assert line["avg_jct_s"] == 130
    for text, problem in (
        ("left,8,V100\nleft,8,V100\n", "line 3, column node: left is on line 2, too"),
        (",8,V100\n", "line 2, column node: it is empty"),
        ("rack/1,8,V100\n", "line 2, column node: 'rack/1' has a /"),
        ("left,none,V100\n", "line 2, column gpus: 'none' is not a number"),
    ):
        nodes.write_text("node,gpus,model\n" + text)
        assert main((*args, "--placement", "cells")) == 2
        assert problem in capsys.readouterr().err


def test_node_events_are_read_on_the_clock_of_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, events = trace(tmp_path, "a,1000,100,8,,0\n"), tmp_path / "nodes.csv"
    events.write_text("at_s,node,action\n1050,v100-0,lose\n1070,v100-0,open\n")
    args = ("--cluster", "1x8xV100", "--trace", str(path), "--node-events", str(events))
    (line,) = simulate(capsys, *args, "--placement", "cells")
    assert line["avg_jct_s"] == 170, "50 s are lost, and 20 s the node is away"
    assert main((*args, "--placement", "nodes")) == 2
    capsys.readouterr()
    events.write_text("at_s,node,action\n1050,v100-0,lose\n1070,v100-7,open\n")
    assert main((*args, "--placement", "cells")) == 2
    message = "nodes.csv, line 3, column node: 'v100-7' is none of v100-0"
    assert message in capsys.readouterr().err


def test_a_failed_attempt_is_retried_after_its_delay_and_its_work_is_lost() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.lifetimes = {"flaky": 100.0}
    cluster.failures = {"flaky": [30.0, 40.0]}
    cluster.retry_delay_s = lambda failures: 10.0 * failures
    cluster.submit(gang("flaky"))
    cluster.tick()
    cluster.run_to_end()
    (done,) = cluster.outcome().jobs
    assert done.jct_s == 30 + 10 + 40 + 20 + 100
    assert cluster.history["flaky"].failures == 2


@pytest.mark.parametrize(
    ("header", "rows", "wanted"),
    [
        ("submit_s,gpus\n", "0,1\n", "no column duration_s"),
        (HEADER, "a,0,sixty,1,,0\n", "line 2, column duration_s: 'sixty' is not a number"),
        (HEADER, "a,0,60,1,,0\nb,0,60,0,,0\n", "line 3, column gpus: '0' is out of range"),
        (HEADER, "a,0,60,1.5,,0\n", "column gpus: '1.5' is out of range"),
        (HEADER, "", "no jobs"),
    ],
)
def test_a_trace_that_cannot_be_read_names_line_and_column(
    tmp_path: Path, header: str, rows: str, wanted: str
) -> None:
    with pytest.raises(WorkloadError, match=wanted):
        read_trace(trace(tmp_path, rows, header))


@pytest.mark.parametrize(
    "args",
    [
        ("--cluster", "8x8"),
        ("--vc", "a=V100"),
        ("--vc", "a=A100:1"),
        ("--policy", "no-such"),
        ("--seeds", "x"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    assert main(args) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1


def test_columns_of_the_philly_trace_are_understood(tmp_path: Path) -> None:
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    rows = "2017-10-09 07:01:55,66.0,1,66.0,b\n2017-10-09 06:13:03,2951.0,2,5902.0,a\n\n"
    first, second = read_trace(trace(tmp_path, rows, header))
    assert (first.submit_s, first.gpus, first.vc) == (0.0, 2, "a")
    assert second.submit_s == 2932.0


def test_a_job_larger_than_a_node_is_a_gang_of_equal_tasks() -> None:
    nodes = nodes_of("2x8xV100+1x4xA100")
    vcs = virtual_clusters(nodes, ["a=V100:16"], PolicyChoice())
    jobs = [TraceJob("wide", 0, 1, 12), TraceJob("small", 0, 1, 3)]
    wide, small = (one.members[0] for one in gangs_of(jobs, nodes, vcs))
    assert (wide.count, wide.gpus) == (2, 6)
    assert (small.count, small.gpus) == (1, 3)


def test_nearest_rank() -> None:
    values = [float(i) for i in range(1, 101)]
    assert [percentile(values, p) for p in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([], 99) == 0.0


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), priorities=st.lists(st.sampled_from([-1, 0, 5]), min_size=12))
def test_every_job_ends_and_served_time_is_its_duration(seed: int, priorities: list[int]) -> None:
    """Conservation, also over preemptions; `Cluster` validates the state at each plan."""
    cluster = Cluster([node("n0"), node("n1")], owns(a=8, b=8), keep_progress=True)
    jobs = synthetic_trace(len(priorities), 8, seed, load=1.5)
    for i, (job, priority) in enumerate(zip(jobs, priorities, strict=True)):
        cluster.submit_later(
            gang(job.id, "ab"[i % 2], gpus=job.gpus, priority=priority, at=job.submit_s,
                 duration_s=job.duration_s)
        )  # fmt: skip
    cluster.run_to_end(tick_limit=1_000)
    assert cluster.outcome().figures()["finished"] == len(jobs)
    for job in jobs:
        assert cluster.history[job.id].served_s == pytest.approx(job.duration_s)


def test_with_endless_capacity_a_job_takes_its_duration() -> None:
    cluster = Cluster([node(f"n{i}") for i in range(10)], owns(a=80), keep_progress=True)
    for job in synthetic_trace(20, 4, seed=1):
        cluster.submit_later(
            gang(job.id, gpus=job.gpus, at=job.submit_s, duration_s=job.duration_s)
        )
    cluster.run_to_end()
    for past in cluster.history.values():
        assert past.ended_at == pytest.approx(past.gang.submitted_at + past.gang.duration_s)


def test_reservations_are_refused_where_none_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "5", "--policy", "fifo:backfill=reserve"]) != 0
    assert "--placement cells" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["priority", "batch"])
def test_an_infinite_number_in_a_trace_is_named_by_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, column: str
) -> None:
    path = trace(tmp_path, "a,0,10,1,inf\n", f"id,submit_s,duration_s,gpus,{column}\n")
    assert main(["--trace", str(path), "--policy", "fifo"]) != 0
    assert "line 2" in capsys.readouterr().err


def test_a_job_starves_that_waits_longer_than_the_limit_or_for_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`b` waits for 100 s and `c` for 150 s; `large` asks for more GPUs than there are, and does
    not count; `y` waits until the run is over."""
    path = trace(tmp_path, "a,0,100,8,,0\nb,0,50,8,,0\nc,0,50,8,,0\nlarge,0,50,16,,0\n")
    args = ("--cluster", "1x8xV100", "--trace", str(path), "--placement", "nodes")
    args = (*args, "--policy", "fifo")
    (line,) = simulate(capsys, *args)
    assert (line["wait_max_s"], line["starved"], line["starved_after_s"]) == (150, 0, 86400)
    (line,) = simulate(capsys, *args, "--starved-after", "100")
    assert (line["starved"], line["finished"]) == (1, 3), "a wait of 100 s is not longer than that"
    waits = [
        JobResult("x", 1, 0.0, 0.0, 90.0, 90.0, 90.0),
        JobResult("y", 1, 10.0, None, None, 0, 5),
    ]
    assert Outcome(waits, gpus=1).figures(60)["wait_max_s"] == 80
    assert Outcome(waits, gpus=1).figures(60)["starved"] == 1
    assert main((*args, "--starved-after", "-1")) == 2
