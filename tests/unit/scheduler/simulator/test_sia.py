"""The presets of Sia: its step times to the second, and the runs of its artifact."""

from __future__ import annotations

import csv
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.traces import published, trace

from skep_scheduler.simulator.applications import read_applications
from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.presets import registry
from skep_scheduler.simulator.presets.sia_jobs import JobGpus, SiaJob
from skep_scheduler.simulator.presets.sia_rounds import place
from skep_scheduler.simulator.readers import read
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import WorkloadError

WORKLOAD = "sia/workloads/philly/workload-1.csv"
TYPES = ("aws", "dgx-ext", "rtx")


def run(path: Path, policy: str, preset: str = "sia-64", **request: Any) -> dict[str, Any]:
    (only,) = plan_runs(SimulateRequest(path, policies=(policy,), preset=preset, **request))
    line, _ = execute(only)
    return line


def artifact(policy: str, workload: str) -> dict[str, Any]:
    runs = published("sia_artifact_runs.json")["runs"]
    return next(r for r in runs if (r["policy"], r["workload"]) == (policy, f"philly/{workload}"))


def first_lines(path: Path, count: int, to: Path) -> Path:
    to.write_text("\n".join(path.read_text().splitlines()[: count + 1]) + "\n")
    return to


def test_jobs_with_one_allocation_end_at_the_second_of_the_artifact() -> None:
    """sia_artifact_runs.json: the 66 jobs of Gavel's run with `allocation`."""
    jobs = {job.id: job for job in read(trace(WORKLOAD)).jobs}
    names = [job.model for job in jobs.values()]
    known = read_applications(trace("sia/profiles"), names, TYPES)
    kept = artifact("Gavel+TunedJobs", "workload-1")["allocation"]
    assert len(kept) == 66
    for name, wanted in kept.items():
        job = SiaJob(jobs[name], known[jobs[name].model], fixed=True)
        counts = wanted["gpus_per_node"]
        nodes = tuple(node for node, gpus in enumerate(counts) for _ in range(gpus))
        now = wanted["allocated_at_s"]
        job.allocate(JobGpus(wanted["type"], nodes), now)
        while job.ended_at is None:
            job.run(360, now)
            now += 360
        assert (name, job.ended_at) == (name, wanted["completed_at_s"])


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param("workload-1", marks=pytest.mark.long),
        pytest.param("workload-2", marks=pytest.mark.long),
        "workload-3",
    ],
)
def test_gavel_with_tuned_jobs_is_that_of_the_artifact(workload: str) -> None:
    """sia_artifact_runs.json: the band is 20 %, but the middle of the optimum is the artifact's."""
    wanted = artifact("Gavel+TunedJobs", workload)
    line = run(trace(f"sia/workloads/philly/{workload}.csv"), "gavel-tj")
    assert line["finished"] == 160
    assert line["avg_jct_s"] == pytest.approx(wanted["mean_jct_s"], rel=1e-9)
    assert line["p99_jct_s"] == wanted["p99_jct_s"]
    assert line["makespan_s"] == wanted["makespan_s"]
    assert line["rounds"] == wanted["rounds"]
    assert line["gpu_hours_per_job"] == pytest.approx(wanted["gpu_hours_per_job"], abs=5e-5)
    assert line["restarts_per_job"] == pytest.approx(wanted["restarts_per_job"], abs=5e-5)
    assert line["contention_max"] == wanted["contention_max"]


@pytest.mark.long
@pytest.mark.parametrize("workload", ["workload-1", "workload-2", "workload-3"])
def test_sia_is_within_the_bands_of_the_artifact(workload: str) -> None:
    """SCHEDULING.md, section 4.3: equal optima are the solver's choice."""
    wanted = artifact("Sia (CBC)", workload)
    line = run(trace(f"sia/workloads/philly/{workload}.csv"), "sia")
    assert line["finished"] == 160
    assert line["avg_jct_s"] == pytest.approx(wanted["mean_jct_s"], rel=0.05)
    assert line["p99_jct_s"] == pytest.approx(wanted["p99_jct_s"], rel=0.1)
    assert line["makespan_s"] == pytest.approx(wanted["makespan_s"], rel=0.06)
    assert line["gpu_hours_per_job"] == pytest.approx(wanted["gpu_hours_per_job"], rel=0.05)
    assert line["restarts_per_job"] == pytest.approx(wanted["restarts_per_job"], rel=0.1)


@pytest.mark.long
def test_sia_and_pollux_on_t4_alone_are_near_table_4() -> None:
    """sia_sosp23_tables.json, means of ten workloads of Philly; here the first of those given."""
    table = published("sia_sosp23_tables.json")["table4_homogeneous_64xT4_philly"]
    sia, pollux = (run(trace(WORKLOAD), policy, "sia-t4") for policy in ("sia", "pollux"))
    assert sia["finished"] == pollux["finished"] == 160
    assert sia["avg_jct_s"] / 3600 == pytest.approx(table["Sia"][0], rel=0.2)
    assert pollux["avg_jct_s"] / 3600 == pytest.approx(table["Pollux"][0], rel=0.2)
    assert sia["avg_jct_s"] <= pollux["avg_jct_s"]


# sia_sosp23_tables.json, table 3: mean JCT, p99, makespan (hours) and GPU-hours per job. Of p99 the
# paper says no spread; it is over all jobs there, and the mean of the workloads here.
NEWTRACE = {"sia": ("Sia", 0.15), "pollux": ("Pollux", 0.2), "gavel-tj": ("Gavel+TJ", 3.0)}


def run_newtrace(policy: str, number: int) -> dict[str, Any]:
    return run(trace(f"sia/workloads/newtrace/workload-{number}.csv"), policy)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("policy", list(NEWTRACE))
def test_newtrace_is_that_of_the_paper(policy: str) -> None:
    """The means of all ten workloads, of 960 jobs each."""
    name, spread = NEWTRACE[policy]
    wanted = published("sia_sosp23_tables.json")["table3_heterogeneous_64gpu"]["newTrace"][name]
    with ProcessPoolExecutor(2) as pool:
        lines = list(pool.map(run_newtrace, [policy] * 10, range(1, 11)))
    assert all(line["finished"] == 960 for line in lines)

    def mean(figure: str, unit: float = 1.0) -> float:
        return sum(line[figure] for line in lines) / len(lines) / unit

    assert mean("avg_jct_s", 3600.0) == pytest.approx(wanted["avg_jct_h"], abs=spread)
    assert mean("makespan_s", 3600.0) == pytest.approx(wanted["makespan_h"], rel=0.02)
    assert mean("gpu_hours_per_job") == pytest.approx(wanted["gpuh_per_job"], rel=0.03)
    assert mean("contention_mean") == pytest.approx(wanted["contention_mean_max"][0], rel=0.15)


# Bands of SCHEDULING.md, section 4.3: mean JCT, p99 over all jobs, makespan (hours), GPU-hours per
# job. None: there is none, as the runs behind the print spread too much (makespan by 7.9 h).
TABLE3: dict[str, tuple[str, float, float | None, float | None, float | None]] = {
    "gavel-tj": ("Gavel+TJ", 0.4, 3.0, 9.0, 6.0),
    "pollux": ("Pollux", 0.2, None, None, None),
    "sia": ("Sia", 0.1, 2.0, 1.9, 0.7),
}


def run_philly(policy: str, number: int) -> Outcome:
    path = trace(f"sia/workloads/philly/workload-{number}.csv")
    (only,) = plan_runs(SimulateRequest(path, policies=(policy,), preset="sia-64"))
    setup = registry.Setup(only.trace, only.hardware, policy, only.choice.parameters)
    return registry.find("sia-64").run(setup)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_eight_workloads_of_philly_are_those_of_table_3() -> None:
    """sia_sosp23_tables.json, `Philly`; the paper has ten workloads, of which eight are given."""
    table = published("sia_sosp23_tables.json")["table3_heterogeneous_64gpu"]["Philly"]
    found = {}
    with ProcessPoolExecutor(2) as pool:
        for policy, (name, *bands) in TABLE3.items():
            runs = list(pool.map(run_philly, [policy] * 8, range(1, 9)))
            lines = [run.figures() for run in runs]
            assert all(line["finished"] == 160 for line in lines)
            jcts = sorted(job.jct_s for run in runs for job in run.jobs)
            figures = (
                sum(jcts) / len(jcts) / 3600,
                jcts[int(0.99 * len(jcts))] / 3600,
                sum(line["makespan_s"] for line in lines) / 8 / 3600,
                sum(line["gpu_hours_per_job"] for line in lines) / 8,
            )
            found[policy] = figures
            keys = ("avg_jct_h", "p99_h", "makespan_h", "gpuh_per_job")
            for key, figure, band in zip(keys, figures, bands, strict=True):
                if band is not None:
                    assert figure == pytest.approx(table[name][key], abs=band), (policy, key)
    for sia, pollux, gavel in zip(found["sia"], found["pollux"], found["gavel-tj"], strict=True):
        assert sia < pollux < gavel


def drawn_workload(to: Path, seed: int) -> Path:
    """Write 160 jobs of those of Philly, drawn at random, that come at random, 20 an hour."""
    names = [f"sia/workloads/philly/workload-{number}.csv" for number in range(1, 9)]
    rows = [row for name in names for row in csv.DictReader(trace(name).read_text().splitlines())]
    draw, at = random.Random(seed), 0.0
    with to.open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for number in range(160):
            at += draw.expovariate(1 / 180)
            row = draw.choice(rows)
            name = f"{row['application']}-{number}"
            writer.writerow({**row, "name": name, "time": round(at)})
    return to


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_order_of_table_3_holds_on_workloads_that_are_drawn(tmp_path: Path) -> None:
    """Helios's workloads are not given: order and ratio of its columns (.7, 1.0 and 2.5 h). The
    ratio of Sia to Pollux is that of both workloads; SCHEDULING.md, section 4.3, has .75."""
    means = []
    for seed in (1, 2):
        path = drawn_workload(tmp_path / f"drawn-{seed}.csv", seed)
        sia, pollux, gavel = (
            run(path, policy, profiles=trace("sia/profiles"))["avg_jct_s"]
            for policy in ("sia", "pollux", "gavel-tj")
        )
        assert sia < pollux < gavel
        means.append((sia, pollux))
    assert sum(sia for sia, _ in means) <= 0.76 * sum(pollux for _, pollux in means)


@pytest.mark.parametrize("policy", ["sia", "pollux"])
def test_equal_runs_give_equal_lines_and_all_jobs_end(tmp_path: Path, policy: str) -> None:
    """The first four jobs of a workload; the profiles are given by their folder."""
    small = first_lines(trace(WORKLOAD), 4, tmp_path / "small.csv")
    lines = [run(small, policy, profiles=trace("sia/profiles")) for _ in range(2)]
    for line in lines:
        del line["wall_s"]
    assert lines[0] == lines[1]
    assert (lines[0]["jobs"], lines[0]["finished"]) == (4, 4)
    assert lines[0]["restarts_per_job"] > 0


def test_a_job_that_asks_for_more_than_any_type_has_does_not_end(tmp_path: Path) -> None:
    """Gavel keeps the size of the request."""
    path = tmp_path / "one.csv"
    path.write_text(
        "name,time,application,num_replicas,batch_size\n"
        "cifar10-0,107,cifar10,6,2048\ncifar10-1,110,cifar10,32,2048\n"
    )
    line = run(path, "gavel-tj", profiles=trace("sia/profiles"))
    assert (line["jobs"], line["finished"]) == (2, 1)


def test_profiles_and_clusters_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    header = "name,time,application,num_replicas,batch_size\n"
    path.write_text(header + "x-0,1,cifar10,1,128\n")
    with pytest.raises(WorkloadError, match="no folder `profiles`") as found:
        run(path, "sia")
    assert found.value.code == "bad_profile"
    with pytest.raises(WorkloadError, match="no profiles of 'H100'") as found:
        run(path, "sia", cluster="1x8xH100", profiles=tmp_path)
    assert found.value.code == "bad_cluster"
    (tmp_path / "cifar10").mkdir()
    with pytest.raises(WorkloadError, match=r"no validation-BATCH\.csv") as found:
        run(path, "sia", profiles=tmp_path)
    assert found.value.code == "bad_profile"
    path.write_text(header + "x-0,inf,cifar10,1,128\n")
    with pytest.raises(WorkloadError, match="line 2, column time"):
        run(path, "sia")


def test_jobs_are_placed_on_whole_nodes_first() -> None:
    types = {"aws": (3, 4)}
    placed = place([("a", "aws", 2), ("b", "aws", 8), ("c", "aws", 2)], types)
    assert placed["b"].counts == (4, 4)
    assert placed["a"].nodes == (2, 2)
    assert placed["c"].nodes == (2, 2)


def test_the_same_sizes_on_other_nodes_are_no_restart() -> None:
    known = read_applications(trace("sia/profiles"), ["cifar10"], TYPES)
    row = next(job for job in read(trace(WORKLOAD)).jobs if job.model == "cifar10")
    job = SiaJob(row, known["cifar10"], fixed=False)
    for held in ((0, 0), (1, 1), (1, 2), (1, 2, 2)):
        job.allocate(JobGpus("aws", held), 60)
    assert job.restarts == 2
    job.allocate(None, 120)
    job.allocate(JobGpus("aws", (1, 2, 2)), 180)
    assert job.restarts == 3
    assert job.restart_left == 50
