"""The place of a gang in the queue."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler import policies
from skep_scheduler.model import Options, PolicyChoice
from skep_scheduler.policies.base import View
from skep_scheduler.policies.ordered import ordered

SETTINGS = Options(ageing_s=600.0)


@given(
    submitted=st.lists(st.floats(0, 50_000), min_size=2, max_size=6, unique=True),
    returned=st.lists(st.floats(0, 60_000), min_size=6, max_size=6),
    now=st.floats(60_000, 67_000),
)
def test_finding_u1_gangs_of_one_priority_keep_the_order_in_which_they_were_submitted(
    submitted: list[float], returned: list[float], now: float
) -> None:
    """Whenever each of them was drained, preempted or retried and came back."""
    options = replace(SETTINGS, starvation_s=1e9)
    gangs = [
        replace(gang(f"g{i}", at=at), waits_since=max(at, back))
        for i, (at, back) in enumerate(zip(submitted, returned, strict=False))
    ]
    decision = policies.make(PolicyChoice(), options).decide(View("a", now, options))
    places = [one.submitted_at for one in ordered(gangs, decision)]
    assert places == sorted(places)


def test_finding_u1_the_oldest_job_starts_first_after_its_node_was_drained() -> None:
    """As the page says: "restarts from its old place in the queue"."""
    cluster = Cluster([node("n0")], owns(a=8), SETTINGS)
    cluster.run(gang("oldest", gpus=8, at=0.0))
    cluster.submit(gang("second", gpus=8, at=60.0), gang("third", gpus=8, at=120.0))
    cluster.now = 3000.0
    cluster.tick()
    cluster.ask_to_leave("oldest")
    cluster.advance(cluster.now + cluster.grace_s)
    assert cluster.started["oldest"] >= 3000.0
    assert {"second", "third"} <= cluster.state.waiting.keys()
