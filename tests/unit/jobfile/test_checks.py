"""Each check of a job file: the code, the place, and what to write instead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.openpai import job

from skep_jobfile import InvalidJobFile, Problem, compile_job, read_facts, schema

FACTS = """
skuTypes:
  V100: {gpu: 1, cpu: 8, memoryMB: 16384}
  CPU: {gpu: 0, cpu: 4, memoryMB: 8192}
virtualClusters:
  default: {V100: 4, CPU: 2}
  plain: {CPU: 2}
"""


def hived(worker: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"hivedScheduler": {"taskRoles": {"worker": worker}, **more}}


def refused(data: Any, facts: str = "") -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobFile) as error:
        compile_job(json.dumps(data), cluster=read_facts(facts) if facts else None)
    return [(problem.code, problem.path) for problem in error.value.problems]


def reported(text: str) -> list[Problem]:
    """The problems; none for a good file."""
    try:
        compile_job(text)
    except InvalidJobFile as error:
        return error.problems
    return []


ROLE = "taskRoles.worker"
CASES = [
    ("unknown_field", f"{ROLE}.comands", job(role={"comands": ["x"]})),
    ("missing_field", "name", {k: v for k, v in job().items() if k != "name"}),
    ("invalid_value", "name", job(name="a.b")),
    ("invalid_value", f"{ROLE}.resourcePerInstance.gpu", job(asks={"gpu": -1})),
    ("invalid_value", f"{ROLE}.resourcePerInstance.cpu", job(asks={"cpu": 1.5})),
    ("invalid_value", f"{ROLE}.resourcePerInstance.cpu", job(asks={"cpu": True})),
    ("invalid_value", f"{ROLE}.resourcePerInstance.gpu", job(asks={"gpu": "1"})),
    ("invalid_value", f"{ROLE}.instances", job(role={"instances": 0})),
    ("invalid_value", f"{ROLE}.data", job(role={"data": None})),
    ("invalid_value", f"{ROLE}.commands", job(role={"commands": []})),
    ("invalid_value", "jobRetryCount", job(jobRetryCount=-1)),
    ("invalid_value", "deployments", job(deployments=[])),
    ("invalid_value", "extras.hivedScheduler.jobPriorityClass",
     job(extras=hived({}, jobPriorityClass="crit"))),
    ("invalid_value", "extras.gangAllocation", job(extras={"gangAllocation": "no"})),
    ("unknown_field", "extras.skep.durration", job(extras={"skep": {"durration": "2h"}})),
    ("unknown_prerequisite", f"{ROLE}.data", job(role={"data": "image"})),
    ("unknown_prerequisite", f"{ROLE}.prerequisites[1]",
     job(role={"prerequisites": ["image", "nope"]})),
    ("unknown_docker_image", f"{ROLE}.dockerImage", job(role={"dockerImage": "imag"})),
    ("unknown_deployment", "defaults.deployment", job(defaults={"deployment": "prod"})),
    ("duplicate_deployment", "deployments[1].name",
     job(deployments=[{"name": "d", "taskRoles": {"worker": {}}}] * 2)),
    ("unknown_task_role", "extras.hivedScheduler.taskRoles.wroker",
     job(extras={"hivedScheduler": {"taskRoles": {"wroker": {}}}})),
    ("sku_and_pinned_cell", "extras.hivedScheduler.taskRoles.worker.pinnedCellId",
     job(extras=hived({"skuType": "A", "pinnedCellId": "p"}))),
    ("invalid_template", f"{ROLE}.commands", job(role={"commands": ["<% $parameters.x"]})),
]  # fmt: skip


@pytest.mark.parametrize(("code", "path", "data"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES])
def test_it_is_shown_what_is_wrong_and_where(code: str, path: str, data: Any) -> None:
    assert (code, path) in refused(data)


def test_everything_is_reported_at_once_with_its_place_and_the_nearest_name() -> None:
    text = (
        "protocolVersion: 2\nname: a b\ntype: job\ntaskRoles:\n  worker:\n    dockerImage: img\n"
        "    comands: [x]\n    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: -1}\n"
    )
    with pytest.raises(InvalidJobFile) as error:
        compile_job(text)
    found = [(p.code, p.line, p.column) for p in error.value.problems]
    assert found == [
        ("invalid_value", 2, 7),
        ("missing_field", 5, 3),
        ("unknown_docker_image", 6, 18),
        ("unknown_field", 7, 5),
        ("invalid_value", 8, 53),
    ]
    assert "Did you mean commands?" in error.value.problems[3].message


@pytest.mark.parametrize(
    ("code", "path", "data"),
    [
        ("unknown_sku_type", "extras.hivedScheduler.taskRoles.worker.skuType",
         job(extras=hived({"skuType": "V10"}))),
        ("sku_not_in_virtual_cluster", "extras.hivedScheduler.taskRoles.worker.skuType",
         job(extras=hived({"skuType": "V100"}), defaults={"virtualCluster": "plain"})),
        ("unknown_virtual_cluster", "defaults.virtualCluster",
         job(defaults={"virtualCluster": "defualt"})),
        ("no_such_resource", f"{ROLE}.resourcePerInstance.gpu",
         job(defaults={"virtualCluster": "plain"})),
        ("over_quota", "taskRoles", job(asks={"gpu": 7})),
    ],
)  # fmt: skip
def test_what_this_cluster_has_not_is_reported(code: str, path: str, data: Any) -> None:
    assert refused(data, FACTS) == [(code, path)]


def test_an_opportunistic_job_takes_what_its_virtual_cluster_has_not() -> None:
    demand = hived({"skuType": "V100"}, jobPriorityClass="oppo")
    data = job(asks={"gpu": 7}, extras=demand, defaults={"virtualCluster": "plain"})
    spec = compile_job(json.dumps(data), cluster=read_facts(FACTS))["hived"]["podSpecs"]["worker"]
    assert (spec["priority"], spec["leafCellNumber"]) == (-1, 7)


def test_roles_of_one_affinity_group_are_its_members_and_others_have_none() -> None:
    data = job(asks={"gpu": 2})
    worker = data["taskRoles"]["worker"]
    data["taskRoles"] = {"a": worker, "b": {**worker, "instances": 3}, "c": worker}
    places = {name: {"affinityGroupName": "g"} for name in ("b", "a")}
    data["extras"] = {"hivedScheduler": {"taskRoles": places, "lazyPreemptionEnable": True}}
    specs = compile_job(json.dumps(data), user="bob")["hived"]["podSpecs"]
    members = [{"podNumber": n, "leafCellNumber": 2} for n in (3, 1)]
    assert specs["a"]["affinityGroup"] == {"name": "bob~job/g", "members": members}
    assert specs["c"]["affinityGroup"] is None
    assert specs["c"]["lazyPreemptionEnable"] is True


def test_a_job_without_gang_retries_its_tasks() -> None:
    data = job(role={"taskRetryCount": 3}, extras={"gangAllocation": False})
    role = compile_job(json.dumps(data))["default_scheduler"]["taskRoles"][0]
    assert role["taskRetryPolicy"] == {"fancyRetryPolicy": True, "maxRetryCount": 3}
    assert role["gang_allocation"] == "false"


def test_commands_of_the_chosen_deployment_stand_around_those_of_the_role() -> None:
    around = {"preCommands": ["get <% $parameters.what %>"], "postCommands": [" put "]}
    deployments = [
        {"name": "other", "taskRoles": {"worker": {"preCommands": ["no"]}}},
        {"name": "prod", "taskRoles": {"worker": around, "unknown": around}},
    ]
    data = job(
        deployments=deployments, defaults={"deployment": "prod"}, parameters={"what": "data"}
    )
    assert compile_job(json.dumps(data))["entrypoints"] == {"worker": "get data\ntrain\nput"}


def test_prerequisites_of_every_kind_are_taken_with_their_own_fields() -> None:
    callbacks = [{"event": "taskStarts", "commands": ["apt update"]}]
    plugin = {"plugin": "com.microsoft.pai.runtimeplugin.cmd", "callbacks": callbacks}
    more = [
        {"name": "tools", "type": "script", "failurePolicy": "ignore", **plugin},
        {"name": "set", "type": "data", "uri": ["u"], "require": ["tools"], "own": {"x": 1}},
        {"name": "out", "type": "output", "uri": "o"},
    ]
    data = job(
        role={"prerequisites": ["tools", "set"], "data": "set", "commands": ["<%$data.own.x%>"]}
    )
    data["prerequisites"] += more
    assert compile_job(json.dumps(data))["entrypoints"] == {"worker": "1"}


def test_the_editor_schema_knows_the_fields() -> None:
    assert {"taskRoles", "deployments", "secrets"} <= set(schema()["properties"])


@given(st.text() | st.text(alphabet="{}[]:-,&*!|>'\"#%@` \n\tab01<$.").map(lambda t: "name: " + t))
def test_no_text_raises_another_error(text: str) -> None:
    found = reported(text)
    assert all(problem.line >= 1 and problem.column >= 1 and problem.code for problem in found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = st.sampled_from(
    sorted({*job(), "parameters", "secrets", "deployments", "extras", "defaults"})
)
DEEP = st.sampled_from(
    ["prerequisites", "instances", "completion", "commands", "resourcePerInstance", "data"]
)


@given(st.dictionaries(FIELDS, VALUES, max_size=3), st.dictionaries(DEEP, VALUES, max_size=2))
def test_no_data_raises_another_error(top: dict[str, Any], role: dict[str, Any]) -> None:
    reported(json.dumps({**job(role=role), **top}))
