"""A scheduler that keeps its memory decides as one that has none."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples

from skep_scheduler import engine, policies
from skep_scheduler.memory import Memory
from skep_scheduler.model import Options, Plan, PolicyChoice, VirtualCluster

# Without ageing, since a memory looks at the order of a domain only from time to time.
OPTIONS = Options(ageing_limit=0, starvation_s=500.0, min_run_s=20.0)
CHOICES = (
    *(PolicyChoice(name) for name in policies.names()),
    PolicyChoice("drf", (("term_s", 60.0), ("weights", "x:3"))),
    PolicyChoice("gandiva_fair", (("round_s", 60.0),)),
)


class Remembering(Cluster):
    """Plans twice at each moment: with the memory of all plans before, and without any."""

    memory: Memory

    def plan(self) -> Plan:
        fresh = engine.plan(self.state, self.now, self.options)
        self.state.set_reservations(self.reserved)
        kept = engine.plan(self.state, self.now, self.options, memory=self.memory)
        self.reserved = dict(self.state.reservations)
        assert kept.placements == fresh.placements
        assert kept.preemptions == fresh.preemptions
        assert kept.cancels.keys() == fresh.cancels.keys()
        for gang_id in kept.reasons:
            assert kept.reasons[gang_id].code == fresh.reasons[gang_id].code
        self.reported |= {gang_id: kept.reasons.code(gang_id) for gang_id in kept.reasons}
        for gang_id in fresh.reasons:
            assert self.reported[gang_id] == fresh.reasons[gang_id].code, gang_id
        self.state.validate()
        return kept


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(seed=6284070, chosen=(CHOICES[0], CHOICES[0]))  # kept places were given away
@given(seed=st.integers(0, 1 << 30), chosen=st.tuples(*[st.sampled_from(CHOICES)] * 2))
def test_plans_with_and_without_memory_are_equal(
    seed: int, chosen: tuple[PolicyChoice, PolicyChoice]
) -> None:
    rng = random.Random(seed)
    vcs = tuple(
        VirtualCluster(vc.name, vc.claims, choice)
        for vc, choice in zip(owns(a=8, b=8), chosen, strict=True)
    )
    cluster = Remembering([node("n0"), node("n1")], vcs, OPTIONS)
    cluster.memory, cluster.reserved, cluster.reported = Memory(OPTIONS), {}, {}
    for i in range(25):
        act = rng.random()
        if act < 0.6:
            cluster.submit(
                gang(
                    f"g{i:02}",
                    rng.choice("ab"),
                    gpus=rng.choice([1, 1, 2, 4, 8]),
                    priority=rng.choice([-1, 0, 10, 10]),
                    at=cluster.now,
                    duration_s=rng.choice([None, 30.0, 200.0]),
                    owner="xyz"[i % 3],
                    deadline_at=rng.choice([None, cluster.now + 50.0, cluster.now + 500.0]),
                )
            )
        elif act < 0.8 and cluster.state.running:
            cluster.end(rng.choice(sorted(cluster.state.running)))
        cluster.advance(cluster.now + rng.choice([1.0, 20.0, 100.0]))
