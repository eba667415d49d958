"""HiveD's feature demos (example/feature/README.md) on a whole Skep: nodes of the demo's names
join, its configuration is imported, its jobs are submitted, all over REST."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML
from tests.support.cells import REFERENCE, reference
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack, stack
from tests.support.stack_jobs import ENDED, job, submit, tasks, until

pytestmark = [pytest.mark.stack, pytest.mark.long]

DEMOS = "hived_feature_demos.json"
JOBS = REFERENCE.parent / "openpai"
CLASSES = {-1: "oppo", 10: "test", 100: "prod"}
# Gangs of more GPUs than their virtual cluster owns. They wait for ever in HiveD, as the unit tests
# of these demos have it; here submitting them is refused, with the numbers.
NEVER_START = {("gang", "itc-gang")}
SHARE = {"cpu": 4, "memoryMB": 8192}  # of one GPU, as the demos' skuTypes say
FOREVER = ["mock run_for=forever"]


@pytest.fixture(scope="module")
def skep() -> Iterator[Stack]:
    """Victims need not have run for a while first."""
    at_once = {"SKEP_SCHEDULING_MIN_RUN_S": "0", "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "0"}
    with stack("--no-agents", SKEP_HEARTBEAT_S="1", **at_once) as started:
        yield started


@dataclass
class Demo:
    """What a demo does, and what an observer sees of it. Jobs are identified by name."""

    name: str
    api: httpx.Client
    nodes: LiveNodes
    ids: dict[str, str] = field(default_factory=dict)
    was: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # tasks seen earlier

    def play(self, step: Mapping[str, Any]) -> None:
        if step["op"] == "submit" and (self.name, step["job"]) in NEVER_START:
            answer = self.api.post("/jobs", json=self.named(job_file(step)))
            assert (answer.status_code, answer.json()["code"]) == (400, "exceeds_quota")
        elif step["op"] == "submit":
            self.ids[step["job"]] = submit(self.api, self.named(job_file(step)))
        elif step["op"] == "restart_with_config":
            self.configure(step["config"])
        elif step["op"] == "set_node_bad":
            self.nodes.break_gpus(step["node"], *self.nodes.gpus(step["node"]))
        else:
            self.nodes.break_gpus(step["node"])

    def named(self, file: dict[str, Any]) -> dict[str, Any]:
        """Two demos have a job of the same name; here a name is used once."""
        return {**file, "name": f"{file['name']}-{self.name}"}

    def configure(self, name: str) -> None:
        answer = self.api.put(
            "/cells/hived",
            params={"assign": 1},
            content=config_path(name).read_bytes(),
            headers={"Content-Type": "text/yaml"},
        )
        assert answer.status_code == 200, answer.text

    def job(self, name: str) -> dict[str, Any]:
        return job(self.api, self.ids[name])

    def runs(self, name: str, count: int) -> list[dict[str, Any]]:
        """Wait until so many tasks run; they are kept, to be compared with later."""

        def look() -> list[dict[str, Any]] | None:
            now = self.job(name)
            assert now["state"] not in ENDED, now
            running = [t for t in tasks(self.api, self.ids[name]) if t["state"] == "RUNNING"]
            return running if len(running) == count else None

        self.was[name] = until(look)
        return self.was[name]

    def waits(self, name: str) -> dict[str, Any]:
        """Wait until it was considered and has a reason for waiting."""

        def look() -> dict[str, Any] | None:
            now = self.job(name)
            assert now["state"] == "WAITING", now
            return now if (now["wait_reason"] or {}).get("details") else None

        found = until(look)
        assert not any(t["state"] == "RUNNING" for t in tasks(self.api, self.ids[name]))
        return found

    def has_none_of(self, name: str) -> None:
        named = {"q": f"{name}-{self.name}"}
        found = self.api.get("/jobs", params=named).raise_for_status().json()["results"]
        assert [one["name"] for one in found if one["name"] == named["q"]] == []

    def was_preempted(self, name: str) -> None:
        """Its owner was notified, its place in the queue kept, its retries are all left."""
        now = until(lambda: (now := self.job(name))["state"] == "WAITING" and now)
        assert (now["preemptions"], now["retries_used"]) == (1, 0)
        events = self.api.get(f"/jobs/{self.ids[name]}/events").json()["results"]
        messages = [event["message"] for event in events if event["kind"] == "job.preempted"]
        assert len(messages) == 1

    def is_undisturbed(self, name: str) -> dict[str, Any]:
        """It runs where it ran."""
        before, now = self.was[name], self.job(name)
        assert (now["state"], now["attempt"], now["preemptions"]) == ("RUNNING", 1, 0)
        assert places(tasks(self.api, self.ids[name])) == places(before)
        return now

    def owned(self, vc: str) -> dict[str, dict[str, Any]]:
        """Top cell types of the VC by chain."""
        chains = self.api.get(f"/virtual-clusters/{vc}/cells").raise_for_status().json()["chains"]
        return {chain["chain"]: chain for chain in chains}

    def stop_all(self) -> None:
        for known in self.ids.values():
            self.api.post(f"/jobs/{known}/stop")
        for known in self.ids.values():
            until(lambda known=known: job(self.api, known)["state"] in ENDED)


def places(found: list[dict[str, Any]]) -> set[tuple[str, tuple[str, ...]]]:
    return {(t["attempt"]["node"], tuple(t["attempt"]["gpu_uuids"])) for t in found}


def nodes_of(found: list[dict[str, Any]]) -> set[str]:
    return {task["attempt"]["node"] for task in found}


def gpus_of(found: list[dict[str, Any]]) -> set[str]:
    return {uuid for task in found for uuid in task["attempt"]["gpu_uuids"]}


def job_file(step: Mapping[str, Any]) -> dict[str, Any]:
    """The file of the demo where it was recorded, else one that says the same; it runs for ever."""
    path = JOBS / step["file"]
    found = YAML(typ="safe", pure=True).load(path) if path.exists() else _like(step)
    assert found["defaults"]["virtualCluster"] == step["vc"]
    for name, role in found["taskRoles"].items():
        assert role["instances"] == step["roles"][name]["pods"]
        role["commands"] = FOREVER
    return found


def _like(step: Mapping[str, Any]) -> dict[str, Any]:
    image = {"type": "dockerimage", "name": "image", "uri": "unused"}
    roles = step["roles"]
    return {
        "protocolVersion": 2,
        "name": step["job"],
        "type": "job",
        "prerequisites": [image],
        "taskRoles": {
            name: {
                "instances": role["pods"],
                "dockerImage": "image",
                "resourcePerInstance": {
                    "gpu": role["leafCellNumber"],
                    **{key: value * role["leafCellNumber"] for key, value in SHARE.items()},
                },
            }
            for name, role in roles.items()
        },
        "defaults": {"virtualCluster": step["vc"]},
        "extras": {
            "gangAllocation": step["gang"],
            "hivedScheduler": {
                "jobPriorityClass": CLASSES[step["priority"]],
                "lazyPreemptionEnable": step["lazyPreemptionEnable"],
                "taskRoles": {
                    name: {"skuType": role["leafCellType"]} for name, role in roles.items()
                },
            },
        },
    }


def config_path(name: str) -> Path:
    return reference("configs") / Path(name).name


def hardware(steps: list[dict[str, Any]], first: str) -> dict[str, str]:
    """The GPU model of every node that any configuration of the demo names, four GPUs each."""
    names = [first, *(step["config"] for step in steps if "config" in step)]
    found: dict[str, str] = {}
    for name in names:
        cells = YAML(typ="safe", pure=True).load(config_path(name))["physicalCluster"]
        for top in cells["physicalCells"]:
            model = next(sku for sku in cells["skuTypes"] if sku in top["cellType"])
            for node in top["cellChildren"]:
                assert found.setdefault(node["cellAddress"], model) == model
    return found


def _both_on_one_node(demo: Demo) -> None:
    assert len(nodes_of(demo.runs("itc-safety-1", 2) + demo.runs("itc-safety-2", 2))) == 1


def _four_of_six(demo: Demo, name: str) -> None:
    """All on one node: the VC owns no more. The other two wait, and say why."""
    assert len(nodes_of(demo.runs(name, 4))) == 1
    now = until(lambda: (now := demo.job(name))["unplaced"] == 2 and now["wait_reason"] and now)
    assert (now["state"], now["incremental"]) == ("RUNNING", True)


def _prod_runs_where_test_ran(demo: Demo) -> None:
    taken = gpus_of(demo.was["itc-intra-imd-preempt-test"])
    assert gpus_of(demo.runs("itc-intra-imd-preempt-prod", 1)) == taken
    demo.was_preempted("itc-intra-imd-preempt-test")
    demo.waits("itc-intra-imd-preempt-test")


def _prod_runs_instead_of_oppo(demo: Demo) -> None:
    demo.runs("itc-inter-preempt-prod", 3)
    demo.was_preempted("itc-inter-preempt-oppo")


def _runs_on_cells_that_are_not_owned(demo: Demo) -> None:
    demo.is_undisturbed("itc-reconfig-1")
    assert "M60-NODE-POOL" not in demo.owned("vc1")


def _is_accounted(demo: Demo) -> None:
    now = demo.is_undisturbed("itc-reconfig-1")
    assert now["downgraded"] is None
    types = {entry["type"]: entry for entry in demo.owned("vc1")["M60-NODE-POOL"]["types"]}
    assert (types["M60-NODE"]["owned"], types["M60-NODE"]["used"]) == (2, 1)


def _waits_without_preempting(demo: Demo) -> None:
    demo.waits("itc-reconfig-2")
    demo.is_undisturbed("itc-reconfig-1")


def _is_downgraded(demo: Demo) -> None:
    until(lambda: demo.job("itc-reconfig-3")["downgraded"])
    demo.is_undisturbed("itc-reconfig-3")


def _takes_the_place_of_the_downgraded(demo: Demo) -> None:
    demo.runs("itc-reconfig-4", 4)
    demo.was_preempted("itc-reconfig-3")


def _starts_without_a_retry(demo: Demo) -> None:
    demo.runs("itc-badnode50", 1)
    now = demo.job("itc-badnode50")
    assert (now["attempt"], now["retries_used"], now["preemptions"]) == (1, 0, 0)


Check = Callable[[Demo], object]

# What the README expects after each "expect" of a demo, in order. A check before a
# reconfiguration is ours: what it is to be compared with.
EXPECTED: dict[str, list[Check]] = {
    "vc_safety": [_both_on_one_node],
    "sku_type_specified": [lambda demo: _four_of_six(demo, "itc-k80-type")],
    "gang": [
        lambda demo: demo.has_none_of("itc-gang"),
        lambda demo: (demo.runs("itc-gang4", 4), demo.has_none_of("itc-gang")),
    ],
    "incremental": [lambda demo: _four_of_six(demo, "itc-elastic")],
    "intra_vc_immediate_preemption": [
        lambda demo: demo.runs("itc-intra-imd-preempt-test", 1),
        _prod_runs_where_test_ran,
    ],
    "inter_vc_preemption": [
        lambda demo: demo.runs("itc-inter-preempt-oppo", 2),
        _prod_runs_instead_of_oppo,
    ],
    "reconfig_delete_physical_cell": [_runs_on_cells_that_are_not_owned],
    "reconfig_add_node": [_is_accounted, _waits_without_preempting],
    "reconfig_delete_vc": [_is_downgraded, _takes_the_place_of_the_downgraded],
    "bad_hardware": [lambda demo: demo.waits("itc-badnode50"), _starts_without_a_retry],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_feature_demo_runs_live(name: str, skep: Stack, tmp_path: Path) -> None:
    given = {entry["id"]: entry for entry in json.loads(reference(DEMOS).read_text())["demos"]}
    steps, first = given[name]["steps"], given[name]["config"]
    with LiveNodes(skep, tmp_path) as nodes, skep.api() as api:
        for node, model in hardware(steps, first).items():
            nodes.add(node, model, gpus=4)
        demo = Demo(name, api, nodes)
        demo.configure(first)
        try:
            play(demo, steps, EXPECTED[name])
        finally:
            demo.stop_all()


def play(demo: Demo, steps: list[dict[str, Any]], expected: list[Check]) -> None:
    checks = iter(expected)
    for step in steps:
        if step["op"] == "restart_with_config":
            for known in demo.ids:
                demo.runs(known, demo.job(known)["tasks"])
        if step["op"] == "expect":
            next(checks)(demo)
        else:
            demo.play(step)
    assert next(checks, None) is None
