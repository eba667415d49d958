"""The page that compares all policies has the figures of today's code."""

from __future__ import annotations

import re

from benchmarks.policies import PAGE, TRACES, kernel_policies, live_policies, row

from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_policy_is_on_the_page_for_each_trace() -> None:
    named = re.findall(r"^\| `(\w+)` \|", TEXT, re.M)
    assert set(named) == {*kernel_policies(), *live_policies()}
    assert all(named.count(name) == len(TRACES) for name in named)


def test_rows_of_the_page_are_what_the_code_answers() -> None:
    request = TRACES[0].request
    for name in ("srtf", "lucid", "synergy"):
        (run,) = plan_runs(SimulateRequest(request.trace, request.cluster, (name,)))
        assert row(execute(run)[0]) in TEXT, f"{name}: make bench BENCH=policies"
