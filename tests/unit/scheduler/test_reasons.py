"""What a gang left waiting is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.snapshots import gang, member, node, running, snapshot

from skep_scheduler import engine
from skep_scheduler.plan import Reason
from skep_scheduler.reasons.codes import Code
from skep_scheduler.state import Gang, Member, Snapshot


def reason_for(state: Snapshot, gang_id: str = "x", now: float = 0.0) -> Reason:
    return engine.plan(state, now).reasons[gang_id]


def x(*members: Member, **queue: Any) -> list[Gang]:
    """A queue of one gang."""
    return [gang("x", *members, **queue)]


A, B = node("a", 8), node("b", 8)
CLOSED = node("c", 8, open=False)

REASONS = {
    "backoff": (
        snapshot([A], x(not_before=1_700_000_000.0)),
        "backoff", "Waits before its retry, until 2023-11-14 22:13:20 UTC.",
        {"until": 1_700_000_000.0}),
    "unknown VC": (
        snapshot([A], x(vc="gone"), team=8),
        "unknown_vc", "There is no virtual cluster gone: submit it to another one.",
        {"vc": "gone"}),
    "unknown GPU model": (
        snapshot([A], x(member(gpus=2, model="H100"))),
        "no_gpu_model", "No node has a healthy H100; the cluster has A100.",
        {"gpu_model": "H100", "needs": 2, "cluster": {"A100": 8}}),
    "a cluster without GPUs": (
        snapshot([node("a")], x()),
        "no_gpu_model", "No node has a healthy A100; the cluster has no GPUs at all.",
        {"cluster": {}}),
    "no model to choose from": (
        snapshot([node("a")], x(member(gpus=2, model=None), priority=-1)),
        "no_gpu_model", "No node has a healthy GPU.", {"needs": 2}),
    "more than the VC owns": (
        snapshot([A, B], x(member(2, 8)), team=8),
        "never_fits_quota",
        "Needs 16 A100, but team owns 8: ask for fewer, have the quota raised, or submit it as "
        "opportunistic.", {"vc": "team", "gpu_model": "A100", "needs": 16, "owns": 8}),
    "a model that the VC does not own": (
        snapshot([A], x(), team={"V100": 4}),
        "never_fits_quota",
        "Needs 1 A100, but team owns none: ask for fewer, have the quota raised, or submit it as "
        "opportunistic.", {"owns": 0}),
    "a VC that owns nothing": (
        snapshot([A], x(member(2, 2, model=None)), team={}),
        "never_fits_quota",
        "Needs 4 GPUs, but team owns none: have the quota raised, or submit it as opportunistic.",
        {"needs": 4, "owns": 0}),
    "a task with more GPUs than a node": (
        snapshot([node("a", 4), node("b", 2)], x(member(gpus=8, cpus=4, gib=16))),
        "never_fits_node",
        "Each task needs 8 A100, 4 CPUs and 16 GiB; the largest node has 4 A100.",
        {"tasks": 1, "task": {"gpus": 8, "cpu_millis": 4000, "memory_mb": 16384},
         "largest_node": {"gpus": 4, "cpu_millis": 64000, "memory_mb": 262144}}),
    "a task with more CPUs than a node": (
        snapshot([node("a", 4, cpus=64), node("b", 8, cpus=32)], x(member(gpus=8, cpus=48))),
        "never_fits_node",
        "Each task needs 8 A100, 48 CPUs and 1 GiB; the largest node with 8 A100 has 32 CPUs.",
        {"largest_node": {"gpus": 8, "cpu_millis": 32000, "memory_mb": 262144}}),
    "a task with more memory than a node": (
        snapshot([node("a", gib=1.5), node("b", cpus=1)], x(member(gpus=0, cpus=2, gib=4))),
        "never_fits_node",
        "Each task needs 2 CPUs and 4 GiB; the largest node with 2 CPUs has 1536 MiB.",
        {"gpu_model": None}),
    "more GPUs than the cluster": (
        snapshot([A, CLOSED], x(member(3, 8))),
        "never_fits_cluster", "Needs 24 A100, but the whole cluster has 16.",
        {"needs": 24, "total": 16}),
    "more tasks than an idle cluster has room for": (
        snapshot([node("a", 6), node("b", 6)], x(member(3, 4))),
        "never_fits_cluster",
        "Needs 3 tasks of 4 A100, 1 CPU and 1 GiB; the whole cluster, were it idle, has room "
        "for 2.", {"tasks": 3, "room_for_tasks": 2, "total": 12}),
    "a cluster without nodes": (
        snapshot([], x(member(gpus=0))), "no_nodes", "The cluster has no nodes.",
        {"closed_nodes": 0}),
    "only closed nodes": (
        snapshot([CLOSED], x(member(gpus=0))), "no_nodes",
        "No node is open: 1 node is offline or cordoned.", {"closed_nodes": 1}),
    "only closed nodes with the model": (
        snapshot([CLOSED, node("d", 8, open=False), node("e")], x()), "no_nodes",
        "No node is open: 2 nodes with A100 are offline or cordoned.",
        {"gpu_model": "A100", "closed_nodes": 2}),
    "a quota in use": (
        snapshot([A, B], x(member(gpus=4)),
                 [running("train", A, 5), running("eval", B, 2)], team=8),
        "quota_exceeded", "Needs 4 A100; team owns 8 and uses 7 (train 5 and eval 2).",
        {"needs": 4, "owns": 8, "used": 7, "missing": 3, "used_by_others": 0, "used_by": [
            {"gang_id": "train", "name": "train", "gpus": 5},
            {"gang_id": "eval", "name": "eval", "gpus": 2}]}),
    "a quota in use by many": (
        snapshot([A, B], x(member(gpus=4)),
                 [running(f"j{i}", A, A.gpus["A100"][i:i + 1]) for i in range(5)], team=8),
        "quota_exceeded", "Needs 4 A100; team owns 8 and uses 5 (j0 1, j1 1, j2 1 and 2 others).",
        {"used_by_others": 2}),
    "too few free GPUs": (
        snapshot([A, B], x(member(gpus=8)),
                 [running("r", A, 7, vc="o"), running("s", B, 5, vc="o")], team=8, o=12),
        "no_capacity", "Needs 8 A100; 4 are free (3+1 on 2 nodes).",
        {"needs": 8, "free": 4, "free_on_nodes": 2, "pieces": [[3, 1], [1, 1]], "total": 16,
         "closed": 0, "opportunistic": 0}),
    "no free GPU, but some that may come back": (
        snapshot([A, CLOSED], x(), [running("r", A, 8, vc="o", priority=-1)], team=8, o=0),
        "no_capacity",
        "Needs 1 A100; none is free; on offline or cordoned nodes: 8; lent to opportunistic "
        "jobs: 8.", {"free": 0, "closed": 8, "opportunistic": 8}),
    "enough free GPUs in too small pieces": (
        snapshot([node("a", 8), node("b", 8), node("c", 8)], x(member(gpus=8)),
                 [running("r", A, 6, vc="o"), running("s", B, 6, vc="o"),
                  running("t", node("c", 8), 4, vc="o")], team=8, o=16),
        "no_capacity",
        "Needs 1 task of 8 A100; the 8 free GPUs lie 4+2+2 on 3 nodes: room for 0.",
        {"free": 8, "pieces": [[4, 1], [2, 2]], "tasks": 1, "room_for_tasks": 0}),
    "pieces on many nodes are counted": (
        snapshot([node(f"n{i}", 2) for i in range(20)], x(member(2, 2)),
                 [running(f"r{i}", node(f"n{i}", 2), 1, vc="o") for i in range(19)],
                 team=8, o=99),
        "no_capacity",
        "Needs 2 tasks of 2 A100; the 21 free GPUs lie 1 x 2, 19 x 1 on 20 nodes: room for 1.",
        {"pieces": [[2, 1], [1, 19]]}),
    "free GPUs without CPU beside them": (
        snapshot([node("a", 8, cpus=16)], x(member(2, 2, cpus=6)),
                 [running("r", node("a", 8), 1, cpus=9)]),
        "cpu_shortage",
        "Needs 2 tasks of 2 A100, 6 CPUs and 1 GiB; enough A100 are free, but there is CPU for "
        "only 1.",
        {"tasks": 2, "room_for_tasks": 1, "free": 7,
         "largest_free": {"gpus": 7, "cpu_millis": 7000, "memory_mb": 261120}}),
    "free GPUs without memory beside them": (
        snapshot([node("a", 8, gib=64)], x(member(1, 2, gib=32)),
                 [running("r", node("a", 8), 1, gib=60)]),
        "memory_shortage",
        "Needs 1 task of 2 A100, 1 CPU and 32 GiB; enough A100 are free, but there is memory for "
        "none.", {"room_for_tasks": 0}),
    "no CPU for tasks without GPUs": (
        snapshot([node("a", cpus=4)], x(member(2, 0, cpus=2)), [running("r", node("a"), 0)]),
        "cpu_shortage", "Needs 2 tasks of 2 CPUs and 1 GiB, but there is CPU for only 1.",
        {"gpu_model": None, "largest_free": {"gpus": 0, "cpu_millis": 3000, "memory_mb": 261120}}),
    "each kind of task fits, but not all together": (
        snapshot([node("a", 8), node("b", 8)],
                 x(member(2, 6, role="big"), member(1, 4, role="small"))),
        "no_capacity",
        "Needs 2 tasks of 6 A100, 1 CPU and 1 GiB plus 1 task of 4 A100, 1 CPU and 1 GiB: each "
        "would find room, but not all at once.", {"needs": 16, "free": 16}),
    "any model will do, and none does": (
        snapshot([A, node("v", {"V100": 4})], x(member(gpus=4, model=None)),
                 [running("r", A, 8)], team={"A100": 8, "V100": 2}),
        "quota_exceeded",
        "Any one GPU model will do. A100: Needs 4 A100; team owns 8 and uses 8 (r 8). V100: Needs "
        "4 V100, but team owns 2: ask for fewer, have the quota raised, or submit it as "
        "opportunistic.", {"owns": 8}),
}  # fmt: skip


@pytest.mark.parametrize("case", REASONS)
def test_a_reason_has_a_code_a_sentence_and_numbers(case: str) -> None:
    state, code, message, details = REASONS[case]
    reason = reason_for(state)
    assert (reason.code, reason.message) == (code, message)
    assert {key: reason.details[key] for key in details} == details
    assert reason.details["ahead"] == 0
    json.dumps(reason.details)


def test_every_code_has_a_case() -> None:
    assert {code for _, code, _, _ in REASONS.values()} == set(Code)


def test_ahead_counts_the_gangs_of_the_same_vc_that_wait_before() -> None:
    big = member(gpus=8)
    waiting = [gang(f"g{i}", big, at=i) for i in range(3)]
    waiting += [gang("other", big, vc="o"), gang("backoff", at=0.5, not_before=9)]
    waiting += [gang("fits", at=1.5), gang("oppo", big, priority=-1, at=-1)]
    plan = engine.plan(snapshot([node("a", 8)], waiting, [running("r", A, 7)], team=99, o=8), 0.0)
    ahead = {gang_id: reason.details["ahead"] for gang_id, reason in plan.reasons.items()}
    assert ahead == {"g0": 0, "backoff": 1, "g1": 2, "g2": 3, "oppo": 4, "other": 0}


def test_reasons_count_what_this_tick_placed() -> None:
    waiting = [gang("x", member(gpus=6), at=1), gang("first", member(gpus=4), at=0)]
    reason = reason_for(snapshot([A, B], waiting, team=8))
    assert reason.message == "Needs 6 A100; team owns 8 and uses 4 (first 4)."


def test_jobs_of_one_name_and_size_are_named_in_order_of_their_ids() -> None:
    busy = [
        replace(running(gang_id, A, A.gpus["A100"][i : i + 1]), gang_name="train")
        for i, gang_id in enumerate(["2", "4", "1", "3"])
    ]
    details = reason_for(snapshot([A], x(member(gpus=8)), busy, team=8)).details
    assert [holder["gang_id"] for holder in details["used_by"]] == ["1", "2", "3"]


def test_opportunistic_gangs_hear_nothing_of_quota_or_of_what_is_lent() -> None:
    state = snapshot([A], x(member(gpus=8), priority=-1), [running("r", A, 8, priority=-1)], team=0)
    assert reason_for(state).message == "Needs 8 A100; none is free."
