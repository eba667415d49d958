"""`skep usage`, `skep report` and `skep budget`; the server is played at the level of HTTP."""

from __future__ import annotations

import json
from datetime import date

import pytest
import typer
from tests.unit.client.test_cli_jobs import server, skep  # noqa: F401

from skep_client.cli.usage import first_day

SUMS = {
    "allocated_s": 36_000,
    "guaranteed_s": 28_800,
    "borrowed_s": 7_200,
    "used_s": 3_960,
    "idle_s": 32_040,
    "unknown_s": 0,
    "utilization": 11.0,
}
BUDGET = {
    "gpu_hours": 1000,
    "month": "2026-11",
    "until": "2026-12-01",
    "used_s": 3_240_000,
    "percent": 90.0,
    "state": "warning",
    "message": "90 % of the budget is used.",
}


def test_usage_is_asked_for_by_dimensions_and_shown_in_hours(server):  # noqa: F811
    row = {**SUMS, "user": "ann", "class": "borrowed"}
    route = server.get("/usage").respond(json={"results": [row], "next": None})
    result = skep("usage", "--by", "user,class", "--vc", "vision", "--since", "2026-11-01")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0].split()[:3] == ["USER", "CLASS", "ALLOCATED"]
    assert result.output.splitlines()[1].split()[:4] == ["ann", "borrowed", "10.0", "8.0"]
    assert result.output.splitlines()[1].strip().endswith("11 %")
    asked = dict(route.calls[0].request.url.params)
    assert asked == {
        "by": "user,class",
        "vc": "vision",
        "since": "2026-11-01",
        "limit": "1000",
    }


def test_csv_is_printed_as_the_server_sends_it(server):  # noqa: F811
    server.get("/usage/export").respond(text="day,allocated_s\r\n2026-11-01,5\r\n")
    assert skep("usage", "--csv").output.split() == ["day,allocated_s", "2026-11-01,5"]
    server.get("/virtual-clusters/red/report/export").respond(text="user\r\nann\r\n")
    assert skep("report", "red", "--csv").output.split() == ["user", "ann"]


def test_a_report_says_what_each_user_asked_and_used(server):  # noqa: F811
    user = {**SUMS, "user": "ann", "jobs": 3, "gpus": 8.0}
    idle = {**SUMS, "user": "ann", "gpus": 8, "job": {"id": None, "name": "big"}}
    body = {
        "vc": "red",
        "month": "2026-11",
        "since": "2026-11-01",
        "until": "2026-11-22",
        "total": SUMS,
        "owned_s": 360_000,
        "lent_s": 3_600,
        "quota_share": 8.0,
        "users": [user],
        "idle_jobs": [idle],
        "waiting": {"jobs": 4, "p50_s": 90, "p95_s": 7200},
        "budget": BUDGET,
    }
    route = server.get("/virtual-clusters/red/report").respond(json=body)
    result = skep("report", "red", "--month", "2026-11")
    assert route.calls[0].request.url.params["month"] == "2026-11"
    for words in (
        "asked 8, used 11 %",
        "Owned 100.0, used 8 % of it; lent 1.0.",
        "Half of 4 jobs waited at most 90 s, 95 % 7200 s.",
        "red used 900.0 of 1,000 guaranteed GPU-hours in 2026-11 (90 %).",
        "big",
    ):
        assert words in result.output, words


def test_a_budget_is_shown_set_and_removed(server):  # noqa: F811
    path = "/virtual-clusters/red/budget"
    server.get(path).respond(json=BUDGET)
    assert "90 % of the budget is used." in skep("budget", "red").output
    put = server.put(path).respond(json=BUDGET)
    assert skep("budget", "red", "1000").exit_code == 0
    assert json.loads(put.calls[0].request.content) == {"gpu_hours": 1000}
    server.delete(path).respond(json={**BUDGET, "gpu_hours": None, "state": "none"})
    assert "any number" in skep("budget", "red", "none").output
    assert skep("budget", "red", "many").exit_code == 2


def test_since_is_a_day_or_a_number_of_days():
    today = date(2026, 11, 22)
    assert first_day("2026-11-01", today) == "2026-11-01"
    assert first_day("1d", today) == "2026-11-22"
    assert first_day("30d", today) == "2026-10-24"
    for text in ("30", "0d", "-1d", "30h", "", "2026-1-1"):
        with pytest.raises(typer.BadParameter):
            first_day(text, today)
