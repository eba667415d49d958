"""Gangs that avoid nodes beside gangs that were promised a start, at random."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler.facts import Gang
from skep_scheduler.queue import Code, Plan, Settings

NODES = ["n0", "n1", "n2"]
LIMITS = Settings(ageing_limit=0, starvation_s=1e9)
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


class Story:
    """Lives a mix of gangs to its end, and looks at each plan."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self.cluster = Cluster([node(name) for name in NODES], owns(a=24), LIMITS)
        self.gangs = {f"g{i}": gang(f"g{i}", **job) for i, job in enumerate(jobs)}
        self._coming = sorted(self.gangs.values(), key=lambda one: (one.submitted_at, one.id))

    def plans(self) -> list[tuple[float, Plan]]:
        told: list[tuple[float, Plan]] = []
        while self._coming or self.cluster.world.running or self.cluster.world.waiting:
            self._go_on([*told[-1][1].reasons.values()] if told else [])
            told.append((self.cluster.now, self.cluster.tick()))
            assert len(told) < 500, "some gang starves"
        return told

    def _go_on(self, reasons: list[Any]) -> None:
        """To the next moment at which something is to happen."""
        cluster = self.cluster
        starts = [reason.details["expected_start"] for reason in reasons]
        times = [*(one.submitted_at for one in self._coming[:1]), *starts]
        times += [until for one in cluster.world.waiting.values() for _, until in one.avoid]
        later = [at for at in times if at is not None and at > cluster.now]
        cluster.now = min([*cluster._events(), *later], default=cluster.now)
        cluster._let_end()
        while self._coming and self._coming[0].submitted_at <= cluster.now:
            cluster.submit(self._coming.pop(0))


QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(jobs=JOBS)
def test_it_delays_nobody_who_was_promised_a_start(jobs: list[dict[str, Any]]) -> None:
    story = Story(jobs)
    promised: dict[str, float] = {}
    for now, plan in story.plans():
        for one in plan.placements:
            assert now <= promised.pop(one.gang, now), one.gang
        for gang_id, reason in plan.reasons.items():
            start = reason.details["expected_start"]
            if not story.gangs[gang_id].avoid:
                assert start is None or start <= promised.get(gang_id, start), gang_id
                assert start is not None or gang_id not in promised, gang_id
                if start is not None:
                    promised[gang_id] = start


@QUICK
@given(jobs=JOBS)
def test_its_reason_names_nodes_that_it_avoids_yet(jobs: list[dict[str, Any]]) -> None:
    story = Story(jobs)
    for now, plan in story.plans():
        for gang_id, reason in plan.reasons.items():
            if reason.code == Code.AVOIDING:
                avoids = story.gangs[gang_id].avoids(now)
                named = reason.details["avoids"]
                assert named
                assert reason.details["until"] == max(avoids[name] for name in named)
                assert reason.details["needs"]["gpus"] > 0


@QUICK
@given(jobs=JOBS)
def test_it_goes_there_only_if_it_must(jobs: list[dict[str, Any]]) -> None:
    """A gang that would fit on the other nodes, were they idle, starts on none that it avoids."""
    story = Story(jobs)
    for now, plan in story.plans():
        for one in plan.placements:
            avoids = story.gangs[one.gang].avoids(now)
            if fits(story.gangs[one.gang], len(NODES) - len(avoids)):
                assert avoids.keys().isdisjoint(one.nodes), one.gang


def fits(one: Gang, nodes: int) -> bool:
    return nodes * (8 // one.members[0].gpus) >= one.members[0].count


@QUICK
@given(jobs=JOBS, ranks=st.lists(st.sampled_from([-1, 10, 100]), min_size=10, max_size=10))
def test_it_starts_at_last_also_among_those_who_preempt(
    jobs: list[dict[str, Any]], ranks: list[int]
) -> None:
    story = Story([{**job, "priority": rank} for job, rank in zip(jobs, ranks, strict=False)])
    story.plans()
    assert story.cluster.started.keys() == story.gangs.keys()
