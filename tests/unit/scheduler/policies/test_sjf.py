"""Shortest job first."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.model import Options, PolicyChoice

PATIENT = Options(starvation_s=1e9)


def one_at_a_time(*parameters: tuple[str, str]) -> Cluster:
    (vc,) = owns(a=8)
    return Cluster([node("n0")], [replace(vc, policy=PolicyChoice("sjf", parameters))], PATIENT)


@given(durations=st.lists(st.integers(1, 100), min_size=2, max_size=6, unique=True))
def test_gangs_start_from_the_shortest_to_the_longest(durations: list[int]) -> None:
    """The mean waiting time is the least that any order without preemption has."""
    cluster = one_at_a_time()
    for i, duration in enumerate(durations):
        cluster.submit(gang(f"g{duration}", gpus=8, at=float(i), duration_s=float(duration)))
    cluster.tick()
    cluster.run_to_end(tick_limit=100)
    starts = {name: history.first_started_at for name, history in cluster.history.items()}
    assert sorted(starts, key=lambda name: starts[name]) == [f"g{d}" for d in sorted(durations)]


def test_a_prediction_counts_more_than_what_is_declared_and_unknown_comes_last() -> None:
    cluster = one_at_a_time()
    cluster.submit(
        gang("unknown", gpus=8, at=0.0),
        gang("declared", gpus=8, at=1.0, duration_s=100.0),
        gang("predicted", gpus=8, at=2.0, duration_s=1000.0, predicted_s=10.0),
    )
    assert [p.gang for p in cluster.tick().placements] == ["predicted"]
    cluster.end("predicted")
    assert [p.gang for p in cluster.tick().placements] == ["declared"]


def test_priorities_stay_tiers_and_gpus_may_be_weighed() -> None:
    cluster = one_at_a_time(("weigh_by_gpus", "yes"))
    cluster.submit(
        gang("low", gpus=1, priority=0, duration_s=1.0),
        gang("wide", gpus=8, duration_s=10.0),
        gang("narrow", gpus=2, duration_s=30.0),
    )
    assert [p.gang for p in cluster.tick().placements] == ["narrow", "low"]
