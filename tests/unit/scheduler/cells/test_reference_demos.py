"""HiveD's feature demos (example/feature/README.md), with the configurations they come with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.cells import REFERENCE, healthy, reference

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, Refusal
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import reconfigure
from skep_scheduler.cells.request import GangRequest, gang
from skep_scheduler.replay.runner import load_config

DEMOS = "hived_feature_demos.json"


@dataclass
class Demo:
    """Jobs wait, one gang each, or one gang per task without gang scheduling; whoever is preempted
    waits again."""

    config: str
    waiting: list[GangRequest] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = healthy(load_config(reference("configs").parent, self.config))

    def play(self, step: dict[str, Any]) -> None:
        if step["op"] == "submit":
            self.submit(step)
        elif step["op"] == "restart_with_config":
            config = load_config(reference("configs").parent, step["config"])
            self.state, _ = reconfigure(self.state, config)
            for node in self.state.nodes:
                health.set_node(self.state, node, healthy=True)
        else:
            health.set_node(self.state, step["node"], step["op"] == "set_node_healthy")
        self.schedule()

    def submit(self, step: dict[str, Any]) -> None:
        for role in step["roles"].values():
            pods, size = role["pods"], role["leafCellNumber"]
            options = {"leaf_type": role["leafCellType"], "lazy": step["lazyPreemptionEnable"]}
            names = [step["job"]]
            if not step["gang"]:
                names = [f"{step['job']}-{i}" for i in range(pods)]
            for name in names:
                tasks = pods if step["gang"] else 1
                vc, priority = step["vc"], step["priority"]
                self.waiting.append(gang(name, vc, priority, (tasks, size), **options))

    def schedule(self) -> None:
        for waiting in list(self.waiting):
            answer = place(self.state, waiting)
            if isinstance(answer, CellPreemption):
                assert ledger.reserve(self.state, waiting, answer.placement)
                for victim in answer.victims:
                    self.waiting.append(self.state.groups[victim.gang].gang)
                    self.preempted.append(victim.gang)
                    ledger.release(self.state, victim.gang)
                answer = answer.placement
            if not isinstance(answer, Refusal):
                assert isinstance(answer, CellPlacement)
                ledger.start(self.state, waiting, answer)
                self.waiting.remove(waiting)
            validate(self.state)

    def running(self, job: str) -> int:
        names = [name for name in self.state.groups if name == job or name.startswith(f"{job}-")]
        return sum(len(self.state.groups[name].slots) for name in names)

    def nodes(self) -> set[str]:
        return {slot.node for group in self.state.groups.values() for slot in group.slots}

    def downgraded(self, job: str) -> bool:
        return self.state.groups[job].downgraded_by is not None


Check = Callable[[Demo], bool]

# What the README expects after each "expect" of a demo, in order.
EXPECTED: dict[str, list[Check]] = {
    "vc_safety": [
        lambda d: d.running("itc-safety-1") + d.running("itc-safety-2") == 4 and len(d.nodes()) == 1
    ],
    "sku_type_specified": [lambda d: d.running("itc-k80-type") == 4 and len(d.waiting) == 2],
    "gang": [
        lambda d: d.running("itc-gang") == 0 and len(d.waiting) == 1,
        lambda d: d.running("itc-gang4") == 4 and d.running("itc-gang") == 0,
    ],
    "incremental": [lambda d: d.running("itc-elastic") == 4 and len(d.nodes()) == 1],
    "intra_vc_immediate_preemption": [
        lambda d: d.running("itc-intra-imd-preempt-test") == 1,
        lambda d: (
            d.preempted == ["itc-intra-imd-preempt-test"]
            and d.running("itc-intra-imd-preempt-test") == 0
            and d.running("itc-intra-imd-preempt-prod") == 1
        ),
    ],
    "inter_vc_preemption": [
        lambda d: d.running("itc-inter-preempt-oppo") == 2,
        lambda d: (
            d.preempted == ["itc-inter-preempt-oppo"] and d.running("itc-inter-preempt-prod") == 3
        ),
    ],
    "reconfig_delete_physical_cell": [
        lambda d: d.running("itc-reconfig-1") == 1 and not d.state.groups["itc-reconfig-1"].pairs()
    ],
    "reconfig_add_node": [
        lambda d: d.running("itc-reconfig-1") == 1 and not d.downgraded("itc-reconfig-1"),
        lambda d: d.running("itc-reconfig-2") == 0 and d.preempted == [],
    ],
    "reconfig_delete_vc": [
        lambda d: d.running("itc-reconfig-3") == 2 and d.downgraded("itc-reconfig-3"),
        lambda d: d.preempted == ["itc-reconfig-3"] and d.running("itc-reconfig-4") == 4,
    ],
    "bad_hardware": [
        lambda d: d.running("itc-badnode50") == 0 and len(d.waiting) == 1,
        lambda d: d.running("itc-badnode50") == 1,
    ],
}


@pytest.mark.parametrize("demo", EXPECTED)
def test_feature_demo(demo: str) -> None:
    given = {entry["id"]: entry for entry in json.loads(reference(DEMOS).read_text())["demos"]}
    played = Demo(given[demo]["config"])
    checks = iter(EXPECTED[demo])
    for step in given[demo]["steps"]:
        if step["op"] == "expect":
            assert next(checks)(played), step["text"]
        else:
            played.play(step)
    assert next(checks, None) is None


def test_every_given_demo_is_played() -> None:
    if not (REFERENCE / DEMOS).exists():
        reference(DEMOS)
    given = json.loads(reference(DEMOS).read_text())["demos"]
    assert {entry["id"] for entry in given} == set(EXPECTED)
