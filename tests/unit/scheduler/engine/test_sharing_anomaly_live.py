"""The sharing anomaly through the whole engine: one-GPU jobs of VC1 come and go for hours, and
whenever VC2 wants its 16-GPU node, it gets it at once or takes back what it lent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node
from tests.support.examples import examples
from tests.support.quota_only import QuotaOnly

from skep_scheduler.model import Claim, VirtualCluster

OWN_A_NODE = tuple(VirtualCluster(vc, (Claim("", "A100", 16),)) for vc in ("vc1", "vc2"))
LEAST_RUN_S = 10.0  # of an opportunistic gang

# Sizes of vc1's jobs, their priorities, how long they run, and how long after the last one.
MIXES = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 1, 2, 4]),
        st.sampled_from([-1, -1, 0, 0]),
        st.sampled_from([None, 30.0, 300.0]),
        st.sampled_from([0.0, 1.0, 20.0]),
    ),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(mix=MIXES)
def test_small_jobs_never_keep_the_other_vc_from_its_node(
    mix: list[tuple[int, int, float | None, float]],
) -> None:
    cluster = Cluster([node("node0", 16), node("node1", 16)], OWN_A_NODE)
    for number, (size, priority, duration, pause) in enumerate(mix):
        name = f"j{number}"
        cluster.submit(
            gang(name, "vc1", gpus=size, priority=priority, at=cluster.now, duration_s=duration)
        )
        cluster.tick()
        cluster.advance(cluster.now + pause)
    asked = cluster.now
    cluster.submit(gang("big", "vc2", gpus=16, at=asked))
    cluster.tick()
    cluster.advance(asked + LEAST_RUN_S + cluster.grace_s, step_s=1.0)
    assert "big" in cluster.started
    owners = [g for g in cluster.preempted if not g.startswith("j") or mix[int(g[1:])][1] >= 0]
    assert owners == [], "someone lost what is his own"


@pytest.mark.parametrize("seed", range(10))
def test_the_same_mix_that_quota_alone_fails_on_is_no_problem(seed: int) -> None:
    rng = random.Random(seed)
    quota = QuotaOnly()
    cluster = Cluster([node("node0", 16), node("node1", 16)], OWN_A_NODE)
    for number in range(rng.randint(20, 60)):
        name = f"j{number}"
        quota.start(name, "vc1", 1)
        cluster.submit(gang(name, "vc1", at=float(number)))
        cluster.tick()
        if number > 10 and rng.random() < 0.4:
            gone = rng.choice(sorted(cluster.state.running))
            quota.end(gone)
            cluster.end(gone)
    assert quota.owns["vc2"] == 16
    assert quota.start("big", "vc2", 16) is None
    cluster.submit(gang("big", "vc2", gpus=16))
    assert "big" in {placement.gang for placement in cluster.tick().placements}
