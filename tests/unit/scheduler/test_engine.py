"""Who starts: the queue, the quotas, and what is left to opportunistic gangs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.snapshots import as_running, gang, layout, member, node, running, snapshot

from skep_scheduler import engine, packing, policies
from skep_scheduler.invariants import validate
from skep_scheduler.plan import Placement, Plan, Reason
from skep_scheduler.state import Gang, Snapshot


def plan_at(state: Snapshot, now: float = 0.0) -> Plan:
    plan = engine.plan(state, now)
    validate(state, plan, now)
    return plan


def started(state: Snapshot, now: float = 0.0) -> list[str]:
    return [placement.gang_id for placement in plan_at(state, now).placements]


def four(name: str, **queue: Any) -> Gang:
    """A gang of one task of four GPUs."""
    return gang(name, member(gpus=4), **queue)


A, B = node("a", 8), node("b", 8)
BIG = member(2, 8)

WHO_STARTS = {
    "higher priority first": (
        snapshot([node("a", 4)], [four("low", priority=1), four("high", priority=2)]), ["high"]),
    "then who submitted earlier": (
        snapshot([node("a", 4)], [four("late", at=2), four("early", at=1)]), ["early"]),
    "then the smaller id": (snapshot([node("a", 4)], [four("y"), four("x")]), ["x"]),
    "everybody, if there is room": (snapshot([A], [four("x"), four("y")]), ["x", "y"]),
    "a smaller gang may overtake one that does not fit": (
        snapshot([A], [gang("big", BIG, priority=9), four("small")]), ["small"]),
    "a gang that asks for a part of what was refused": (
        snapshot([A], [gang("both", member(gpus=6), member(gpus=4, role="r"), at=1),
                       gang("part", member(gpus=6), at=2)]), ["part"]),
    "nobody before the end of its backoff": (
        snapshot([A], [four("x", not_before=0.1)]), []),
    "a gang whose backoff ends now": (snapshot([A], [four("x", not_before=0.0)]), ["x"]),
    "nobody of a VC that does not exist": (
        snapshot([A], [four("x", vc="gone")], team=8), []),
    "only what the quota allows": (
        snapshot([A, B], [four("x"), four("y"), four("z")], team=8), ["x", "y"]),
    "the quota of another VC is its own": (
        snapshot([A], [four("x", vc="b"), four("y", vc="a")], a=4, b=4), ["x", "y"]),
    "what runs uses quota, on whatever node it runs": (
        snapshot([A], [four("x")], [running("r", node("lost", 8), 5)], team=8), []),
    "opportunistic tasks use none": (
        snapshot([A], [four("x")], [running("r", A, 4, priority=-1)], team=4), ["x"]),
    "a gang may use up exactly what is left of the quota": (
        snapshot([A], [four("x")], [running("r", A, 4)], team=8), ["x"]),
    "an opportunistic gang needs no quota": (
        snapshot([A], [four("x", priority=-1)], team={}), ["x"]),
    "an opportunistic gang comes after all guaranteed ones": (
        snapshot([A], [four("o", priority=-1, at=1), gang("g", member(gpus=8), at=2)]), ["g"]),
    "and takes what they leave idle, in the same tick": (
        snapshot([A], [four("o", priority=-1, at=1), four("g", at=2), four("p", priority=-1)]),
        ["g", "p"]),
    "tasks without GPUs need no quota": (
        snapshot([A], [gang("x", member(2, 0))], team={}), ["x"]),
    "a gang that asks two models needs the quota of both": (
        snapshot([node("a", {"A100": 4, "V100": 4})],
                 [gang("x", member(gpus=4), member(gpus=4, model="V100", role="old"))],
                 team={"A100": 4, "V100": 3}), []),
    "a quota cut below what runs stops further starts, and nothing else": (
        snapshot([A], [gang("x")], [running("r", A, 4)], team=2), []),
}  # fmt: skip


@pytest.mark.parametrize("case", WHO_STARTS)
def test_who_starts(case: str) -> None:
    state, expected = WHO_STARTS[case]
    assert started(state) == expected


ANY = member(4, 1, model=None)
V = {"V100": 8}

WHICH_MODEL = {
    "the model that needs the fewest nodes": (
        [node("a", 2), node("b", 2), node("v", V)], {"A100": 8, "V100": 8}, "V100"),
    "then the one that leaves the least": (
        [node("a", 5), node("v", V)], {"A100": 8, "V100": 8}, "A100"),
    "then the first by name": ([A, node("v", V)], {"A100": 8, "V100": 8}, "A100"),
    "only a model that the VC owns": ([A, node("v", V)], {"V100": 8}, "V100"),
    "only a model whose quota suffices": ([A, node("v", V)], {"A100": 3, "V100": 8}, "V100"),
    "never two models for one gang": (
        [node("a", 2), node("v", {"V100": 2})], {"A100": 8, "V100": 8}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", WHICH_MODEL)
def test_a_gang_that_names_no_model_gets(case: str) -> None:
    nodes, quota, expected = WHICH_MODEL[case]
    plan = plan_at(snapshot(nodes, [gang("x", ANY, member(role="cpu", gpus=0))], team=quota))
    models = {task.gpu_model for p in plan.placements for task in p.tasks if task.gpu_uuids}
    assert models == ({expected} if expected else set())


def test_an_opportunistic_gang_may_get_any_model_of_the_cluster() -> None:
    plan = plan_at(snapshot([node("v", V)], [gang("x", ANY, priority=-1)], team={}))
    assert layout(plan.placements[0]) == {"v": 4}


def test_no_policy_lets_opportunistic_gangs_go_first() -> None:
    class LastFirst:
        name = "last-first"

        def order(self, state: Snapshot, now: float) -> list[Gang]:
            return sorted(state.waiting, key=lambda g: g.priority)

    state = snapshot([node("a", 4)], [four("g"), four("o", priority=-1)])
    plan = engine.plan(state, 0.0, LastFirst())
    assert [p.gang_id for p in plan.placements] == ["g"]


def test_policies_are_found_by_name() -> None:
    assert policies.by_name("priority").name == "priority"
    with pytest.raises(policies.UnknownPolicyError, match="there are: priority"):
        policies.by_name("luck")


def test_a_second_tick_on_the_committed_plan_places_what_became_possible() -> None:
    job, rest = four("x"), four("y", at=1)
    first = plan_at(snapshot([A], [job, rest], team=4))
    busy = as_running(job, first.placements[0])
    assert started(snapshot([A], [rest], busy, team=4)) == []
    assert started(snapshot([A], [rest], [], team=4)) == ["y"]


def test_one_search_answers_for_all_gangs_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []
    pack = packing.pack
    monkeypatch.setattr(engine, "pack", lambda *args: searches.append(args) or pack(*args))
    queue = [gang(f"{vc}{i}", BIG, vc=vc, at=i) for i in range(500) for vc in ("a", "b")]
    plan = plan_at(snapshot([A], queue, a=64, b=64))
    assert len(plan.reasons) == 1000
    assert len(searches) == 1  # the second VC asks for the same, so the answer is known


def test_explain_answers_what_a_tick_would() -> None:
    waiting = [four("first", at=1)]
    state = snapshot([node("a", 4)], waiting, team=8)
    behind = engine.explain(state, four("x", at=2), now=0.0)
    assert isinstance(behind, Reason)
    assert (behind.code, behind.details["ahead"]) == ("no_capacity", 0)
    ahead = engine.explain(state, four("x", at=0), now=0.0)
    assert isinstance(ahead, Placement)
    assert layout(ahead) == {"a": 1}


def test_explain_takes_a_waiting_gang_as_it_is_given() -> None:
    state = snapshot([node("a", 4)], [gang("x", BIG)])
    assert isinstance(engine.explain(state, four("x"), now=0.0), Placement)
