"""The numbers that papers and artifacts printed, on their own traces. Each test names the file and
the figure; SCHEDULING.md, section 4, has them all."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.support.traces import published, trace

from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs


def run(path: str, policy: str, **request: Any) -> dict[str, Any]:
    (only,) = plan_runs(SimulateRequest(trace(path), policies=(policy,), **request))
    line, _ = execute(only)
    assert line["finished"] + line.get("placed", 0) + line["refused"] == line["jobs"]
    return line


def printed(value: float) -> Any:
    """As many digits as the file has."""
    return pytest.approx(value, rel=1e-9)


MURI = {"srtf": "SRTF", "srsf": "SRSF", "tiresias-l": "Tiresias_L", "antman": "antman"}


LONG = {("trace1", "antman"), *(("trace4", policy) for policy in MURI)}
MURI_RUNS = [
    pytest.param(name, policy, marks=[pytest.mark.long] if (name, policy) in LONG else [])
    for name in ("trace1", "trace3", "trace4")
    for policy in MURI
]


@pytest.mark.parametrize(("name", "policy"), MURI_RUNS)
def test_muri_figures_9_and_10(name: str, policy: str) -> None:
    """muri_sigcomm22_fig9_10.json: mean, makespan and p99 of 12 runs."""
    wanted = published("muri_sigcomm22_fig9_10.json")["policies"][MURI[policy]]
    line = run(f"muri/{name}.csv", policy, preset="muri-n8g8")
    assert line["avg_jct_s"] == printed(wanted["JCT"][name])
    assert line["makespan_s"] == printed(wanted["Makespan"][name])
    assert line["p99_jct_s"] == printed(wanted["99JCT"][name])


GROUPS = [
    ("muri-s", "Muri_S", ("JCT", "Makespan", "99JCT")),
    pytest.param("muri-l", "Muri_L", ("Makespan", "99JCT"), marks=pytest.mark.long),
    # What is printed of Muri-L on trace 3 comes of two versions: its mean is that with `unpack`.
    ("muri-l:unpack=1", "Muri_L", ("JCT", "Makespan")),
]
FIGURES = {"JCT": "avg_jct_s", "Makespan": "makespan_s", "99JCT": "p99_jct_s"}


@pytest.mark.long
@pytest.mark.parametrize(("policy", "name"), [("muri-s", "Muri_S"), ("muri-l", "Muri_L")])
def test_groups_of_muri_on_its_first_trace(policy: str, name: str) -> None:
    """muri_sigcomm22_fig9_10.json: Muri-S and Muri-L on trace 1, in minutes."""
    wanted = published("muri_sigcomm22_fig9_10.json")["policies"][name]
    line = run("muri/trace1.csv", policy, preset="muri-n8g8")
    for figure, key in FIGURES.items():
        assert line[key] == printed(wanted[figure]["trace1"])


@pytest.mark.parametrize(("policy", "name", "figures"), GROUPS)
def test_groups_of_muri_on_its_third_trace(
    policy: str, name: str, figures: tuple[str, ...]
) -> None:
    """muri_sigcomm22_fig9_10.json: Muri-S and Muri-L on trace 3."""
    wanted = published("muri_sigcomm22_fig9_10.json")["policies"][name]
    line = run("muri/trace3.csv", policy, preset="muri-n8g8")
    for figure in figures:
        assert line[FIGURES[figure]] == printed(wanted[figure]["trace3"])


@pytest.mark.parametrize(
    ("policy", "jct", "wait"),
    [
        ("fifo", 8118.03, 289.03),
        pytest.param("sjf:backfill=block", 7934.68, 105.68, marks=pytest.mark.long),
        ("fifo:backfill=skip", 7936.55, 107.55),
        ("sjf", 7924.42, 95.42),
    ],
)
def test_the_philly_week(policy: str, jct: float, wait: float) -> None:
    """Philly, 1 to 7 October 2017, each of 11 virtual clusters on its nodes."""
    vcs = str(trace("philly/philly_vc_nodes.csv"))
    line = run("philly/sia_philly_82k.csv", policy, preset="philly-week", cluster=vcs)
    assert line["jobs"] == 10_650
    assert (round(line["avg_jct_s"], 2), round(line["avg_wait_s"], 2)) == (jct, wait)


ONE_LIMIT = "tiresias:first_limit_gpu_s=18000,second_limit_gpu_s=0"


@pytest.mark.parametrize(("policy", "jct"), [("srtf", 7919), (ONE_LIMIT, 7957)])
def test_the_philly_week_with_preemption(policy: str, jct: float) -> None:
    """A peer that ticks each second; within 1 %."""
    vcs = str(trace("philly/philly_vc_nodes.csv"))
    line = run("philly/sia_philly_82k.csv", policy, preset="philly-week", cluster=vcs)
    assert line["avg_jct_s"] == pytest.approx(jct, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "cluster", "jct"),
    [
        ("fifo", "", pytest.approx(106003.83, abs=0.005)),
        ("fifo:backfill=skip", "", pytest.approx(45120.11, abs=0.005)),
        ("srtf", "", pytest.approx(14409, rel=0.01)),
        ("srtf", "249x10xP100", pytest.approx(13135.93, abs=0.005)),
    ],
)
def test_all_jobs_of_philly_on_one_pool(policy: str, cluster: str, jct: Any) -> None:
    path = "philly/sia_philly_82k.csv"
    line = run(path, policy, preset="philly-count", cluster=cluster)
    assert line["jobs"] == 82_247
    assert line["avg_jct_s"] == jct


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("srtf", (844394.78, 7261795.828, 6363099.549)),
        ("srsf", (798057.6829, 6907790.403, 6228160.594)),
        ("tiresias-l", (2213110.128, 6761641.42, 6739568.999)),
    ],
)
def test_muri_where_all_jobs_come_at_once(
    policy: str, wanted: tuple[float, float, float], tmp_path: Path
) -> None:
    """Trace 3' of figures 9 and 10: mean, makespan and p99 in the artifact's draw_fig9-10.py."""
    rows = list(csv.DictReader(trace("muri/trace3.csv").read_text().splitlines()))
    with (tmp_path / "trace3_pr.csv").open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "submit_time": "0"} for row in rows)
    (only,) = plan_runs(
        SimulateRequest(tmp_path / "trace3_pr.csv", policies=(policy,), preset="muri-n8g8")
    )
    line, _ = execute(only)
    figures = (line["avg_jct_s"], line["makespan_s"], line["p99_jct_s"])
    assert figures == pytest.approx(wanted, rel=1e-9)


@pytest.mark.long
def test_themis_of_muri_is_within_its_band() -> None:
    """Figure 9, mean on trace 3; within 5 %, as its solver ends where the best is not unique."""
    line = run("muri/trace3.csv", "themis", preset="muri-n8g8")
    jct = published("muri_sigcomm22_fig9_10.json")["policies"]["themis"]["JCT"]["trace3"]
    assert line["avg_jct_s"] == pytest.approx(jct, rel=0.05)


@pytest.mark.parametrize(
    ("policy", "jct"),
    [
        ("fifo", 200.8),
        ("fjf", 190.7),
        ("sjf", 198.2),
        ("lpjf", 205.1),
        ("shortest", 192.1),
        ("shortest-gpu", 195.9),
        ("dlas", 190.7),
        ("dlas-gpu", 190.7),
        ("gittins", 192.3),
    ],
)
def test_tiresias_on_four_nodes(policy: str, jct: float) -> None:
    line = run("tiresias/60_job.csv", policy, preset="tiresias-4x4")
    assert line["avg_jct_s"] == pytest.approx(jct, abs=0.0501)


@pytest.mark.parametrize("policy", ["fifo", "lpjf", "sjf", "shortest-gpu", "gittins"])
def test_tiresias_where_no_job_waits(policy: str) -> None:
    spec = str(trace("tiresias/cluster_spec.csv"))
    line = run("tiresias/60_job.csv", policy, preset="tiresias-4x4", cluster=spec)
    assert (round(line["avg_jct_s"], 1), line["makespan_s"]) == (178.4, 3271)


# The columns of figure 8b that the released code repeats within .05.
PRINTED_8B = {"ef/cluster03.csv": 2, "ef/cluster10.csv": 9}
ELASTICFLOW = [
    ("artifact/elasticVpollux_e.csv", "gandiva", 18),
    ("ef/cluster10.csv", "gandiva", 86),
    ("artifact/philly_103959.csv", "gandiva", 362),
    ("ef/cluster01.csv", "gandiva", 259),
    ("ef/cluster03.csv", "gandiva", 1001),
    pytest.param("ef/cluster04.csv", "gandiva", 4150, marks=pytest.mark.long),
    pytest.param("ef/cluster07.csv", "gandiva", 4868, marks=pytest.mark.long),
    pytest.param("ef/cluster08.csv", "gandiva", 4053, marks=pytest.mark.long),
    pytest.param("ef/cluster09.csv", "gandiva", 3766, marks=pytest.mark.long),
    ("artifact/elasticVpollux_e.csv", "tiresias", 56),
    ("artifact/elasticVpollux_e.csv", "edf", 23),
    ("ef/cluster10.csv", "tiresias", 124),
    ("ef/cluster10.csv", "edf", 202),
    ("artifact/philly_103959.csv", "tiresias", 408),
    ("artifact/philly_103959.csv", "edf", 382),
    ("ef/cluster01.csv", "tiresias", 787),
    ("ef/cluster01.csv", "edf", 298),
    ("ef/cluster03.csv", "tiresias", 1298),
    ("ef/cluster03.csv", "edf", 309),
    pytest.param("ef/cluster08.csv", "tiresias", 6242, marks=pytest.mark.long),
    pytest.param("ef/cluster08.csv", "edf", 4330, marks=pytest.mark.long),
    pytest.param("ef/cluster09.csv", "tiresias", 5368, marks=pytest.mark.long),
    pytest.param("ef/cluster09.csv", "edf", 9386, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("path", "policy", "met"), ELASTICFLOW)
def test_elasticflow_deadlines(path: str, policy: str, met: int) -> None:
    """elasticflow_asplos23_fig8.json, figure 8a (195 jobs on 64 T4), and the clusters of 8b as the
    released code has them."""
    line = run(f"elasticflow/{path}", policy, preset="elasticflow")
    assert line["deadlines_met"] == met
    if "elasticVpollux" in path:
        names = {"edf": "EDF", "tiresias": "Tiresias", "gandiva": "Gandiva"}
        figure = published("elasticflow_asplos23_fig8.json")["fig8a_elasticVpollux_e_64T4"]
        digits = 2 if policy == "gandiva" else 3  # as many as are printed
        assert round(line["deadline_ratio"], digits) == figure[names[policy]]
    if path in PRINTED_8B:
        figure = published("elasticflow_asplos23_fig8.json")["fig8b"]
        printed_ratio = figure[policy.capitalize().replace("Edf", "EDF")][PRINTED_8B[path]]
        assert line["deadline_ratio"] == pytest.approx(printed_ratio, abs=0.05)


@pytest.mark.parametrize(
    ("path", "met", "band"),
    [
        ("artifact/elasticVpollux_e.csv", 142, 2),
        ("ef/cluster10.csv", 250, 0),
        ("artifact/philly_103959.csv", 797, 3),
    ],
)
def test_elasticflows_own_policy(path: str, met: int, band: int) -> None:
    """Figure 8a and two clusters of 8b, as the released code has them: 143, 250 and 799 here, since
    a flat overhead stands for its table of ranges that were used before."""
    line = run(f"elasticflow/{path}", "elasticflow", preset="elasticflow")
    assert line["deadlines_met"] == pytest.approx(met, abs=band)


@pytest.mark.parametrize(
    ("path", "figure"),
    [
        ("artifact/elasticVpollux_e.csv", ("fig8a_elasticVpollux_e_64T4", "Chronus")),
        pytest.param("ef/cluster03.csv", ("fig8b", "Chronus", 2), marks=pytest.mark.long),
        ("ef/cluster10.csv", ("fig8b", "Chronus", 9)),
    ],
)
def test_chronus_in_elasticflows_figure_8(path: str, figure: tuple[str | int, ...]) -> None:
    """Figure 8a prints .262, and 8b .426 and .454, from a proprietary solver: a band of .05."""
    pytest.importorskip("scipy")
    line = run(f"elasticflow/{path}", "chronus", preset="elasticflow")
    wanted = published("elasticflow_asplos23_fig8.json")
    for key in figure:
        wanted = wanted[key]
    assert line["deadline_ratio"] == pytest.approx(wanted, abs=0.05)


@pytest.mark.parametrize(
    ("path", "policy", "met"),
    [
        pytest.param("ef/cluster04.csv", "tiresias", 7390, marks=pytest.mark.long),
        pytest.param("ef/cluster07.csv", "tiresias", 6028, marks=pytest.mark.long),
        pytest.param("ef/cluster07.csv", "edf", 632, marks=pytest.mark.long),
    ],
)
def test_elasticflow_deadlines_of_which_no_run_of_the_artifact_is_known(
    path: str, policy: str, met: int
) -> None:
    """The figures of the page. Figure 8b prints .12, .346 and .046 for them: of Tiresias it is not
    what the released code gives on other clusters either (SCHEDULING.md, section 4.5)."""
    line = run(f"elasticflow/{path}", policy, preset="elasticflow")
    assert line["deadlines_met"] == met


@pytest.mark.long
@pytest.mark.parametrize("number", range(6))
def test_allox_in_gavels_simulator(number: int) -> None:
    """gavel_allox.json: jobs 4000 to 4999 of six runs, mean and utilisation as printed."""
    wanted = published("gavel_allox.json")["runs"][number]
    throughputs = trace("gavel/simulation_throughputs.json")
    policy = f"allox:lambda_s={wanted['lambda_s']}"
    request = SimulateRequest(
        policies=(policy,), preset="gavel", seeds=str(wanted["seed"]), profiles=throughputs
    )
    (only,) = plan_runs(request)
    line, _ = execute(only)
    assert line["jobs"] == line["finished"] == 1000
    assert line["avg_jct_s"] == wanted["mean_jct_s"]
    assert line["utilisation"] == wanted["utilization"]


FGD = {"bestfit": "bestfit", "dotprod": "dotprod", "fgd": "fgd"}
FGD |= {"gpupacking": "packing", "gpuclustering": "clustering"}
FGD_SEEDS = {"fgd": "06-FGD", "bestfit": "05-BestFit", "dotprod": "02-DotProd"}
FGD_SEEDS |= {"gpupacking": "04-GpuPacking", "gpuclustering": "03-GpuClustering"}
FGD_SEEDS |= {"random": "01-Random"}
PODS = ("default", "gpushare40", "gpushare100", "multigpu20")
FGD_SHORT = {("default", policy) for policy in ("fgd", "gpupacking", "gpuclustering")}


@pytest.mark.parametrize(
    ("pods", "policy"),
    [
        pytest.param(pods, policy, marks=[] if (pods, policy) in FGD_SHORT else [pytest.mark.long])
        for pods in PODS
        for policy in FGD
    ],
)
def test_the_fragmentation_of_openb_in_the_order_of_its_files(pods: str, policy: str) -> None:
    """fgd_atc23.json, `deterministic_variant`."""
    name = f"openb_pod_list_{pods}"
    wanted = published("fgd_atc23.json")["deterministic_variant"]["results"][name][FGD[policy]]
    line = run(f"alibaba/{name}.csv", policy, preset="openb")
    assert line["used_gpu_milli"] == wanted["used_gpu_milli"]
    assert (line["jobs"], line["refused"]) == (wanted["pods"], wanted["failed"])
    assert line["typical_pods"] == wanted["typical_pods"]
    assert round(line["frag_percent"], 3) == wanted["frag_percent"]


@pytest.mark.long
@pytest.mark.parametrize("pods", PODS)
@pytest.mark.parametrize("policy", FGD_SEEDS)
def test_the_fragmentation_of_openb_in_random_orders(pods: str, policy: str) -> None:
    """fgd_atc23.json, ten seeds: the mean within 0.3 points, each within the band and 0.5. Where
    the order of the nodes decides most, other seeds than the published ones are 0.31 off."""
    name = f"openb_pod_list_{pods}"
    wanted = published("fgd_atc23.json")["workloads"][name][FGD_SEEDS[policy]]
    request = SimulateRequest(
        trace(f"alibaba/{name}.csv"), policies=(policy,), preset="openb", seeds="42-51"
    )
    found = [execute(one)[0]["alloc_percent"] for one in plan_runs(request)]
    assert sum(found) / 10 == pytest.approx(wanted["alloc_percent_mean"]["130"], abs=0.35)
    assert wanted["at_130_min"] - 0.5 <= min(found)
    assert max(found) <= wanted["at_130_max"] + 0.5
