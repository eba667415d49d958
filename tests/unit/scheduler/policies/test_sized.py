"""Elastic policies on the live engine: gangs start with as many tasks as their policy gives them,
and change their number by leaving and starting again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node, owns
from tests.support.examples import examples

from skep_scheduler.engine import explain
from skep_scheduler.model import (
    Claim,
    Code,
    ElasticRange,
    Gang,
    Options,
    PolicyChoice,
    Reason,
    Resize,
    VirtualCluster,
)
from skep_scheduler.policies import sized

OPTIONS = Options(starvation_s=1e9, min_run_s=0.0, resize_hold_s=100.0)
NAMES = ("afs", "coddl", "optimus", "karuna", "elasticflow")
LINEAR = tuple((n, float(n)) for n in (1, 2, 4, 8, 16))


def elastic(
    name: str,
    asked: int = 2,
    at: float = 0.0,
    sizes: tuple[int, int] = (1, 8),
    gpus: int = 1,
    speedup: tuple[tuple[int, float], ...] = LINEAR,
    **more: object,
) -> Gang:
    role = member(asked, gpus, elastic=ElasticRange(*sizes, asked, speedup))
    return gang(name, at=at, members=[role], **{"duration_s": 10_000.0, **more})


def under(policy: str, gpus: int = 8, **parameters: float) -> tuple[VirtualCluster, ...]:
    choice = PolicyChoice(policy, tuple(parameters.items()))
    return tuple(replace(vc, policy=choice) for vc in owns(a=gpus))


def cluster_of(policy: str, gpus: int = 8, nodes: int = 1) -> Cluster:
    each = gpus // nodes
    made = [node(f"n{i}", each) for i in range(nodes)]
    return Cluster(made, under(policy, gpus), OPTIONS, grace_s=10.0, keep_progress=True)


def sizes(cluster: Cluster) -> dict[str, int]:
    return {gang_id: len(one.tasks) for gang_id, one in sorted(cluster.state.running.items())}


@pytest.mark.parametrize("policy", ["afs", "coddl", "optimus"])
def test_a_gang_alone_starts_with_all_that_helps_it(policy: str) -> None:
    cluster = cluster_of(policy)
    cluster.run(elastic("one"))
    assert sizes(cluster) == {"one": 8}


def test_under_a_policy_without_sizes_a_gang_has_the_size_that_it_asks_for() -> None:
    cluster = Cluster([node("n0")], owns(a=8), OPTIONS)
    cluster.run(elastic("one"))
    assert sizes(cluster) == {"one": 2}


def test_a_gang_stops_growing_where_more_tasks_do_not_help() -> None:
    cluster = cluster_of("optimus")
    cluster.run(elastic("one", speedup=((1, 1.0), (4, 3.0), (8, 3.0))))
    assert sizes(cluster) == {"one": 4}


def test_optimus_shares_between_two_equal_gangs() -> None:
    cluster = cluster_of("optimus")
    cluster.submit(elastic("one", speedup=()), elastic("two", at=1.0, speedup=()))
    cluster.tick()
    assert sizes(cluster) == {"one": 4, "two": 4}


def test_a_running_gang_shrinks_for_one_that_arrives_and_grows_when_that_ends() -> None:
    cluster = cluster_of("optimus")
    cluster.lifetimes = {"one": 1e6, "two": 1e6}
    cluster.run(elastic("one", speedup=()))
    cluster.now = 50.0
    cluster.submit(elastic("two", at=50.0, speedup=()))
    plan = cluster.tick()
    assert not plan.resizes, "it has run for less than resize_hold_s"
    assert plan.reasons["two"].code in (Code.NO_SIZE, Code.VC_BUSY)
    assert plan.next_at is not None
    assert plan.next_at <= 100.0

    cluster.now = 101.0
    plan = cluster.tick()
    label = "one GPU each, then where they save most time"
    assert plan.resizes == (Resize("one", 8, 4, 8, 4, label),)
    cluster.advance(112.0)
    assert sizes(cluster) == {"one": 4, "two": 4}

    cluster.now = 130.0
    cluster.end("two")
    assert not cluster.tick().resizes
    cluster.now = 230.0
    assert [(one.gang, one.tasks) for one in cluster.tick().resizes] == [("one", 8)]
    cluster.advance(245.0)
    assert sizes(cluster) == {"one": 8}


def test_no_gang_leaves_for_growth_that_saves_less_than_the_restart_costs() -> None:
    cluster = cluster_of("optimus")
    one = elastic("one", speedup=(), duration_s=150.0)
    cluster.submit(one, elastic("two", at=1.0, speedup=(), duration_s=150.0))
    cluster.tick()
    assert sizes(cluster) == {"one": 4, "two": 4}
    cluster.now = 110.0
    cluster.end("two")
    assert not cluster.tick().resizes


def test_a_gang_that_is_not_preemptible_keeps_its_size() -> None:
    cluster = cluster_of("optimus")
    cluster.run(elastic("one", preemptible=False))
    cluster.now = 1000.0
    cluster.submit(elastic("two", at=1000.0))
    assert not cluster.tick().resizes
    assert sizes(cluster) == {"one": 8}


def test_sizes_are_those_that_its_tasks_can_have() -> None:
    """Tasks have two GPUs each, and a rigid gang runs beside them."""
    cluster = cluster_of("optimus", gpus=8)
    cluster.run(gang("rigid", gpus=3))
    cluster.submit(elastic("one", asked=1, sizes=(1, 4), gpus=2, at=1.0))
    cluster.tick()
    assert sizes(cluster) == {"one": 2, "rigid": 1}


def test_a_gang_starts_smaller_where_places_do_not_fit_its_size() -> None:
    """Six GPUs are free, but three on each node: no two tasks of two GPUs beside one another."""
    cluster = cluster_of("optimus", gpus=8, nodes=2)
    cluster.run(gang("a", tasks=1, gpus=3), gang("b", tasks=1, gpus=1, at=1.0))
    held = [task.node for one in cluster.state.running.values() for task in one.tasks]
    assert held == ["n0", "n0"]
    cluster.run(gang("c", gpus=3, at=2.0))
    cluster.run(gang("d", gpus=1, at=3.0))
    cluster.end("b")
    cluster.end("d")
    cluster.submit(elastic("one", asked=1, sizes=(1, 2), gpus=2, at=4.0))
    plan = cluster.tick()
    assert plan.reasons["one"].code == Code.VC_BUSY
    assert "optimus gives it 1 task with 2 GPUs" in plan.reasons["one"].message


def test_gpus_on_bad_nodes_are_not_given() -> None:
    cluster = cluster_of("optimus", gpus=8, nodes=2)
    cluster.state.set_node(replace(node("n1", 4), schedulable=False))
    cluster.run(elastic("one"))
    assert sizes(cluster) == {"one": 4}
    cluster.now = 1000.0
    assert not cluster.tick().resizes, "it would find no place to grow"


def test_a_higher_priority_comes_first() -> None:
    cluster = cluster_of("optimus")
    low, high = elastic("low", sizes=(2, 8)), elastic("high", at=1.0, sizes=(4, 6))
    cluster.submit(low, replace(high, priority=100))
    cluster.tick()
    assert sizes(cluster) == {"high": 6, "low": 2}


def test_a_gang_that_starves_gets_its_size_before_the_policy_decides() -> None:
    options = replace(OPTIONS, starvation_s=500.0)
    cluster = Cluster([node("n0")], under("afs"), options, grace_s=10.0, keep_progress=True)
    cluster.lifetimes = {"short": 1e6, "long": 1e6}
    cluster.run(elastic("short", duration_s=1e5))
    cluster.submit(elastic("long", asked=4, at=1.0, duration_s=1e9))
    cluster.advance(400.0, step_s=50.0)
    assert sizes(cluster) == {"short": 8}, "AFS is SRTF where speed-up is linear"
    cluster.advance(640.0, step_s=50.0)
    assert sizes(cluster) == {"long": 4, "short": 4}


def test_elasticflow_gives_a_gang_as_few_tasks_as_its_deadline_needs() -> None:
    """10,000 s of work at two GPUs: four meet a deadline in 6,000 s."""
    cluster = cluster_of("elasticflow")
    due = elastic("due", deadline_at=6_000.0)
    later = elastic("later", at=1.0, deadline_at=60_000.0, sizes=(1, 2))
    cluster.submit(due, later)
    cluster.tick()
    held = sizes(cluster)
    assert held["due"] >= 4
    assert held["due"] + held["later"] <= 8


def test_elasticflow_admits_no_gang_that_would_be_late_and_says_when_it_would_not() -> None:
    cluster = cluster_of("elasticflow")
    cluster.run(elastic("first", deadline_at=3_000.0))
    late = elastic("late", at=0.0, deadline_at=3_000.0)
    answer = explain(cluster.state, late, 0.0, OPTIONS)
    assert isinstance(answer, Reason)
    assert answer.code == Code.NOT_ADMITTED
    assert answer.details["deadline"] == 3_000.0
    earliest = answer.details["earliest"]
    assert 3_000.0 < earliest <= 6_100.0
    admitted = explain(cluster.state, replace(late, deadline_at=earliest), 0.0, OPTIONS)
    assert not isinstance(admitted, Reason) or admitted.code != Code.NOT_ADMITTED


def test_elasticflow_declines_no_gang_that_waits() -> None:
    """All that wait were admitted: one that is late by now goes on as well as it can."""
    cluster = cluster_of("elasticflow")
    cluster.submit(elastic("late", deadline_at=10.0))
    cluster.tick()
    assert sizes(cluster) == {"late": 8}


def test_of_a_long_queue_the_first_are_decided_for_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sized, "MOST_WAITING", 3)
    cluster = cluster_of("optimus")
    cluster.submit(*(elastic(f"g{n}", at=float(n), sizes=(1, 2)) for n in range(6)))
    plan = cluster.tick()
    assert sizes(cluster) == {"g0": 2, "g1": 2, "g2": 2, "g3": 2}, "what is idle goes to the next"
    assert {plan.reasons[f"g{n}"].code for n in (4, 5)} == {Code.NO_SIZE}


def test_gangs_that_accept_any_model_share_the_one_that_is_left() -> None:
    claims = (Claim("", "A100", 4), Claim("", "V100", 4))
    vc = VirtualCluster("a", claims, PolicyChoice("optimus"))
    nodes = [node("n0", 4), node("n1", 4, "V100")]
    cluster = Cluster(nodes, [vc], OPTIONS, grace_s=10.0, keep_progress=True)
    fixed = elastic("a", sizes=(4, 4), asked=4)
    cluster.run(replace(fixed, members=(replace(fixed.members[0], gpu_model="A100"),)))
    cluster.run(elastic("any", sizes=(1, 4), at=1.0))
    assert sizes(cluster) == {"a": 4, "any": 4}
    cluster.now = 1_000.0
    cluster.submit(elastic("late", at=2.0))
    cluster.advance(1_020.0, step_s=5.0)
    assert sizes(cluster) == {"a": 4, "any": 2, "late": 2}


@st.composite
def mixes(draw: st.DrawFn) -> list[Gang]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        at, life = float(number), draw(st.sampled_from([None, 50.0, 500.0]))
        if draw(st.booleans()):
            least = draw(st.integers(1, 3))
            most = draw(st.integers(least, 8))
            asked, gpus = draw(st.integers(least, most)), draw(st.sampled_from([1, 1, 2]))
            made = elastic(
                f"g{number}", asked, at, (least, most), gpus,
                draw(st.sampled_from([(), LINEAR])), duration_s=life,
                deadline_at=draw(st.sampled_from([None, 100.0, 2_000.0])),
            )  # fmt: skip
        else:
            made = gang(f"g{number}", gpus=draw(st.integers(1, 8)), at=at, duration_s=life)
        found.append(replace(made, priority=draw(st.sampled_from([-1, 0, 10]))))
    return found


@settings(max_examples=examples(60))
@given(mix=mixes(), policy=st.sampled_from(NAMES), lives=st.lists(st.floats(1, 900), min_size=6))
def test_whatever_runs_has_a_size_within_its_bounds_and_all_end(
    mix: list[Gang], policy: str, lives: list[float]
) -> None:
    """`Cluster.plan` validates the state and HiveD's invariants before each plan."""
    cluster = Cluster(
        [node("n0"), node("n1")], under(policy, 16), OPTIONS, grace_s=5.0, keep_progress=True
    )
    cluster.lifetimes = {one.id: life for one, life in zip(mix, lives, strict=False)}
    for one in mix:
        cluster.submit_later(one)
    for _ in range(400):
        cluster.advance(cluster.now + 25.0)
        for known in cluster.state.running.values():
            if (bounds := known.gang.elastic) is not None:
                assert bounds.min <= len(known.tasks) <= bounds.max
        if cluster.ended == len(mix):
            break
    assert all(history.ended_at is not None for history in cluster.history.values())
