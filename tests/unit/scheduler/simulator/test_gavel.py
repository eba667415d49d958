"""Gavel's load tables and makespans (gavel_osdi20_notebook_tables.json) in its simulator, and what
the preset refuses. Seed 0, jobs 4000 to 4999; SCHEDULING.md, section 4.4, says which of them the
released code gives to the digit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import published, trace

from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.presets.gavel_policies import ALIASES, POLICIES
from skep_scheduler.simulator.workload import WorkloadError

long = pytest.mark.long


def run(policy: str, seed: int = 0) -> dict[str, Any]:
    request = SimulateRequest(
        policies=(policy,),
        preset="gavel",
        seeds=str(seed),
        profiles=trace("gavel/simulation_throughputs.json"),
    )
    (only,) = plan_runs(request)
    line, _ = execute(only)
    assert line["finished"] == line["jobs"]
    return line


def mean_hours(policy: str, jobs_per_hour: float) -> float:
    return float(run(f"{policy}:lambda_s={3600 / jobs_per_hour!r}")["avg_jct_s"]) / 3600


@long
@pytest.mark.parametrize(
    ("policy", "jobs_per_hour", "wanted"),
    [
        ("fifo", 0.4, 17.576),
        ("fifo", 2.0, 18.423),
        ("fifo", 4.0, 26.272),
        ("fifo", 4.4, 51.804),
        ("fifo_perf", 0.4, 15.508),
        ("fifo_perf", 2.0, 15.657),
        ("fifo_perf", 4.0, 17.331),
        ("fifo_perf", 4.4, 18.480),
        ("fifo_perf", 4.8, 22.805),
        ("las", 0.4, 23.471),
        ("las", 2.0, 23.681),
        ("las", 4.0, 23.756),
        ("las", 4.4, 24.216),
        ("allox", 0.4, 17.576),
        ("allox", 0.8, 17.642),
        ("allox", 2.0, 17.082),
        ("allox", 3.2, 16.908),
        ("allox", 4.0, 18.017),
        ("allox", 4.4, 19.153),
    ],
)
def test_mean_completion_times_are_those_of_the_released_code(
    policy: str, jobs_per_hour: float, wanted: float
) -> None:
    """And those of the notebook within the band of SCHEDULING.md, section 4.4: 2 % where shares are
    by time or speed, 6 % for AlloX and, up to 4 jobs an hour, for FIFO, as code and speeds of the
    print are older."""
    found = mean_hours(policy, jobs_per_hour)
    assert round(found, 3) == wanted
    column, band, most = PRINTED[policy]
    if jobs_per_hour <= most:
        assert found == pytest.approx(cell(jobs_per_hour, column), rel=band)


PRINTED = {
    "allox": ("allox", 0.06, 4.4),
    "fifo": ("fifo", 0.06, 4.0),
    "fifo_perf": ("fifo_perf", 0.02, 4.4),
    "las": ("max_min_fairness", 0.02, 4.4),
}


def cell(jobs_per_hour: float, column: str, table: str = "continuous_jobs") -> float:
    """Return a printed mean (hours) of gavel_osdi20_notebook_tables.json."""
    rows = published("gavel_osdi20_notebook_tables.json")[table]["mean_JCT_hours"]
    return float(rows[f"{jobs_per_hour:.2f}"][column])


@long
@pytest.mark.parametrize(
    ("policy", "column", "jobs_per_hour"),
    [
        ("max_min", "max_min_fairness_perf", 2.0),
        ("max_min", "max_min_fairness_perf", 4.0),
        ("max_min_packed", "max_min_fairness_packed", 4.0),
        ("ftf", "finish_time_fairness_perf", 4.0),
        ("ftf_agnostic", "finish_time_fairness", 4.0),
        ("gandiva", "gandiva", 4.0),
        ("fifo_packed", "fifo_packed", 4.0),
    ],
)
def test_what_is_solved_is_within_five_percent_of_print(
    policy: str, column: str, jobs_per_hour: float
) -> None:
    wanted = cell(jobs_per_hour, column)
    assert mean_hours(policy, jobs_per_hour) == pytest.approx(wanted, rel=0.05)


@long
@pytest.mark.timeout(3600)
def test_beyond_what_the_gpus_can_do_policies_keep_their_order() -> None:
    """5.6 jobs an hour. FTF is solved by another method and is 19 % above the print; the order of
    all holds."""
    found = {policy: mean_hours(policy, 5.6) for policy in BEYOND}
    assert sorted(found, key=found.__getitem__) == list(BEYOND)
    for policy, column in BEYOND.items():
        if policy != "ftf":
            assert found[policy] == pytest.approx(cell(5.6, column), rel=0.05)


BEYOND = {  # ascending, as printed
    "max_min_packed": "max_min_fairness_packed",
    "max_min": "max_min_fairness_perf",
    "ftf": "finish_time_fairness_perf",
    "gandiva": "gandiva",
    "fifo_packed": "fifo_packed",
}


def makespan_hours(policy: str, jobs: int, seed: int = 0) -> float:
    line = run(f"{policy}:static={jobs},multi_gpu=1", seed)
    return float(line["makespan_s"]) / 3600


@pytest.mark.parametrize("jobs", [100, 300, pytest.param(500, marks=long)])
def test_makespans_of_jobs_that_are_all_there(jobs: int) -> None:
    table = published("gavel_osdi20_notebook_tables.json")["makespan_hours_static_multi_36_36_36"]
    gandiva, gavel = makespan_hours("gandiva", jobs), makespan_hours("min_makespan", jobs)
    assert gandiva == pytest.approx(table["Gandiva"][str(jobs)], rel=0.05)
    assert gavel == pytest.approx(table["Gavel"][str(jobs)], rel=0.05)
    assert makespan_hours("fifo", jobs) > gandiva > gavel


@long
def test_the_makespan_of_100_jobs_with_packing() -> None:
    table = published("gavel_osdi20_notebook_tables.json")["makespan_hours_static_multi_36_36_36"]
    found = makespan_hours("min_makespan_packed", 100)
    assert found == pytest.approx(table["Gavel w/ SS"]["100"], rel=0.05)


@long
def test_makespans_of_700_jobs_are_printed_within_the_mean_of_three_seeds() -> None:
    """The seeds behind the print are not known, and seeds 0 to 2 differ by up to 16 %."""
    table = published("gavel_osdi20_notebook_tables.json")["makespan_hours_static_multi_36_36_36"]
    for policy, name in (("gandiva", "Gandiva"), ("min_makespan", "Gavel")):
        mean = sum(makespan_hours(policy, 700, seed) for seed in range(3)) / 3
        assert mean == pytest.approx(table[name]["700"], rel=0.05), policy


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ALIASES])
def test_each_policy_ends_all_jobs_of_a_short_run_and_repeats_it(policy: str) -> None:
    text = f"{policy}:static=15"
    first, second = run(text, seed=3), run(text, seed=3)
    assert first.pop("wall_s") >= 0 <= second.pop("wall_s")
    assert first == second
    assert ("cost" in first) == policy.startswith("cost")
    assert first["deadlines"] == (15 if policy == "cost_slo" else 0)


@pytest.mark.parametrize(
    "policy",
    [
        "las:x=1",
        "las:window=5-2",
        "las:window=5",
        "las:static=2.5",
        "las:multi_gpu=yes",
        "las:price_v100=1",
        "cost:price_v100=0",
        "max_min:lambda_s=1",
        "allox:multi_gpu=1",
    ],
)
def test_a_wrong_parameter_is_refused_with_what_there_is(policy: str) -> None:
    with pytest.raises(WorkloadError, match="of preset gavel has") as caught:
        run(policy)
    assert caught.value.code == "bad_policy_parameter"
