"""Policies: chosen by name, checked, and each with the order that it states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, node, owns

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, Code, Gang, Options, PolicyChoice, VirtualCluster
from skep_scheduler.policies.base import View
from skep_scheduler.policies.families import FAMILY_OF
from skep_scheduler.policies.ordered import ordered
from skep_scheduler.simulator.presets import registry

PATIENT = Options(starvation_s=1e9)


def choose(vcs: tuple[VirtualCluster, ...], **chosen: str) -> tuple[VirtualCluster, ...]:
    return tuple(replace(vc, policy=PolicyChoice(chosen.get(vc.name, ""))) for vc in vcs)


def order(choice: PolicyChoice, gangs: list[Gang], now: float = 0.0) -> list[str]:
    decision = policies.make(choice, PATIENT).decide(View("a", now, PATIENT))
    return [one.id for one in ordered(gangs, decision)]


def test_every_policy_belongs_to_a_family_and_no_family_names_another() -> None:
    native = registry.find("native").policies
    assert set(FAMILY_OF) == {*policies.names(), *native}


def test_every_policy_describes_itself() -> None:
    for policy in policies.POLICIES:
        found = policies.schema(policy)
        assert found["name"] == policy.name
        assert found["description"].endswith(".")
        for known in found["parameters"]:
            assert known["type"] in ("number", "integer", "string")
            assert known["description"].endswith(".")


@pytest.mark.parametrize(
    ("choice", "code", "words"),
    [
        (PolicyChoice("lifo"), "unknown_policy", "priority_ageing, fifo"),
        (PolicyChoice("hug"), "policy_simulated_only", "jobs ask for fixed amounts"),
        (PolicyChoice("fifo", (("depth", 1),)), "bad_policy_parameter", "no parameter 'depth'"),
        (PolicyChoice("fifo", (("backfill", "often"),)), "bad_policy_parameter", "one of skip"),
        (PolicyChoice("", (("ageing_s", 0.0),)), "bad_policy_parameter", "at least 1"),
        (PolicyChoice("", (("ageing_limit", True),)), "bad_policy_parameter", "a whole number"),
        (PolicyChoice("", (("ageing_limit", 1.5),)), "bad_policy_parameter", "a whole number"),
    ],
)
def test_a_choice_that_is_not_to_be_had_is_refused_with_what_is(choice, code, words) -> None:
    with pytest.raises(policies.PolicyError) as caught:
        policies.check(choice)
    assert caught.value.code == code
    assert words in caught.value.message


def test_a_stored_choice_that_this_version_does_not_know_plans_by_the_default() -> None:
    find = policies.policy_of({"a": PolicyChoice("from_the_future")}, DEFAULTS)
    assert find("a") == find("b")


def test_priority_ageing_ranks_an_old_gang_before_a_newer_one_of_little_more_priority() -> None:
    gangs = [gang("new", priority=12, at=3000.0), gang("old", priority=10, at=0.0)]
    assert order(PolicyChoice(), gangs, now=3000.0) == ["old", "new"]
    assert order(PolicyChoice("fifo"), gangs, now=3000.0) == ["new", "old"]
    slow = PolicyChoice("priority_ageing", (("ageing_s", 6000.0),))
    assert order(slow, gangs, now=3000.0) == ["new", "old"]


def test_under_fifo_no_gang_starts_before_an_older_one_that_does_not_fit() -> None:
    for backfill, starts in (("block", False), ("reserve", True), ("skip", True)):
        (vc,) = owns(a=8)
        fifo = replace(vc, policy=PolicyChoice("fifo", (("backfill", backfill),)))
        cluster = Cluster([node("n0")], [fifo], PATIENT)
        cluster.run(gang("runs", gpus=4, duration_s=1000.0))
        cluster.submit(gang("wide", gpus=8, at=1.0), gang("small", gpus=1, at=2.0, duration_s=10.0))
        plan = cluster.tick()
        assert [p.gang for p in plan.placements] == ["small"] * starts
        if not starts:
            assert plan.reasons["small"].code == Code.HELD_BACK
            assert "comes first" in plan.reasons["small"].message
            assert "1 job is ahead (first in, first out)" in plan.reasons["small"].message


def test_a_gang_that_never_fits_blocks_no_one_under_fifo() -> None:
    vcs = choose(owns(a=8), a="fifo")
    cluster = Cluster([node("n0")], vcs, PATIENT)
    cluster.submit(gang("huge", gpus=8, tasks=4), gang("small", at=1.0))
    assert [p.gang for p in cluster.tick().placements] == ["small"]


def test_two_virtual_clusters_have_an_order_each() -> None:
    vcs = choose(owns(a=4, b=4), b="fifo")
    cluster = Cluster([node("n0")], vcs, PATIENT)
    cluster.run(gang("a-runs", gpus=3, vc="a"), gang("b-runs", gpus=3, vc="b"))
    for vc in ("a", "b"):
        wide = gang(f"{vc}-wide", gpus=4, vc=vc, at=1.0)
        cluster.submit(wide, gang(f"{vc}-small", gpus=1, vc=vc, at=2.0))
    assert [p.gang for p in cluster.tick().placements] == ["a-small"]


@st.composite
def mixes(draw: st.DrawFn) -> list[Gang]:
    sizes = st.sampled_from([1, 2, 4, 8])
    number = draw(st.integers(1, 8))
    return [
        gang(
            f"g{i}",
            draw(st.sampled_from(["a", "b"])),
            gpus=draw(sizes),
            priority=draw(st.sampled_from([-1, 0, 10])),
            at=float(i),
            duration_s=draw(st.sampled_from([None, 10.0, 100.0])),
            owner=draw(st.sampled_from(["ann", "bob"])),
        )
        for i in range(number)
    ]


@given(
    mix=mixes(),
    names=st.tuples(*[st.sampled_from(policies.names())] * 2),
    lives=st.lists(st.floats(1, 200), min_size=8, max_size=8),
)
def test_under_every_policy_each_gang_starts_at_last(mix, names, lives) -> None:
    """`Cluster.plan` validates the state before each plan."""
    vcs = choose(owns(a=8, b=8), a=names[0], b=names[1])
    cluster = Cluster([node("n0"), node("n1")], vcs, PATIENT)
    cluster.lifetimes = {one.id: life for one, life in zip(mix, lives, strict=False)}
    cluster.submit(*mix)
    cluster.tick()
    cluster.advance(5_000.0, step_s=50.0)
    assert all(history.ended_at is not None for history in cluster.history.values())
