"""However many small gangs come: who owns enough starts within a bound."""

from __future__ import annotations

import pytest
from tests.support.cluster import Cluster, gang, member, node, owns

from skep_scheduler.model import Code, Options

LIMITS = Options(starvation_s=600.0, ageing_s=60.0)
LIFE = 100.0


def flooded(until: float, options: Options) -> Cluster:
    """Of small gangs that say nothing about how long they run, so that nothing can be reserved,
    there are always more than fit; and one that needs all that the VC owns."""
    cluster = Cluster([node("n0"), node("n1")], owns(a=16), options)
    cluster.submit(*(gang(f"s{i}", gpus=2) for i in range(8)))
    cluster.lifetimes = {f"s{i}": LIFE * (1 + i % 4 / 4) for i in range(8)}
    cluster.tick()
    cluster.submit(gang("big", tasks=2, gpus=8, at=1.0))
    number = 8
    while cluster.now < until:
        small = sum(name != "big" for name in cluster.state.waiting)
        for _ in range(12 - small):
            name = f"s{number}"
            cluster.lifetimes[name] = LIFE * (1 + number % 4 / 4)
            cluster.submit(gang(name, gpus=2, at=cluster.now))
            number += 1
        cluster.advance(cluster.now + 10.0)
    return cluster


def test_a_gang_that_owns_enough_starts_although_small_ones_never_cease() -> None:
    cluster = flooded(until=900.0, options=LIMITS)
    assert 600.0 < cluster.started["big"] <= 600.0 + 2 * LIFE


def test_without_the_bound_it_would_wait_for_ever() -> None:
    never = Options(starvation_s=1e9, ageing_limit=0)
    assert "big" not in flooded(until=1500.0, options=never).started


def test_only_what_the_starving_gang_could_use_is_kept_for_it() -> None:
    cluster = Cluster([node("n0"), node("v0", model="V100")], owns(a=8), LIMITS)
    cluster.run(gang("endless", gpus=4))
    cluster.submit(
        gang("big", gpus=8, at=0.0),
        gang("behind", at=1.0),
        gang("cpu", at=1.0, members=[member(1, 0, cpu_millis=500)]),
        gang("guest", at=1.0, priority=-1),
    )
    cluster.now = 700.0
    plan = cluster.tick()
    assert {p.gang for p in plan.placements} == {"cpu", "guest"}
    assert plan.reasons["behind"].code == Code.HELD_BACK
    assert plan.reasons["behind"].details["by"] == "big"


def test_one_that_can_never_fit_holds_no_one_back() -> None:
    cluster = Cluster([node("n0")], owns(a=8), LIMITS)
    cluster.submit(gang("huge", tasks=2, gpus=8), gang("small", at=1.0))
    cluster.now = 700.0
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["small"]
    assert plan.reasons["huge"].code == Code.NEVER_FITS_VC


@pytest.mark.parametrize(("waited", "first"), [(0.0, "late"), (540.0, "early"), (601.0, "early")])
def test_waiting_raises_the_rank_within_a_band(waited: float, first: str) -> None:
    cluster = Cluster([node("n0")], owns(a=8), LIMITS)
    cluster.submit(
        gang("early", gpus=8, priority=10, at=0.0), gang("late", gpus=8, priority=15, at=waited)
    )
    cluster.now = waited
    assert [p.gang for p in cluster.tick().placements] == [first]


def test_prod_stays_before_test_unless_that_starves() -> None:
    for waited, first in ((599.0, "prod"), (601.0, "test")):
        cluster = Cluster([node("n0")], owns(a=8), LIMITS)
        cluster.submit(gang("test", gpus=8), gang("prod", gpus=8, priority=100, at=waited))
        cluster.now = waited
        assert [p.gang for p in cluster.tick().placements] == [first]
