"""Gangs that avoid nodes beside gangs that were reserved a start, at random."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples

from skep_scheduler.model import Code, Gang, Options, Plan

NODES = ["n0", "n1", "n2"]
LIMITS = Options(ageing_limit=0, starvation_s=1e9)
AVOIDED = st.dictionaries(st.sampled_from(NODES), st.sampled_from([50.0, 600.0, 2000.0]))
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "tasks": st.integers(1, 3),
            "gpus": st.sampled_from([1, 2, 4, 8]),
            "duration_s": st.sampled_from([60.0, 300.0, 900.0]),
            "at": st.sampled_from([0.0, 1.0, 61.0, 400.0]),
            "avoid": st.one_of(st.just({}), AVOIDED).map(lambda known: tuple(known.items())),
        }
    ),
    min_size=2,
    max_size=10,
)


class History:
    """Lives a mix of gangs to its end, and looks at each plan."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self.cluster = Cluster([node(name) for name in NODES], owns(a=24), LIMITS)
        self.gangs = {f"g{i}": gang(f"g{i}", **job) for i, job in enumerate(jobs)}
        for one in self.gangs.values():
            self.cluster.submit_later(one)

    def plans(self) -> list[tuple[float, Plan]]:
        plans: list[tuple[float, Plan]] = []
        while not self.cluster.idle() or self.cluster.state.waiting:
            decided = self.cluster.step(self._wake_ups(plans[-1][1] if plans else Plan()))
            plans.append((self.cluster.now, decided))
            assert len(plans) < 500, "some gang starves"
        return plans

    def _wake_ups(self, last: Plan) -> list[float]:
        """The moments at which a gang may start although nothing happens."""
        starts = (reason.details["expected_start"] for reason in last.reasons.values())
        waiting = self.cluster.state.waiting.values()
        return [at for at in starts if at is not None] + [
            until for one in waiting for _, until in one.avoid
        ]


QUICK = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@QUICK
@given(jobs=JOBS)
def test_it_delays_no_one_who_was_given_a_start(jobs: list[dict[str, Any]]) -> None:
    history = History(jobs)
    reserved: dict[str, float] = {}
    for now, plan in history.plans():
        for one in plan.placements:
            assert now <= reserved.pop(one.gang, now), one.gang
        for gang_id, reason in plan.reasons.items():
            start = reason.details["expected_start"]
            if not history.gangs[gang_id].avoid:
                assert start is None or start <= reserved.get(gang_id, start), gang_id
                assert start is not None or gang_id not in reserved, gang_id
                if start is not None:
                    reserved[gang_id] = start


@QUICK
@given(jobs=JOBS)
def test_its_reason_names_nodes_that_it_avoids_yet(jobs: list[dict[str, Any]]) -> None:
    history = History(jobs)
    for now, plan in history.plans():
        for gang_id, reason in plan.reasons.items():
            if reason.code == Code.NODE_EXCLUDED:
                avoids = history.gangs[gang_id].avoids(now)
                named = reason.details["avoids"]
                assert named
                assert reason.details["until"] == max(avoids[name] for name in named)
                assert reason.details["needs"]["gpus"] > 0


@QUICK
@given(jobs=JOBS)
def test_it_goes_there_only_if_it_must(jobs: list[dict[str, Any]]) -> None:
    """A gang that would fit on the other nodes, were they idle, starts on none that it avoids."""
    history = History(jobs)
    for now, plan in history.plans():
        for one in plan.placements:
            avoids = history.gangs[one.gang].avoids(now)
            if fits(history.gangs[one.gang], len(NODES) - len(avoids)):
                assert avoids.keys().isdisjoint(one.nodes), one.gang


def fits(one: Gang, nodes: int) -> bool:
    return nodes * (8 // one.members[0].gpus) >= one.members[0].count


@QUICK
@given(jobs=JOBS, ranks=st.lists(st.sampled_from([-1, 10, 100]), min_size=10, max_size=10))
def test_it_starts_at_last_also_among_those_who_preempt(
    jobs: list[dict[str, Any]], ranks: list[int]
) -> None:
    history = History([{**job, "priority": rank} for job, rank in zip(jobs, ranks, strict=False)])
    history.plans()
    assert history.cluster.started.keys() == history.gangs.keys()
