"""Swayam: the least number of replicas that keeps a guarantee, and what that costs over a trace."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies.swayam import POINTS, Swayam, quantiles, trend, within
from skep_scheduler.simulator.command import (
    PolicyError,
    SimulateRequest,
    WorkloadError,
    execute,
    plan_runs,
)

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "examples/traces/requests.csv"


def figures(*given: str, **more: Any) -> list[dict[str, Any]]:
    request = SimulateRequest(policies=given, preset="services", **more)
    return [execute(run)[0] for run in plan_runs(request)]


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("sla_s", [0.5, 2.0, 5.0, 20.0])
def test_of_exponential_service_times_it_is_what_queueing_theory_says(
    load: float, sla_s: float
) -> None:
    """The response time of an M/M/1 queue is exponential with the rate mu - lambda."""
    services = [-log(1 - (i + 0.5) / 2000) for i in range(2000)]
    found = within(sla_s, load * 3, 3, services)
    assert found == pytest.approx(1 - exp(-(1 - load) * sla_s), abs=0.01)


SERVICES = st.lists(st.floats(0.01, 5), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(services=SERVICES, rate=st.floats(0.01, 40), sla_s=st.floats(0.1, 30))
def test_the_number_is_the_least_that_keeps_the_guarantee(
    services: list[float], rate: float, sla_s: float
) -> None:
    rule, most = Swayam(sla_s=sla_s, level=0.95), 64
    n = rule.needed(rate, services, most)
    kept = [within(sla_s, rate, k, services) for k in range(1, most + 1)]
    assert all(after >= before - 1e-9 for before, after in pairwise(kept))
    if kept[-1] >= 0.95:
        assert kept[n - 1] >= 0.95
        assert n == 1 or kept[n - 2] < 0.95
    else:
        assert n == most


def test_the_rate_is_that_of_the_time_when_a_replica_will_be_warm() -> None:
    assert trend([1.0, 2.0, 3.0], 2) == pytest.approx(5.0)
    rule = Swayam(window_s=10, cold_s=20)
    assert rule.rate(2.0, [10, 20, 30]) == pytest.approx(6.0)  # 3 a second now, and 1 more a window
    assert rule.rate(2.0, [30, 20, 10]) == 2.0  # it does not follow a fall at once
    assert len(quantiles([float(i) for i in range(1000)])) == POINTS


def test_it_keeps_the_guarantee_with_half_of_the_replicas_of_a_fixed_number() -> None:
    names = [
        f"{name}:sla_s=5,level=0.99" for name in ("swayam", "static", "reactive", "clairvoyant")
    ]
    swayam, static, reactive, clairvoyant = figures(*names, trace=EXAMPLE)
    assert swayam["jobs"] == swayam["finished"] == swayam["deadlines"] == 4880
    assert swayam["deadline_ratio"] >= 0.99
    assert static["deadline_ratio"] >= 0.99
    assert reactive["deadline_ratio"] < 0.99  # it asks for no guarantee
    assert swayam["replica_hours"] < 0.6 * static["replica_hours"]
    assert swayam["replica_hours"] < 1.15 * clairvoyant["replica_hours"]


def test_equal_seeds_give_equal_lines_and_requests_are_not_lost(tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text("arrival_s,service_s\n100,3\n100,3\n101,3\n5000,2\n")
    first, again = (
        {**figures("swayam:sla_s=4,idle_s=10,cold_s=30", trace=trace, cluster="1x8xV100")[0]}
        for _ in range(2)
    )
    assert {**first, "wall_s": 0} == {**again, "wall_s": 0}
    assert first["finished"] == 4
    assert first["peak_replicas"] >= 1


@pytest.mark.parametrize(
    ("text", "policy", "code"),
    [
        ("arrival_s,service_s\n1,0\n", "swayam", "bad_trace"),
        ("arrival_s,service_s\n1,nan\n", "swayam", "bad_trace"),
        ("id,submit_s,duration_s,gpus\na,0,1,1\n", "swayam", "bad_trace"),
        ("arrival_s,service_s\n1,1\n", "swayam:level=1.5", "bad_policy_parameter"),
        ("arrival_s,service_s\n1,1\n", "swayam:much=1", "bad_policy_parameter"),
        ("arrival_s,service_s\n1,1\n1e9,1\n", "swayam", "bad_policy_parameter"),
        ("arrival_s,service_s\n1,1\n", "fifo", "policy_not_in_preset"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    tmp_path: Path, text: str, policy: str, code: str
) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text(text)
    with pytest.raises((WorkloadError, PolicyError)) as caught:
        figures(policy, trace=trace)
    assert caught.value.code == code
