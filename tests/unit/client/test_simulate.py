"""`skep simulate`: one line of JSON for each policy and seed, a report, and errors with a code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from typer.testing import CliRunner, Result

from skep_client.cli import app

FIELDS = [
    *("policy", "preset", "trace", "seed", "jobs", "finished", "refused", "avg_jct_s"),
    *("p50_jct_s", "p95_jct_s", "p99_jct_s", "avg_wait_s", "p99_wait_s"),
    *("wait_max_s", "starved", "starved_after_s", "makespan_s"),
    *("deadlines", "deadlines_met", "deadline_ratio", "utilisation", "rho_mean", "rho_max"),
    *("unfair_share", "preemptions", "migrations"),
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    rows = [f"j{n},{n * 7 % 50},{20 + n * 13 % 90},{2 ** (n % 4)}" for n in range(40)]
    path.write_text("\n".join(["id,submit_s,duration_s,gpus", *rows]) + "\n")
    return path


def skep(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *args])


def lines(*args: str) -> list[dict[str, Any]]:
    result = skep(*args, "--json")
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    for line in found:
        assert line.pop("wall_s") >= 0
    return found


def test_equal_arguments_print_equal_lines_however_many_run_at_a_time(trace: Path) -> None:
    args = ["--trace", str(trace), "--cluster", "1x8xV100", "--seeds", "0-1"]
    for policy in ("fifo", "srtf", "tiresias:first_limit_gpu_s=40,second_limit_gpu_s=0"):
        args += ["--policy", policy]
    alone, together = lines(*args, "--processes", "1"), lines(*args, "--processes", "2")
    assert alone == together
    assert [(line["policy"][:4], line["seed"]) for line in alone] == [
        *(("fifo", 0), ("fifo", 1), ("srtf", 0), ("srtf", 1), ("tire", 0), ("tire", 1))
    ]
    assert list(alone[0])[: len(FIELDS)] == FIELDS
    assert alone[2]["avg_jct_s"] < alone[0]["avg_jct_s"]
    assert alone[2]["preemptions"] > 0


def test_made_up_jobs_differ_by_seed_and_run_on_the_live_engine_too() -> None:
    args = ("--jobs", "30", "--cluster", "2x8xV100", "--seeds", "3,5", "--policy", "fifo")
    kernel, engine = lines(*args), lines(*args, "--placement", "cells")
    assert kernel[0]["avg_jct_s"] != kernel[1]["avg_jct_s"]
    assert engine[0]["ticks"] > 0
    assert [line["finished"] for line in engine] == [30, 30]


def test_the_report_is_one_file_without_scripts(trace: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    args = ("--trace", str(trace), "--policy", "fifo", "--policy", "srsf", "--html", str(report))
    result = skep(*args)
    assert result.exit_code == 0
    assert "MEAN JCT" in result.stdout
    text = report.read_text()
    assert text.count("<polyline") == 4
    assert "srsf" in text
    assert "<script" not in text
    assert "http" not in text


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--trace", "nowhere.csv"], "bad_trace", "nowhere.csv"),
        (["--policy", "lifo"], "unknown_policy", "There is no policy 'lifo'"),
        (["--policy", "antman"], "policy_not_in_preset", "preset native has no policy 'antman'"),
        (["--policy", "fifo:depth=3"], "bad_policy_parameter", "no parameter 'depth'"),
        (["--policy", "fifo:deep"], "bad_option", "PARAMETER=VALUE"),
        (["--cluster", "8x8"], "bad_cluster", "NODESxGPUSxMODEL"),
        (["--cluster", "none.yaml"], "bad_cluster", "none.yaml"),
        (["--preset", "muri"], "unknown_preset", "muri-n8g8"),
        (["--preset", "muri-n8g8"], "bad_option", "needs --trace"),
        (["--seeds", "x"], "bad_option", "neither a number"),
        (["--placement", "heap"], "bad_option", "cells, nodes, first, count"),
        (["--jobs", "0"], "bad_option", "--jobs"),
        (["--vc", "a=A100:1", "--policy", "fifo"], "bad_cluster", "0 GPUs of model A100"),
    ],
)
def test_errors_have_a_code_and_say_what_to_do(args: list[str], code: str, words: str) -> None:
    result = skep(*args, "--json")
    assert result.exit_code == 2
    problem = json.loads(result.stderr)
    assert (problem["code"], result.stdout) == (code, "")
    assert words in problem["message"]


def test_an_error_of_one_of_several_runs_keeps_its_code(trace: Path) -> None:
    args = ("--trace", str(trace), "--policy", "edf", "--policy", "srtf", "--processes", "2")
    result = skep(*args, "--policy", "srtf:x=1", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["code"] == "bad_policy_parameter"


def test_a_trace_without_durations_names_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("name,time,application,num_replicas,batch_size\nbert-0,1,bert,2,24\n")
    result = skep("--trace", str(path), "--policy", "fifo")
    assert result.exit_code == 2
    assert "--preset" in result.stderr
    result = skep("--trace", str(path), "--preset", "muri-n8g8", "--policy", "srtf")
    assert "needs a trace with the columns of muri" in result.stderr


def test_faster_gpus_end_jobs_earlier() -> None:
    run = ("--jobs", "40", "--cluster", "1x8xV100+1x8xA100", "--policy", "srtf")
    slow, fast = lines(*run), lines(*run, "--speeds", "V100=1,a100=2.1", "--migration", "30")
    assert fast[0]["avg_jct_s"] < slow[0]["avg_jct_s"]
    for given in ("H100=2", "A100=fast", "A100=0"):
        result = skep(*run, "--speeds", given, "--json")
        assert (result.exit_code, json.loads(result.stderr)["code"]) == (2, "bad_option")


SERVER = "http://skep.test"
HISTORY = """id,submit_s,duration_s,gpus,vc,user,priority,deadline_s,gpu_model
a,1790000000.0,100.0,8,red,ann,10,,
b,1790000010.0,50.0,4,red,bob,10,,NVIDIA-A100
"""
CLUSTER = {
    "shape": "1x8xNVIDIA-A100",
    "groups": [],
    "owned": [{"virtual_cluster": "red", "gpu_model": "NVIDIA A100", "gpus": 8}],
}
SIMULATION = {
    "id": "019e0000-0000-7000-8000-000000000000",
    "owner": "mia",
    "state": "SUCCEEDED",
    "policies": ["fifo"],
    "jobs_total": 2,
    "jobs_ended": 2,
    "created_at": "2026-11-22T10:00:00Z",
    "request": {"placement": "cells"},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SKEP_SERVER", SERVER)
    monkeypatch.setenv("SKEP_TOKEN", "skt_x")
    monkeypatch.setenv("COLUMNS", "200")
    with respx.mock(base_url=f"{SERVER}/api/v1") as routes:
        yield routes


def test_the_history_of_the_server_runs_on_its_cluster(server: Any) -> None:
    export = server.get("/simulations/trace").mock(httpx.Response(200, text=HISTORY))
    server.get("/simulations/cluster").mock(httpx.Response(200, json=CLUSTER))
    live = ("--trace", "history:2026-09-01T00:00Z..", "--cluster", "live", "--policy", "fifo")
    found = lines(*live, "--placement", "cells")
    assert found[0]["avg_jct_s"] == (100 + 140) / 2
    assert (found[0]["trace"], found[0]["finished"]) == ("history", 2)
    assert set(export.calls[0].request.url.params) == {"since"}


def test_what_happened_to_the_nodes_of_the_server_happens_in_the_simulation(server: Any) -> None:
    """Node b is away while the second job comes, and the first one loses what it did there."""
    server.get("/simulations/trace").mock(httpx.Response(200, text=HISTORY))
    named = [{"name": name, "gpus": 4, "gpu_model": "NVIDIA-A100"} for name in ("a", "b")]
    cluster = CLUSTER | {"shape": "2x4xNVIDIA-A100", "nodes": named}
    asked = server.get("/simulations/cluster").mock(httpx.Response(200, json=cluster))
    rows = "at_s,node,action\n1790000005.0,b,lose\n1790000065.0,b,open\n"
    events = server.get("/simulations/node-events").mock(httpx.Response(200, text=rows))
    live = ("--trace", "history:2026-09-01T00:00Z..", "--cluster", "live", "--policy", "fifo")
    found = lines(*live, "--placement", "cells", "--node-events", "history")
    # 5 s are lost, and 60 s the second node is away; meanwhile the other job runs on the first.
    assert found[0]["avg_jct_s"] == ((5 + 60 + 100) + 50) / 2
    assert dict(asked.calls[1].request.url.params) == {"nodes": "true"}
    assert set(events.calls[0].request.url.params) == {"since"}
    refused = skep(*live, "--node-events", "history", "--json")
    assert (refused.exit_code, json.loads(refused.stderr)["code"]) == (2, "bad_option")


def test_a_history_without_jobs_is_refused(server: Any) -> None:
    empty = HISTORY.splitlines(keepends=True)[0]
    server.get("/simulations/trace").mock(httpx.Response(200, text=empty))
    result = skep("--trace", "history", "--json")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (2, "no_jobs")


def test_simulations_of_the_server_are_listed_and_shown(server: Any) -> None:
    page = {"results": [SIMULATION], "next": None, "previous": None}
    server.get("/simulations").mock(httpx.Response(200, json=page))
    listed = CliRunner().invoke(app, ["simulations"])
    assert "SUCCEEDED" in listed.output
    run = lines("--jobs", "5", "--policy", "fifo")[0] | {"policy": "fifo"}
    one = SIMULATION | {"runs": [{"scenario": "as_is", "figures": run, "series": []}]}
    server.get(f"/simulations/{SIMULATION['id']}").mock(httpx.Response(200, json=one))
    shown = CliRunner().invoke(app, ["simulations", str(SIMULATION["id"])])
    assert shown.exit_code == 0, shown.output
    assert "as is" in shown.output


def test_what_if_asks_for_changes_and_prints_who_starts_when(server: Any) -> None:
    times = {"starting": 2, "avg_start_s": 3600, "p95_start_s": 7200, "avg_end_s": 9000}
    job = {"id": "019e0000-0000-7000-8000-000000000001", "name": "train", "owner": "ann"}
    moved = job | {"state": "waiting", "old_end_at": 1_790_000_000.0, "new_end_at": None}
    sides = [
        {"scenario": "as_is", "policy": "fifo", **times},
        {"scenario": "changed", "policy": "fifo", **times, "losing": 1, "losses": [moved]},
    ]
    now = {"at": 1_790_000_000.0, "running": 1, "waiting": 2, "sides": sides}
    made = server.post("/simulations").mock(httpx.Response(201, json=SIMULATION | {"now": now}))
    asked = ("what-if", "--policy-of", "red", "--gpus", "A100:-8", "--quota", "red=A100:+4")
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "LATER UNDER fifo, changed (1)" in result.output
    assert "never" in result.output
    body = json.loads(made.calls[0].request.content)
    assert body == {
        "policies": [],
        "source": "now",
        "virtual_cluster": "",
        "policy_of": "red",
        "changes": [
            {"virtual_cluster": "", "gpu_model": "A100", "gpus": -8},
            {"virtual_cluster": "red", "gpu_model": "A100", "gpus": 4},
        ],
    }
    wrong = CliRunner().invoke(app, ["what-if", "--gpus", "A100"])
    assert wrong.exit_code == 2


def test_a_policy_that_only_the_live_engine_has_runs_on_it_and_says_so(trace: Path) -> None:
    args = ["--trace", str(trace), "--cluster", "1x8xV100", "--policy", "drf", "--policy", "fifo"]
    result = skep(*args)
    assert result.exit_code == 0, result.output
    assert "On the live engine (--placement cells): drf.\n" in result.stderr
    assert "live engine" not in skep(*args, "--json").stderr
    refused = skep(*args, "--placement", "nodes")
    assert refused.exit_code == 2
    assert "drf is run by the live engine only: simulate it with cells" in refused.stderr
