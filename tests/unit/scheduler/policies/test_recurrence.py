"""Durations learned from jobs that recur, and the orders that go by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples

from skep_scheduler.model import Options, PolicyChoice
from skep_scheduler.policies.recurrence import KEPT, Recurrence, families, stem
from skep_scheduler.simulator.command import SimulateRequest, execute, plan_runs
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import NodePool
from skep_scheduler.simulator.presets.kernel_runs import PaiSjfOfTrace, families_of, learned_by
from skep_scheduler.simulator.workload import TraceJob

PATIENT = Options(starvation_s=1e9)
ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "examples/traces/recurring-jobs.csv"
TRACES = ROOT.parent / "shared/reference/traces"


def figures(*given: str, **more: Any) -> list[dict[str, Any]]:
    request = SimulateRequest(policies=given, **more)
    return [execute(run)[0] for run in plan_runs(request)]


def one_at_a_time(policy: str) -> Cluster:
    (vc,) = owns(a=8)
    return Cluster([node("n0")], [replace(vc, policy=PolicyChoice(policy))], PATIENT)


def test_the_narrowest_family_that_has_ended_predicts_by_its_median() -> None:
    known = Recurrence()

    def of(user: str, group: str, gpus: int) -> tuple[Any, ...]:
        return tuple(families("user_group_gpus", user, group, gpus, "vc"))

    assert known.predict(of("ada", "train", 4)) is None
    for seconds in (100.0, 300.0, 120.0):
        known.learn(of("ada", "train", 4), seconds, None)
    known.learn(of("ada", "eval", 1), 5.0, None)
    assert known.predict(of("ada", "train", 4)) == 120.0
    assert known.predict(of("ada", "new", 4)) == 120.0  # her jobs of 4 GPUs
    assert known.predict(of("bob", "new", 1)) == 5.0  # jobs of 1 GPU
    assert known.predict(of("bob", "new", 8)) == 100.0  # of the virtual cluster
    for _ in range(KEPT):
        known.learn(of("ada", "train", 4), 10.0, None)
    assert known.predict(of("ada", "train", 4)) == 10.0  # older ones are forgotten


def test_the_number_behind_a_name_does_not_make_it_another_job() -> None:
    assert {stem(f"train-{n}") for n in (1, 20, "0af31b2c")} == {"train"}
    assert stem("7") == "7"


JOBS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 40),
        st.sampled_from([1, 2, 8]),
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["x", "y"]),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=examples(80), deadline=None)
@given(facts=JOBS, source=st.sampled_from(["user_group_gpus", "user_group", "user"]))
def test_only_jobs_that_have_ended_teach(facts: Any, source: str) -> None:
    """Each prediction follows from the ends that lie before the submission, and from nothing
    else."""
    jobs = [
        TraceJob(f"j{n}", at, duration, gpus, "vc", user, group=group)
        for n, (at, duration, gpus, user, group) in enumerate(sorted(facts))
    ]
    policy = PaiSjfOfTrace(by=source)
    pools: dict[str, Any] = {"": (NodePool([8, 8]), policy)}
    kernel = Kernel(jobs, pools, families=learned_by(policy))
    ended = {job.id: job.ended_at for job in kernel.run().jobs}
    for job in kernel.jobs:
        before = [one for one in jobs if (ended[one.id] or 0.0) <= job.submitted_at]
        expected = None
        for family in families_of(source, job.trace):
            alike = [one.duration_s for one in before if family in families_of(source, one)]
            if alike:
                expected = median_low(alike)
                break
        assert job.predicted_s == expected


@pytest.mark.parametrize(
    ("policy", "first"), [("pai_sjf", "narrow"), ("lucid_order", "narrow"), ("sjf", "liar")]
)
def test_history_counts_and_what_is_declared_does_not(policy: str, first: str) -> None:
    cluster = one_at_a_time(policy)
    cluster.submit(
        gang("liar", gpus=8, at=0.0, duration_s=1.0),
        gang("long", gpus=8, at=1.0, predicted_s=100.0),
        gang("narrow", gpus=5, at=2.0, predicted_s=20.0),
    )
    assert [p.gang for p in cluster.tick().placements] == [first]


def test_lucid_orders_by_gpu_time() -> None:
    gangs = (
        gang("wide", gpus=8, at=0.0, predicted_s=10.0),
        gang("narrow", gpus=5, at=1.0, predicted_s=12.0),
    )
    for policy, first in (("pai_sjf", "wide"), ("lucid_order", "narrow")):
        cluster = one_at_a_time(policy)
        cluster.submit(*gangs)
        assert [p.gang for p in cluster.tick().placements] == [first]


@pytest.mark.parametrize("placement", ["nodes", "cells"])
def test_on_jobs_that_recur_history_is_nearly_as_good_as_knowing(
    tmp_path: Path, placement: str
) -> None:
    """The live engine learns from the same ends as the kernel."""
    if placement == "cells":  # the first ones are enough there
        few = tmp_path / "few.csv"
        few.write_text("".join(EXAMPLE.read_text().splitlines(keepends=True)[:121]))
    names = ("fifo:backfill=skip", "sjf", "pai_sjf", "lucid_order")
    trace = EXAMPLE if placement == "nodes" else few
    fifo, sjf, pai, lucid = figures(
        *names, trace=trace, cluster="2x8xV100", placement=placement, grace_s=0.0
    )
    assert 0 < pai["prediction_error_p50"] < 0.35
    assert pai["predicted"] > 0.9 * pai["jobs"]
    assert pai["avg_wait_s"] < 1.1 * sjf["avg_wait_s"] < fifo["avg_wait_s"]
    if placement == "nodes":
        assert lucid["avg_wait_s"] < fifo["avg_wait_s"]


@pytest.mark.skipif(not TRACES.exists(), reason="the reference data are not beside the checkout")
def test_history_lies_between_knowing_and_not_knowing_on_a_week_of_philly() -> None:
    """The trace has neither users nor names: virtual cluster and GPUs teach."""
    fifo, sjf, pai = (
        line["avg_wait_s"]
        for line in figures(
            "fifo:backfill=skip",
            "sjf",
            "pai_sjf",
            preset="philly-week",
            trace=TRACES / "philly/sia_philly_82k.csv",
            cluster=str(TRACES / "philly/philly_vc_nodes.csv"),
        )
    )
    assert sjf == pytest.approx(95.42, abs=0.01)
    assert fifo == pytest.approx(107.55, abs=0.01)
    assert sjf < pai < fifo
