"""`skep_client.log`, which programs in jobs call, and `skep metrics`, which shows what it wrote."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from fractions import Fraction

import pytest
from tests.unit.client.test_cli_jobs import ID, JOB, NOW, server, skep  # noqa: F401

import skep_client
from skep_platform.telemetry.metric_lines import read


def test_what_is_logged_is_what_the_server_reads(capsys):
    skep_client.log(loss=0.1, accuracy=Fraction(1, 4), step=5)
    skep_client.log(loss=math.nan)
    skep_client.log(loss=1e-30, step=2**40)
    found = read(capsys.readouterr().out.encode(), []).found
    assert [(one.name, one.step, repr(one.value)) for one in found] == [
        ("loss", 5.0, "0.1"),
        ("accuracy", 5.0, "0.25"),
        ("loss", None, "nan"),
        ("loss", 2.0**40, "1e-30"),
    ]


def test_of_the_processes_of_a_task_the_first_one_logs(capsys, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    skep_client.log(loss=1)
    assert capsys.readouterr().out == ""


def test_what_is_no_metric_is_refused(capsys):
    with pytest.raises(ValueError, match="cannot name a metric"):
        skep_client.log(Loss=1)
    with pytest.raises(TypeError):
        skep_client.log(loss=[1])  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_a_program_that_logs_loads_no_client():
    code = "import skep_client, sys; skep_client.log(a=1); print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "::skep-metric a=1\nFalse\n"


METRIC = {
    "name": "loss", "count": 3, "kept_each": 1, "last": 0.5, "low": 0.25, "high": 2.0,
    "not_finite": 1, "not_finite_step": 7.0, "points": [[1.0, 10.0, 2.0], [2.0, 11.5, 0.5]],
}  # fmt: skip
RUN = {
    "id": ID, "name": "train", "owner": "alice", "virtual_cluster": "vision", "state": "FAILED",
    "tags": [], "submitted_at": NOW, "parameters": {"lr": "0.1"},
    "metrics": [METRIC, METRIC | {"name": "accuracy", "not_finite": 0}],
}  # fmt: skip


def test_runs_are_shown_with_the_parameters_that_differ(server):  # noqa: F811
    route = server.get("/jobs/compare").respond(json={"runs": [RUN], "more": True})
    result = skep("metrics", "--tag", "sweep", "--tag", "lr", "--name", "loss")
    assert result.exit_code == 0, result.output
    assert dict(route.calls[0].request.url.params)["tag"] == "sweep,lr"
    heads, row, *rest = result.output.splitlines()
    assert heads.split() == ["JOB", "lr", "METRIC", "POINTS", "LAST", "MIN", "MAX"]
    assert row.split() == ["train", "0.1", "loss", "3", "0.5", "0.25", "2"]
    assert rest[0] == "train: loss was NaN or infinite 1 times from step 7."


def test_points_are_printed_as_csv_and_json(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    route = server.get("/jobs/compare").respond(json={"runs": [RUN], "more": False})
    result = skep("metrics", ID, "--name", "loss", "--csv")
    rows = list(csv.DictReader(io.StringIO(result.output)))
    assert [(r["job"], r["metric"], r["step"], r["value"]) for r in rows] == [
        ("train", "loss", "1", "2.0"),
        ("train", "loss", "2", "0.5"),
    ]
    assert dict(route.calls[0].request.url.params)["jobs"] == ID
    shown = json.loads(skep("metrics", ID, "--json").output)
    assert shown["runs"][0]["metrics"][0]["last"] == 0.5


def test_jobs_or_a_tag_are_asked_for(server):  # noqa: F811
    assert skep("metrics").exit_code == 2
    assert skep("metrics", "a", "--tag", "b").exit_code == 2
