"""The fields below `extras.skep`, and the schema that editors get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.openpai import job

from skep_agent.isolation.env import check_env
from skep_jobfile import InvalidJobFile, JobFile, parse, schema

COMMIT = "a" * 40


def read(**skep: Any) -> JobFile:
    return parse(json.dumps(job(extras={"skep": skep})))[0]


def refused(**skep: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobFile) as error:
        read(**skep)
    return [(p.code, p.path.removeprefix("extras.skep.")) for p in error.value.problems]


def test_times_are_seconds_and_moments_have_a_zone() -> None:
    skep = read(maxDuration="1d1h", barrier="5m", deadline="2027-01-31T18:00+01:00").extras.skep
    assert (skep.max_duration, skep.barrier) == (90_000, 300)
    assert skep.deadline == datetime(2027, 1, 31, 17, tzinfo=UTC)


def test_speeds_are_by_gpu_model() -> None:
    skep = read(speeds={"V100": 1, "NVIDIA A100-SXM4-80GB": 2.2}).extras.skep
    assert skep.speeds == {"V100": 1.0, "NVIDIA A100-SXM4-80GB": 2.2}


def test_an_elastic_range_is_of_the_last_role() -> None:
    elastic = {"min": 1, "max": 8, "speedup": {"1": 1, "4": 3.5, "8": 6}}
    file = read(elastic=elastic)
    known = file.elastic_of(next(reversed(file.task_roles)))
    assert known is not None
    assert (known.min, known.max, known.speedup) == (1, 8, {"1": 1.0, "4": 3.5, "8": 6.0})
    assert file.elastic_of("another") is None


def test_tasks_that_start_one_by_one_have_no_size_to_choose() -> None:
    data = job(extras={"gangAllocation": False, "skep": {"elastic": {"min": 1, "max": 2}}})
    with pytest.raises(InvalidJobFile) as error:
        parse(json.dumps(data))
    assert [p.code for p in error.value.problems] == ["elastic_not_gang"]


def test_an_elastic_role_is_done_when_all_of_its_tasks_are() -> None:
    data = job(extras={"skep": {"elastic": {"min": 1, "max": 2}}})
    role = next(reversed(data["taskRoles"].values()))
    role["completion"] = {"minSucceededInstances": 1}
    with pytest.raises(InvalidJobFile) as error:
        parse(json.dumps(data))
    assert [p.code for p in error.value.problems] == ["elastic_completion"]


def test_what_is_left_out() -> None:
    skep = read().extras.skep
    assert (skep.barrier, skep.max_duration, skep.network, skep.working_files) == (
        *(600, None, None),
        None,
    )


def test_working_files_lie_in_a_workspace_unless_it_is_said_where() -> None:
    files = read(workingFiles={"archive": "sha256:" + "0" * 64}).extras.skep.working_files
    assert files is not None
    assert files.path == "/workspace"
    git = {"url": "https://example.org/a.git", "commit": COMMIT}
    files = read(workingFiles={"git": git, "path": "/code/x/"}).extras.skep.working_files
    assert files is not None
    assert files.path == "/code/x"


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a moment without zone": ({"deadline": "2027-01-31T18:00"}, ("invalid_value", "deadline")),
    "a moment that is a number": ({"deadline": 1}, ("invalid_value", "deadline")),
    "a year out of this world": ({"deadline": "0001-01-01T00:00Z"}, ("invalid_value", "deadline")),
    "a speed of nothing": ({"speeds": {"V100": 0}}, ("invalid_value", "speeds.V100")),
    "a speed that is a word": ({"speeds": {"V100": "fast"}}, ("invalid_value", "speeds.V100")),
    "no time at all": ({"maxDuration": 0}, ("invalid_value", "maxDuration")),
    "more than a year": ({"maxDuration": "367d"}, ("invalid_value", "maxDuration")),
    "an elastic range upside down": (
        {"elastic": {"min": 3, "max": 2}},
        ("invalid_value", "elastic.min"),
    ),
    "an elastic range without the tasks of the role": (
        {"elastic": {"min": 2, "max": 4}},
        ("elastic_range", "elastic"),
    ),
    "a speed of no tasks": (
        {"elastic": {"min": 1, "max": 2, "speedup": {"0": 1.0}}},
        ("invalid_name", "elastic.speedup.0"),
    ),
    "an unknown network": ({"network": "mesh"}, ("invalid_value", "network")),
    "working files from nowhere": (
        {"workingFiles": {"path": "/x"}},
        ("working_files_source", "workingFiles"),
    ),
    "an archive without its hash": (
        {"workingFiles": {"archive": "code.tar.gz"}},
        ("invalid_value", "workingFiles.archive"),
    ),
    "a branch instead of a commit": (
        {"workingFiles": {"git": {"url": "https://x/y", "commit": "main"}}},
        ("invalid_value", "workingFiles.git.commit"),
    ),
    "an address that is an option": (
        {"workingFiles": {"git": {"url": "--upload-pack=x", "commit": COMMIT}}},
        ("invalid_value", "workingFiles.git.url"),
    ),
    "a relative folder": ({"workDir": "code"}, ("invalid_value", "workDir")),
    "a folder that climbs": ({"workDir": "/a/../etc"}, ("invalid_value", "workDir")),
    "the root": ({"workDir": "/"}, ("invalid_value", "workDir")),
    "a folder of the system": ({"workDir": "/proc/1"}, ("invalid_value", "workDir")),
    "a variable of the platform": (
        {"environment": {"PAI_X": "1"}},
        ("reserved_variable", "environment.PAI_X"),
    ),
    "a variable of the loader": (
        {"environment": {"LD_PRELOAD": "x"}},
        ("reserved_variable", "environment.LD_PRELOAD"),
    ),
    "no name of a variable": ({"environment": {"1A": ""}}, ("invalid_name", "environment.1A")),
    "a metric with a capital": ({"metrics": ["Loss"]}, ("invalid_value", "metrics[0]")),
    "a metric named step": ({"metrics": ["step"]}, ("invalid_value", "metrics[0]")),
    "no metric at all": ({"metrics": []}, ("invalid_value", "metrics")),
    "more metrics than are plotted": (
        {"metrics": [f"m{n}" for n in range(17)]},
        ("invalid_value", "metrics"),
    ),
    "a metric twice": (
        {"metrics": ["loss", {"name": "loss", "pattern": "l=(.)"}]},
        ("duplicate_metric", "metrics[1]"),
    ),
    "a pattern without a number": (
        {"metrics": [{"name": "loss", "pattern": "loss"}]},
        ("metric_pattern", "metrics[0].pattern"),
    ),
    "a pattern with two numbers": (
        {"metrics": [{"name": "loss", "pattern": "(a)(?P<step>b)(c)"}]},
        ("metric_pattern", "metrics[0].pattern"),
    ),
    "a pattern that looks back": (
        {"metrics": [{"name": "loss", "pattern": r"(.)\1"}]},
        ("metric_pattern", "metrics[0].pattern"),
    ),
    "a pattern that takes much memory": (
        {"metrics": [{"name": "loss", "pattern": "((a{900}){900})"}]},
        ("metric_pattern", "metrics[0].pattern"),
    ),
    "a pattern that is too long": (
        {"metrics": [{"name": "loss", "pattern": "(a)" + "b" * 300}]},
        ("invalid_value", "metrics[0].pattern"),
    ),
    "metrics of a role that is not there": (
        {"metrics": True, "metricsRole": "nobody"},
        ("unknown_task_role", "metricsRole"),
    ),
    "a misspelt field": ({"maxDurration": 1}, ("unknown_field", "maxDurration")),
}


def test_metrics_are_read_from_the_first_task_of_a_role() -> None:
    assert read().metrics_rank is None
    assert read(metrics=False).metrics_rank is None
    assert read(metrics=True).metrics_rank == 0
    roles = {"ps": {"instances": 3}, "worker": {"instances": 2}}
    two = job(extras={"skep": {"metrics": ["loss"], "metricsRole": "worker"}})
    (known,) = two["taskRoles"].values()
    two["taskRoles"] = {name: known | changes for name, changes in roles.items()}
    assert parse(json.dumps(two))[0].metrics_rank == 3


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_where_it_is_wrong(case: str) -> None:
    skep, expected = REFUSED[case]
    assert expected in refused(**skep)


def test_a_misspelt_field_is_given_the_nearest() -> None:
    with pytest.raises(InvalidJobFile, match="Did you mean maxDuration"):
        read(maxDurration=1)


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True))
def test_agents_accept_every_variable_that_is_accepted_here(name: str) -> None:
    try:
        read(environment={name: "x"})
    except InvalidJobFile:
        return
    check_env({name: "x"})


def test_every_field_says_what_it_means_in_one_sentence() -> None:
    for place, field in fields():
        text = field.get("description", "")
        assert text.endswith("."), place
        assert text[0].isupper() or text[0] in "`[", place
        assert "\n" not in text, place


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    known = schema()
    for name, part in [("", known), *known["$defs"].items()]:
        for field, value in part.get("properties", {}).items():
            yield f"{name}.{field}", value


def test_examples_are_what_the_schema_takes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for place, field in fields():
        validator = jsonschema.Draft202012Validator({**field, "$defs": schema()["$defs"]})
        for example in field.get("examples", []):
            assert validator.is_valid(example), (place, example)


def test_editors_know_what_kind_of_schema_it_is() -> None:
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema()["$id"].startswith("urn:")
