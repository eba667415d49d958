"""Where Skep is right and OpenPAI's server is not: each row of the documented list, tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.openpai import job

from skep_jobfile import InvalidJobFile, compile_job, notes, parse, read_facts

PAGE = Path(__file__).resolve().parents[3] / "docs" / "from-openpai-jobs.md"
FACTS = read_facts(
    "skuTypes: {V100: {gpu: 1, cpu: 8, memoryMB: 16384}, CPU: {gpu: 0, cpu: 4, memoryMB: 8192}}"
)


def hived(**more: Any) -> dict[str, Any]:
    return {"hivedScheduler": {"taskRoles": {"worker": more.pop("worker", {})}, **more}}


def two_roles(one: str, other: str) -> dict[str, Any]:
    role = job()["taskRoles"]["worker"]
    return job(taskRoles={one: role, other: role})


REFUSED: list[tuple[str, str, Any]] = [
    ("an unknown `skuType` is a crash", "unknown_sku_type",
     job(extras=hived(worker={"skuType": "V10"}))),
    ("an open template tag", "invalid_template", job(role={"commands": ["<% x"]})),
    ("negative GPUs", "invalid_value", job(asks={"gpu": -1})),
    ("CPUs, memory", "invalid_value", job(asks={"memoryMB": -1})),
    ("ports and", "invalid_value", job(asks={"ports": {"tb": -1}})),
    ("shared memory are accepted", "invalid_value",
     job(role={"extraContainerOptions": {"shmMB": -1}})),
    ("a completion count below -1", "invalid_value",
     job(role={"completion": {"minFailedInstances": -2}})),
    ("`gangAllocation: no` is text", "invalid_value", job(extras={"gangAllocation": "no"})),
    ("(`a_b`, `ab`) become one", "same_role_names", two_roles("a_b", "ab")),
    ("a plugin, a storage", "missing_field",
     job(extras={"com.microsoft.pai.runtimeplugin": [{"parameters": {}}]})),
]  # fmt: skip


@pytest.mark.parametrize(("reported", "code", "data"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_the_server_lets_pass_or_falls_over_is_refused(
    reported: str, code: str, data: Any
) -> None:
    assert reported in PAGE.read_text()
    with pytest.raises(InvalidJobFile) as refused:
        compile_job(json.dumps(data), cluster=FACTS)
    assert [problem.code for problem in refused.value.problems] == [code]


def test_text_that_is_no_yaml_is_reported() -> None:
    assert "YAML that cannot be read" in PAGE.read_text()
    with pytest.raises(InvalidJobFile) as refused:
        compile_job("a: [")
    assert refused.value.problems[0].code == "syntax"


def test_a_type_without_gpus_is_no_choice_for_an_opportunistic_job() -> None:
    assert "opportunistic jobs are refused GPUs" in PAGE.read_text()
    data = job(extras=hived(jobPriorityClass="oppo"))
    found = compile_job(json.dumps(data), cluster=FACTS)
    assert found["hived"]["podSpecs"]["worker"]["leafCellNumber"] == 1


def test_secrets_are_in_nothing_that_is_printed_however_the_file_is_written() -> None:
    assert "secrets are masked in text" in PAGE.read_text()
    data = job(secrets={"p": "S3cret"}, role={"commands": ["login <% $secrets.p %>"]})
    data["prerequisites"][0]["auth"] = {"username": "u", "password": "<% $secrets.p %>"}
    for text in (json.dumps(data), json.dumps(data, indent=2)):
        found = json.dumps(compile_job(text))
        assert "S3cret" not in found
        assert all(name in found for name in ("regcred", "configcred", "<% $secrets.p %>"))


def test_no_secret_is_in_what_is_said_of_a_bad_file() -> None:
    data = job(secrets={"p": "S3cret"})
    data["prerequisites"][0]["auth"] = {"password": "S3cret <% $secrets.p"}
    with pytest.raises(InvalidJobFile) as refused:
        compile_job(json.dumps(data))
    assert "S3cret" not in str([problem.as_dict() for problem in refused.value.problems])


def test_a_date_is_text() -> None:
    assert "a date is text" in PAGE.read_text()
    text = json.dumps(job(version="VERSION")).replace('"VERSION"', "2020-01-02")
    assert compile_job(text)["entrypoints"] == {"worker": "train"}


def test_a_secret_behind_an_alias_is_refused() -> None:
    assert "a secret that a YAML alias uses elsewhere" in PAGE.read_text()
    text = json.dumps(job(parameters="P", secrets="S"))
    text = text.replace('"P"', "{p: *s}").replace('"S"', "{p: &s x}")
    head, _, rest = text.partition('"parameters"')
    parameters, _, secrets = rest.partition(', "secrets"')
    with pytest.raises(InvalidJobFile) as refused:
        compile_job(f'{head}"secrets"{secrets[:-1]}, "parameters"{parameters}}}')
    assert [problem.code for problem in refused.value.problems] == ["shared_secret"]


def test_a_misspelt_key_that_the_server_passes_over_is_noted() -> None:
    assert "misspelt keys below `extras`" in PAGE.read_text()
    read, document = parse(json.dumps(job(extras={"gangAlocation": False})))
    (note,) = notes(read, document.data)
    assert "Did you mean gangAllocation?" in note.message
