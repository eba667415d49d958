"""Where tasks shall lie, who goes first, how a job is preempted: fields of `extras`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.jobs_world import job_file

import skep_jobfile
from skep_jobfile import InvalidJobFile, JobFile, located


def data(roles: Any = None, *, gang: Any = None, skep: Any = None, **hived: Any) -> dict[str, Any]:
    """A job with roles "ps" (no GPU) and "worker" (4 tasks of 2 GPUs)."""
    made = job_file(
        "x", roles={"ps": {"gpus": 0}, "worker": {"gpus": 2, "instances": 4}}, name="job"
    )
    extras: dict[str, Any] = {"hivedScheduler": hived}
    if roles is not None:
        extras["hivedScheduler"] = {**hived, "taskRoles": roles}
    if gang is not None:
        extras["gangAllocation"] = gang
    if skep is not None:
        extras["skep"] = skep
    return {**made, "extras": extras}


def read(*args: Any, **fields: Any) -> JobFile:
    return skep_jobfile.parse(json.dumps(data(*args, **fields)))[0]


def refused(*args: Any, **fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobFile) as raised:
        read(*args, **fields)
    return [(p.code, p.path) for p in raised.value.problems]


ROLES = "extras.hivedScheduler.taskRoles"


def test_without_extras_a_job_is_a_gang_that_lies_anywhere():
    job = read()
    assert not job.incremental
    assert not job.lazy_preemption
    assert (job.pinned_cell, job.sku_of("worker"), job.priority) == ("", "", 10)
    assert job.extras.skep.preemptible
    assert job.extras.skep.checkpoint is None


def test_a_role_names_its_gpu_model():
    job = read({"worker": {"skuType": "A100", "skuNum": 2}})
    assert (job.sku_of("worker"), job.sku_of("ps")) == ("A100", "")


def test_a_role_has_the_gpu_model_of_its_affinity_group():
    group = {"affinityGroupName": "g"}
    job = read({"ps": group, "worker": {**group, "skuType": "A100"}})
    assert job.sku_of("ps") == "A100"


def test_fields_written_as_null_are_left_out():
    job = read({"worker": dict.fromkeys(["skuType", "skuNum", "pinnedCellId", "within"])})
    assert job.sku_of("worker") == ""


@pytest.mark.parametrize("key", ["within", "withinOneCell"])
def test_a_role_lies_within_one_cell(key):
    assert read({"worker": {key: "RACK"}}).demand_of("worker").cell == "RACK"


def test_a_role_asks_for_cells():
    demand = read({"worker": {"cellType": "HALF", "cellNumber": 2}}).demand_of("worker")
    assert (demand.cell_type, demand.cells) == ("HALF", 2)
    assert read({"worker": {"cellType": "NODE"}}).demand_of("worker").cells == 1


def test_a_job_lies_in_one_pinned_cell():
    assert read({"worker": {"pinnedCellId": "P"}}).pinned_cell == "P"


@pytest.mark.parametrize(("gang", "incremental"), [(True, False), (False, True), (None, False)])
def test_gang_allocation_may_be_switched_off(gang, incremental):
    assert read(gang=gang).incremental == incremental


def test_our_own_fields():
    job = read(
        skep={
            "priority": 500,
            "duration": "1d2h30m5s",
            "checkpoint": {"signal": "SIGUSR2", "grace": "2m"},
            "stopGrace": 90,
            "preemptible": False,
            "withinOneCell": "RACK",
            "lazyPreemption": True,
        }
    )
    skep = job.extras.skep
    assert (job.priority, skep.duration, skep.stop_grace) == (500, 95405, 90)
    assert (skep.checkpoint.signal, skep.checkpoint.grace) == ("SIGUSR2", 120)
    assert (skep.preemptible, skep.within_one_cell, job.lazy_preemption) == (False, "RACK", True)


@pytest.mark.parametrize("value", [True, False])
def test_our_word_on_lazy_preemption_counts_more(value):
    assert read(skep={"lazyPreemption": value}, lazyPreemptionEnable=not value).lazy_preemption == (
        value
    )


@pytest.mark.parametrize("duration", ["", "2 h", "h", "2x", "-1h", "1.5h", "9" * 30 + "h", 0, True])
def test_a_duration_that_is_none(duration):
    assert refused(skep={"duration": duration}) == [("invalid_value", "extras.skep.duration")]


REFUSALS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a role that is not there": (
        {"roles": {"wroker": {"skuType": "A100"}}},
        ("unknown_task_role", f"{ROLES}.wroker"),
    ),
    "a SKU and a pinned cell": (
        {"roles": {"worker": {"skuType": "A100", "pinnedCellId": "P"}}},
        ("sku_and_pinned_cell", f"{ROLES}.worker.pinnedCellId"),
    ),
    "a SKU and a cell type": (
        {"roles": {"worker": {"skuType": "A100", "cellType": "C"}}},
        ("sku_and_cell_type", f"{ROLES}.worker.cellType"),
    ),
    "a number of cells without their type": (
        {"roles": {"worker": {"cellNumber": 2}}},
        ("cell_type_missing", f"{ROLES}.worker.cellNumber"),
    ),
    "cells without GPUs": (
        {"roles": {"ps": {"cellType": "C"}}},
        ("gpus_of_cells", "taskRoles.ps.resourcePerInstance.gpu"),
    ),
    "three cells of two GPUs": (
        {"roles": {"worker": {"cellType": "C", "cellNumber": 3}}},
        ("gpus_of_cells", "taskRoles.worker.resourcePerInstance.gpu"),
    ),
    "two SKUs in one affinity group": (
        {
            "roles": {
                "ps": {"affinityGroupName": "g", "skuType": "V100"},
                "worker": {"affinityGroupName": "g", "skuType": "A100"},
            }
        },
        ("mixed_affinity_group", f"{ROLES}.worker.skuType"),
    ),
    "an opportunistic job with a priority": (
        {"skep": {"priority": 5}, "jobPriorityClass": "oppo"},
        ("opportunistic_priority", "extras.skep.priority"),
    ),
    "a priority beyond the highest": (
        {"skep": {"priority": 1001}},
        ("invalid_value", "extras.skep.priority"),
    ),
    "a signal that saves nothing": (
        {"skep": {"checkpoint": {"signal": "SIGKILL"}}},
        ("invalid_value", "extras.skep.checkpoint.signal"),
    ),
    "a grace longer than any": (
        {"skep": {"stopGrace": "2h"}},
        ("invalid_value", "extras.skep.stopGrace"),
    ),
    "an unknown key of ours": (
        {"skep": {"prioriti": 1}},
        ("unknown_field", "extras.skep.prioriti"),
    ),
    "a gang that is neither": ({"gang": "no"}, ("invalid_value", "extras.gangAllocation")),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(case):
    fields, expected = REFUSALS[case]
    assert expected in refused(**fields)


def test_unknown_keys_that_openpai_lets_pass_are_reported_with_the_nearest():
    job, document = skep_jobfile.parse(
        json.dumps(data({"worker": {"gpuType": "K", "pinnedCell": "P"}}))
    )
    messages = " ".join(note.message for note in skep_jobfile.notes(job, document.data))
    assert "Did you mean skuType?" in messages
    assert "Did you mean pinnedCellId?" in messages


def test_fields_without_effect_are_reported():
    text = json.dumps(
        data({"worker": {"skuNum": 2}}, gangReleaseEnable=False, ignoreK8sSuggestedNodes=True)
    )
    job, document = skep_jobfile.parse(text)
    notes = located(document, skep_jobfile.notes(job, document.data))
    assert {note.code for note in notes} == {"not_used"}
    assert {note.path for note in notes} == {
        f"{ROLES}.worker.skuNum",
        "extras.hivedScheduler.gangReleaseEnable",
        "extras.hivedScheduler.ignoreK8sSuggestedNodes",
    }


def test_the_schema_knows_the_fields():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(skep_jobfile.schema())
    skep = {"duration": "2h30m", "checkpoint": {"signal": "SIGUSR1", "grace": 60}}
    assert validator.is_valid(data({"worker": {"skuType": None, "cellNumber": 2}}, skep=skep))
    assert not validator.is_valid(data(skep={"duration": "soon"}))
    assert not validator.is_valid(data(skep={"checkpoint": {"signal": "SIGKILL"}}))
