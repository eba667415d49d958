"""Reserved starts: no gang delays them, and who cannot delay them need not wait."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns
from tests.support.examples import examples

from skep_scheduler.model import Code, Options, VirtualCluster

HOUR = 3600.0


def cluster_with_one_node_free_in_an_hour() -> Cluster:
    """Of two nodes, one is in use for an hour, and a job for both waits."""
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("runs", gpus=8, duration_s=HOUR))
    cluster.submit(gang("wide", tasks=2, gpus=8, at=1.0, duration_s=HOUR))
    return cluster


def test_a_blocked_gang_is_given_the_earliest_start() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    reason = cluster.tick().reasons["wide"]
    assert reason.details["expected_start"] == HOUR
    assert "expected start in about 1 h" in reason.message


def test_what_ends_before_a_reserved_start_is_let_by() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    cluster.submit(
        gang("short", at=2.0, duration_s=HOUR),
        gang("long", at=2.0, duration_s=HOUR + 1),
        gang("unknown", at=3.0),
    )
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["short"]
    assert plan.reasons["long"].code == Code.HELD_BACK
    assert plan.reasons["long"].details["by"] == "wide"
    assert plan.reasons["unknown"].code == Code.HELD_BACK
    cluster.advance(HOUR)
    assert cluster.started["wide"] == HOUR


def test_who_uses_other_cells_than_those_reserved_is_let_by() -> None:
    cluster = Cluster([node(f"n{i}") for i in range(3)], owns(a=24))
    cluster.run(gang("runs", gpus=8, duration_s=HOUR), gang("more", gpus=4, duration_s=2 * HOUR))
    cluster.submit(gang("wide", tasks=2, gpus=8, at=1.0), gang("small", gpus=4, at=2.0))
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["small"]
    assert plan.reasons["wide"].details["expected_start"] == HOUR


def test_a_gang_that_depends_on_one_without_a_duration_blocks_no_one() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("endless", gpus=8))
    cluster.submit(gang("wide", tasks=2, gpus=8, at=1.0), gang("small", at=2.0))
    plan = cluster.tick()
    assert [p.gang for p in plan.placements] == ["small"]
    assert plan.reasons["wide"].details["expected_start"] is None


def test_opportunistic_gangs_use_what_is_held_back_and_leave_in_time() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    cluster.submit(gang("guest", gpus=8, priority=-1))
    assert [p.gang for p in cluster.tick().placements] == ["guest"]
    cluster.advance(HOUR + cluster.grace_s)
    assert cluster.started["wide"] == HOUR + cluster.grace_s


def test_what_was_reserved_for_after_a_gang_is_not_given_away_while_that_is_cleaned_up() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    cluster.submit(gang("long", gpus=8, at=2.0, duration_s=HOUR + 1))
    cluster.tick()
    cluster.now = HOUR + 1
    reasons = cluster.tick().reasons
    assert reasons["wide"].details["expected_start"] == HOUR + cluster.options.leave_s
    assert reasons["long"].code == Code.HELD_BACK
    cluster.end("runs")
    assert [p.gang for p in cluster.tick().placements] == ["wide"]


def test_several_reservations_hold_at_the_same_time() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("first", gpus=8, duration_s=HOUR), gang("second", gpus=8, duration_s=HOUR / 2))
    cluster.submit(
        gang("wide", tasks=2, gpus=8, at=1.0, duration_s=HOUR),
        gang("fits", gpus=8, at=2.0, duration_s=HOUR / 2),
        gang("after", gpus=8, at=3.0, duration_s=HOUR),
    )
    starts = {g: r.details["expected_start"] for g, r in cluster.tick().reasons.items()}
    assert starts == {"wide": HOUR, "fits": HOUR / 2, "after": 2 * HOUR}


def test_equal_gangs_run_in_the_order_they_came() -> None:
    cluster = Cluster([node("n0")], owns(a=8))
    cluster.submit(*(gang(f"g{i}", gpus=8, at=float(i), duration_s=60.0) for i in range(4)))
    cluster.advance(300.0, step_s=10.0)
    assert sorted(cluster.started, key=cluster.started.__getitem__) == ["g0", "g1", "g2", "g3"]


Job = tuple[int, int, float, int, float]  # tasks, GPUs of each, duration, comes at, really ends
MIXES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.sampled_from([60.0, 300.0, 900.0, 1800.0]),
        st.integers(0, 1200),
        st.sampled_from([1.0, 1.0, 0.3, 0.5, 0.9]),
    ),
    min_size=2,
    max_size=14,
)
WHOLE = owns(a=24)
SHARED = owns(a=12, b=12)
UNEVEN = owns(a=16, b=4)


def on_time(*jobs: tuple[int, int, float, int]) -> list[Job]:
    return [(*job, 1.0) for job in jobs]


AN_OLDER_ONE_COULD_START_SOONER = on_time(
    *[(1, 1, 60.0, 0)] * 4,
    *[(1, 1, 60.0, 646), (2, 1, 1800.0, 0), (2, 8, 1800.0, 0), (3, 1, 900.0, 0)],
    *[(3, 1, 900.0, 61), (3, 1, 900.0, 61), (1, 8, 60.0, 1)],
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mix=MIXES, vcs=st.sampled_from([WHOLE, SHARED, UNEVEN]))
@example(mix=AN_OLDER_ONE_COULD_START_SOONER, vcs=WHOLE)
def test_a_reserved_start_is_never_delayed(mix: list[Job], vcs: tuple[VirtualCluster, ...]) -> None:
    """Gangs of equal priority that run as long as they say at most: from tick to tick, no
    reservation gets later, and every gang starts when it was reserved at the latest."""
    limits = Options(ageing_limit=0, starvation_s=1e9)
    cluster = Cluster([node(f"n{i}") for i in range(3)], vcs, limits)
    for i, (tasks, gpus, duration, at, part) in enumerate(mix):
        vc = vcs[i % len(vcs)].name
        cluster.lifetimes[f"g{i}"] = duration * part
        cluster.submit_later(gang(f"g{i}", vc, tasks, gpus, at=float(at), duration_s=duration))
    reserved: dict[str, float] = {}
    while not cluster.idle():
        next_tick(cluster, reserved)
    assert not reserved


def next_tick(cluster: Cluster, reserved: dict[str, float]) -> None:
    """At the next moment at which a gang comes, ends, or was reserved to start."""
    decided = cluster.step(reserved.values())
    for one in decided.placements:
        assert cluster.now <= reserved.pop(one.gang, cluster.now), one.gang
    for gang_id, reason in decided.reasons.items():
        start = reason.details["expected_start"]
        if gang_id in reserved:
            assert start is not None, gang_id
            assert start <= reserved[gang_id], gang_id
        if start is not None:
            reserved[gang_id] = start


def test_a_younger_gang_keeps_the_start_it_was_given_when_others_end_early() -> None:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16))
    cluster.run(gang("early", gpus=8, duration_s=HOUR), gang("late", gpus=4, duration_s=HOUR / 2))
    cluster.submit(
        gang("wide", tasks=2, gpus=8, at=1.0, duration_s=HOUR),
        gang("young", gpus=8, at=2.0, duration_s=HOUR / 2),
    )
    first = cluster.tick().reasons
    assert first["wide"].details["expected_start"] == HOUR
    assert first["young"].details["expected_start"] == HOUR / 2
    cluster.now = HOUR / 4
    cluster.end("early")
    assert [p.gang for p in cluster.tick().placements] == ["young"]
    cluster.now = HOUR / 2
    cluster.end("late")
    assert cluster.tick().reasons["wide"].details["expected_start"] == HOUR * 3 / 4


def test_who_outranks_it_may_delay_a_reserved_start() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    cluster.tick()
    cluster.submit(gang("prod", gpus=8, at=2.0, priority=100, duration_s=2 * HOUR))
    decided = cluster.tick()
    assert [p.gang for p in decided.placements] == ["prod"]
    assert decided.reasons["wide"].details["expected_start"] == 2 * HOUR


def test_a_gang_that_is_gone_is_given_nothing() -> None:
    cluster = cluster_with_one_node_free_in_an_hour()
    cluster.tick()
    assert cluster.state.reservations["wide"].start == HOUR
    cluster.state.forget("wide")
    assert not cluster.state.reservations
