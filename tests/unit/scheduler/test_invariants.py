"""Every kind of bad plan is caught, with its story."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.snapshots import gang, member, node, running, snapshot

from skep_scheduler import engine
from skep_scheduler.invariants import InvariantError, validate
from skep_scheduler.plan import Placement, Plan, Reason, TaskPlacement
from skep_scheduler.state import Gang, Snapshot

A, B = node("a", {"A100": 4, "V100": 2}, cpus=8, gib=8), node("b", 4, open=False)
JOB = gang("x", member(2, 1, cpus=2, gib=2))


def seat(*tasks: TaskPlacement, of: Gang = JOB) -> Plan:
    return Plan((Placement(of.id, tasks),), {})


def task(index: int, *uuids: str, on: str = "a", model: str | None = "A100") -> TaskPlacement:
    return TaskPlacement("worker", index, on, uuids, model)


G0, G1, G2, V0 = "a-A100-00", "a-A100-01", "a-A100-02", "a-V100-00"
GOOD = (task(0, G0), task(1, G1))
STATE = snapshot([A, B], [JOB], team={"A100": 4, "V100": 2})
OPEN = gang("x", member(2, 1, model=None))
CPU_ONLY = gang("x", member(1, 0))

VIOLATIONS = {
    "a gang without an answer": (STATE, Plan((), {}), "Gang x (x) has 0 answers"),
    "a gang with a placement and a reason": (
        STATE, replace(seat(*GOOD), reasons={"x": Reason("c", "m")}), "Gang x (x) has 2 answers"),
    "a gang placed twice": (
        STATE, Plan(seat(*GOOD).placements * 2, {}), "Gang x (x) has 2 answers"),
    "an answer for nobody": (
        STATE, replace(seat(*GOOD), reasons={"y": Reason("c", "m")}), "Gang y has an answer"),
    "a missing task": (STATE, seat(task(0, G0)), "task worker-1 is placed 0 times instead of 1"),
    "a task placed twice": (
        STATE, seat(*GOOD, task(1, G2)), "task worker-1 is placed 2 times instead of 1"),
    "a task of no role": (
        STATE, seat(*GOOD, TaskPlacement("ghost", 0, "a", (), None)), "task ghost-0 is placed 1"),
    "too few GPUs": (
        STATE, seat(task(0, G0), task(1)), "Task worker-1 of gang x (x) needs 1 GPUs and got 0"),
    "a GPU given twice": (
        STATE, seat(task(0, G0), task(1, G0)), f"{G0} is already held by gang x"),
    "a GPU in use": (
        replace(STATE, running=(running("r", A, [G0]),)), seat(*GOOD),
        f"{G0} is already held by running gang r"),
    "a GPU that is not there, or not healthy": (
        STATE, seat(task(0, G0), task(1, "a-A100-99")), "a-A100-99 is no healthy A100 of node a"),
    "a GPU of another node": (
        STATE, seat(task(0, G0), task(1, "b-A100-00")), "b-A100-00 is no healthy A100 of node a"),
    "another model than asked for": (
        STATE, seat(task(0, G0), task(1, V0, model="V100")), "needs A100 and got V100"),
    "a model that is not the GPU's": (
        STATE, seat(task(0, G0), task(1, V0)), f"{V0} is no healthy A100 of node a"),
    "two models where any one would do": (
        replace(STATE, waiting=(OPEN,)), seat(task(0, G0), task(1, V0, model="V100")),
        "needs any one GPU model and got ['A100', 'V100']"),
    "a model without GPUs": (
        replace(STATE, waiting=(CPU_ONLY,)), seat(task(0)), "needs no GPU and got model A100"),
    "a closed node": (
        STATE, seat(task(0, G0), task(1, "b-A100-00", on="b")), "node b, which is not open"),
    "an unknown node": (
        STATE, seat(task(0, G0), task(1, G1, on="z")), "node z, which is not open"),
    "too much CPU": (
        replace(STATE, running=(running("r", A, 0, cpus=5),)), seat(*GOOD),
        "Node a has 8000 millicores, 5000 are used and 4000 more given"),
    "too much memory": (
        replace(STATE, running=(running("r", A, 0, gib=5),)), seat(*GOOD),
        "Node a has 8192 MiB, 5120 are used and 4096 more given"),
    "too much of a quota": (
        snapshot([A], [JOB], [running("r", A, ["a-A100-03"])], team=2), seat(*GOOD),
        "VC team owns 2 A100, uses 1 and was given 2 more"),
    "a VC that does not exist": (
        snapshot([A], [JOB], other=4), seat(*GOOD), "VC team, which does not exist"),
    "a start before the end of a backoff": (
        replace(STATE, waiting=(replace(JOB, not_before=1.5),)), seat(*GOOD),
        "is placed at 1.0, but not before 1.5"),
}  # fmt: skip


@pytest.mark.parametrize("case", VIOLATIONS)
def test_validate_tells_of(case: str) -> None:
    state, plan, story = VIOLATIONS[case]
    with pytest.raises(InvariantError) as caught:
        validate(state, plan, now=1.0)
    assert any(story in told for told in caught.value.stories), caught.value.stories


def test_validate_tells_all_stories_at_once() -> None:
    plan = seat(task(0, G0), task(0, G0))
    with pytest.raises(InvariantError) as caught:
        validate(STATE, plan)
    assert len(caught.value.stories) == 3


GOOD_PLANS = {
    "what fits": (STATE, seat(*GOOD)),
    "opportunistic gangs beyond the quota": (
        snapshot([A], [replace(JOB, priority=-1)], team={}), seat(*GOOD)),
    "opportunistic tasks beside a quota used up": (
        snapshot([A], [JOB], [running("r", A, ["a-A100-03"], priority=-1)], team=2), seat(*GOOD)),
    "tasks without GPUs in a VC over its quota": (
        snapshot([A], [CPU_ONLY], [running("r", A, 4)], team=1), seat(task(0, model=None))),
    "tasks that need no memory on a node that has none left": (
        snapshot([A], [gang("x", member(1, 1, gib=0))], [running("r", A, 0, gib=9)], team=8),
        seat(task(0, G0))),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD_PLANS)
def test_validate_accepts(case: str) -> None:
    validate(*GOOD_PLANS[case], now=0.0)


def test_a_plan_of_the_engine_is_valid() -> None:
    state: Snapshot = replace(STATE, waiting=(JOB, gang("y", member(9))))
    validate(state, engine.plan(state, 0.0), 0.0)
