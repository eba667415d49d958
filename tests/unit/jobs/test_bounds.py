"""What the platform does not take although the protocol does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.openpai import COMPILED, job, recorded, reference

from skep_platform.jobs.submission.job_file import InvalidJobFile, read

PLACES = "extras.hivedScheduler.taskRoles"


def problems(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobFile) as refused:
        read(json.dumps(data))
    return [(p.code, p.path) for p in refused.value.problems]


def with_roles(**places: Any) -> dict[str, Any]:
    made = job()
    made["taskRoles"]["ps"] = made["taskRoles"]["worker"]
    priority = places.pop("priority", "test")
    hived = {"jobPriorityClass": priority, "taskRoles": places}
    return {**made, "extras": {"hivedScheduler": hived}}


def two_images(uri: str) -> dict[str, Any]:
    made = job()
    made["prerequisites"].append({"name": "unused", "type": "dockerimage", "uri": "not used"})
    made["prerequisites"][0]["uri"] = uri
    return made


ASKED = "taskRoles.worker.resourcePerInstance"
REFUSED: dict[str, tuple[Any, tuple[str, str]]] = {
    "more tasks than a job may have": (
        job(role={"instances": 10_001}),
        ("too_many_tasks", "taskRoles"),
    ),
    "no CPU": (job(asks={"cpu": 0}), ("invalid_value", f"{ASKED}.cpu")),
    "less memory than a container needs": (
        job(asks={"memoryMB": 5}),
        ("invalid_value", f"{ASKED}.memoryMB"),
    ),
    "more GPUs than any node": (job(asks={"gpu": 2000}), ("invalid_value", f"{ASKED}.gpu")),
    "more ports than a node has": (
        job(asks={"ports": {"rpc": 101}}),
        ("invalid_value", f"{ASKED}.ports.rpc"),
    ),
    "retries without an end": (job(jobRetryCount=10**9), ("invalid_value", "jobRetryCount")),
    "an image reference with a space": (
        two_images("a b"),
        ("invalid_value", "prerequisites[0].uri"),
    ),
    "a command longer than a kernel takes": (
        job(role={"commands": ["x" * 99_000, "y" * 99_000]}),
        ("command_too_long", "taskRoles.worker.commands"),
    ),
    "a command that grows by its parameters": (
        job(role={"commands": ["<% $parameters.p %>" * 20]}, parameters={"p": "x" * 10_000}),
        ("command_too_long", "taskRoles.worker.commands"),
    ),
    "a variable longer than an environment takes": (
        job(extras={"skep": {"environment": {"A": "x" * 100_001}}}),
        ("variable_too_long", "extras.skep.environment.A"),
    ),
    "more tags than a job may have": (
        job(extras={"tags": [f"t{i}" for i in range(21)]}),
        ("too_many_tags", "extras.tags"),
    ),
    "two pinned cells": (
        with_roles(worker={"pinnedCellId": "P"}, ps={"pinnedCellId": "Q"}),
        ("several_pinned_cells", f"{PLACES}.ps.pinnedCellId"),
    ),
    "a role with GPUs outside of the pinned cell": (
        with_roles(ps={"pinnedCellId": "P"}),
        ("several_pinned_cells", "taskRoles.worker"),
    ),
    "an opportunistic job in a pinned cell": (
        with_roles(worker={"pinnedCellId": "P"}, priority="oppo"),
        ("opportunistic_pinned_cell", f"{PLACES}.worker.pinnedCellId"),
    ),
    "a name that no column holds": (
        with_roles(worker={"skuType": "x" * 101}),
        ("invalid_value", f"{PLACES}.worker.skuType"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_place(case: str) -> None:
    data, expected = REFUSED[case]
    assert expected in problems(data)


def test_images_that_no_role_uses_are_not_looked_at() -> None:
    assert read(json.dumps(two_images("a/b:1"))).job.name == "job"


def test_a_fraction_of_a_cpu_is_enough() -> None:
    assert read(json.dumps(job(asks={"cpu": 0.5}))).job.name == "job"


def test_roles_whose_tasks_would_share_host_names_are_refused() -> None:
    made = job()
    made["taskRoles"] = {"_": made["taskRoles"]["worker"], "task": made["taskRoles"]["worker"]}
    assert problems(made) == [("same_host_names", "taskRoles.task")]


PARTLY_PINNED = {"hived__itc-pin.yaml"}  # a job lies in its pinned cell as a whole


def test_the_job_files_of_openpais_users_are_within_all_bounds() -> None:
    found = {
        case["file"]: [f"{p.path}: {p.message}" for p in reported]
        for case in recorded(COMPILED)["cases"]
        if case["valid"] and (reported := _reported(case["file"]))
    }
    assert set(found) == PARTLY_PINNED


def _reported(file: str) -> list[Any]:
    try:
        read(reference(f"jobs/{file}").read_text())
    except InvalidJobFile as error:
        return error.problems
    return []
