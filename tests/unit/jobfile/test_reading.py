"""Reading job files: what is accepted, and every way to be refused, with its place."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.jobs_world import job_file

import skep_jobfile
from skep_jobfile import InvalidJobFile
from skep_jobfile.document import MAX_NODES

GOOD = """\
protocolVersion: 2
name: hello
type: job
prerequisites:
  - {type: dockerimage, name: torch, uri: "pytorch/pytorch:2.9.0"}
taskRoles:
  worker:
    instances: 4
    dockerImage: torch
    resourcePerInstance: {gpu: 4, cpu: 16, memoryMB: 65536, ports: {rpc: 2}}
    commands:
      - echo one
      - echo two
defaults: {virtualCluster: vision}
extras:
  hivedScheduler: {jobPriorityClass: prod}
"""


def problems(text: str) -> list[tuple[str, str, int]]:
    """(code, path, line) of every problem."""
    with pytest.raises(InvalidJobFile) as raised:
        skep_jobfile.parse(text)
    return [(p.code, p.path, p.line) for p in raised.value.problems]


def test_a_good_file_is_read_with_its_defaults():
    job, _ = skep_jobfile.parse(GOOD)
    worker = job.task_roles["worker"]
    assert (job.name, job.tasks, job.gpus) == ("hello", 4, 16)
    assert (worker.commands, worker.min_failed) == (["echo one", "echo two"], 1)
    assert worker.min_succeeded == 4
    assert worker.shm_mb == 512
    assert worker.resource_per_instance.ports == {"rpc": 2}
    assert (str(job.priority_class), job.priority_class.priority) == ("prod", 100)
    assert job.image_of(worker).uri == "pytorch/pytorch:2.9.0"


def test_yaml_and_json_give_the_same_job():
    job, document = skep_jobfile.parse(GOOD)
    assert skep_jobfile.parse(json.dumps(document.data))[0] == job


def test_what_is_left_out_has_its_default():
    data = job_file("x")
    del data["defaults"], data["extras"]
    job, _ = skep_jobfile.parse(json.dumps(data))
    assert job.defaults.virtual_cluster == "default"
    assert (str(job.priority_class), job.priority_class.priority) == ("test", 10)


def test_zero_and_null_completion_counts_mean_the_default():
    completion = {"minFailedInstances": 0, "minSucceededInstances": None}
    job, _ = skep_jobfile.parse(json.dumps(job_file("x", instances=3, completion=completion)))
    role = job.task_roles["worker"]
    assert (role.min_failed, role.min_succeeded) == (1, 3)


def test_no_is_text_and_a_date_is_text():
    text = GOOD.replace("type: job", "type: job\ncontributor: no\ndescription: 2026-01-02")
    job, _ = skep_jobfile.parse(text)
    assert (job.contributor, job.description) == ("no", "2026-01-02")


def test_merge_keys_and_anchors_are_expanded():
    text = GOOD.replace(
        "    resourcePerInstance: {gpu: 4, cpu: 16, memoryMB: 65536, ports: {rpc: 2}}",
        "    resourcePerInstance: &r {gpu: 4, cpu: 16, memoryMB: 65536}",
    ).replace(
        "defaults:",
        """\
  ps:
    dockerImage: torch
    resourcePerInstance: {<<: *r, gpu: 0}
    commands: [echo]
defaults:""",
    )
    job, _ = skep_jobfile.parse(text)
    needs = job.task_roles["ps"].resource_per_instance
    assert (needs.gpu, needs.cpu) == (0, 16)


CHANGES = {
    "a required field is missing": ("name: hello\n", "", ("missing_field", "name", 1)),
    "a value has the wrong type": (
        "instances: 4",
        "instances: '4'",
        ("invalid_value", "taskRoles.worker.instances", 8),
    ),
    "true is not a number": (
        "instances: 4",
        "instances: true",
        ("invalid_value", "taskRoles.worker.instances", 8),
    ),
    "a number is negative": (
        "gpu: 4",
        "gpu: -1",
        ("invalid_value", "taskRoles.worker.resourcePerInstance.gpu", 10),
    ),
    "infinity is not a number of CPUs": (
        "cpu: 16",
        "cpu: .inf",
        ("invalid_value", "taskRoles.worker.resourcePerInstance.cpu", 10),
    ),
    "no tasks at all": (
        "instances: 4",
        "instances: 0",
        ("invalid_value", "taskRoles.worker.instances", 8),
    ),
    "a name with a slash": ("name: hello", "name: he/llo", ("invalid_value", "name", 2)),
    "a name that ends in a newline": (
        "name: hello",
        'name: "hello\\n"',
        ("invalid_value", "name", 2),
    ),
    "a role name with a dash": (
        "  worker:",
        "  wor-ker:",
        ("invalid_name", "taskRoles.wor-ker", 7),
    ),
    "an unknown key": (
        "    instances: 4",
        "    instanses: 4",
        ("unknown_field", "taskRoles.worker.instanses", 8),
    ),
    "an image that no prerequisite names": (
        "dockerImage: torch",
        "dockerImage: troch",
        ("unknown_docker_image", "taskRoles.worker.dockerImage", 9),
    ),
    "two prerequisites of one name": (
        "  - {type: docker",
        "  - {type: dockerimage, name: torch, uri: x}\n  - {type: docker",
        ("duplicate_prerequisite", "prerequisites[1].name", 6),
    ),
    "an unknown priority class": (
        "jobPriorityClass: prod",
        "jobPriorityClass: crit",
        ("invalid_value", "extras.hivedScheduler.jobPriorityClass", 16),
    ),
    "an empty list of commands": (
        "      - echo one\n      - echo two",
        "      []",
        ("invalid_value", "taskRoles.worker.commands", 11),
    ),
    "another version of the protocol": (
        "protocolVersion: 2",
        "protocolVersion: 3",
        ("invalid_value", "protocolVersion", 1),
    ),
    "a duplicate key": ("type: job", "type: job\ntype: job", ("duplicate_key", "type", 4)),
    "a duplicate key deep down": (
        "gpu: 4,",
        "gpu: 4, gpu: 8,",
        ("duplicate_key", "taskRoles.worker.resourcePerInstance.gpu", 10),
    ),
    "a Python object": (
        "name: hello",
        "name: !!python/object/apply:os.system [id]",
        ("unsupported_tag", "name", 2),
    ),
    "binary": ("name: hello", "name: !!binary aGVsbG8=", ("unsupported_tag", "name", 2)),
    "a NUL in a command": (
        "echo one",
        '"a\\0b"',
        ("invalid_character", "taskRoles.worker.commands[0]", 12),
    ),
    "half a surrogate pair": (
        "echo one",
        '"\\ud800"',
        ("invalid_character", "taskRoles.worker.commands[0]", 12),
    ),
    "an unclosed bracket": ("type: job", "type: [job", ("syntax", "", 4)),
    "a tab for indentation": ("    instances", "\tinstances", ("syntax", "", 8)),
    "a second document": ("type: job", "type: job\n---\na: 1", ("syntax", "", 4)),
    "an unknown alias": ("type: job", "type: *nowhere", ("syntax", "", 3)),
    "a key that is a list": ("type: job", "type: job\n? [a]\n: b", ("invalid_key", "", 4)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_file_is_refused_where_it_is_wrong(case):
    before, after, expected = CHANGES[case]
    assert before in GOOD
    assert expected in problems(GOOD.replace(before, after, 1))


def test_all_problems_come_at_once_in_the_order_of_the_text():
    text = GOOD.replace("instances: 4", "instances: x").replace("name: hello", "nane: hello")
    text = text.replace("dockerImage: torch", "dockerImage: other").replace("gpu: 4", "gpu: -4")
    found = problems(text)
    assert [code for code, *_ in found] == [
        "missing_field",
        "unknown_field",
        "invalid_value",
        "unknown_docker_image",
        "invalid_value",
    ]
    assert [line for *_, line in found] == sorted(line for *_, line in found)


def test_an_unknown_key_is_given_the_nearest_known_one():
    with pytest.raises(InvalidJobFile) as raised:
        skep_jobfile.parse(GOOD.replace("resourcePerInstance", "resourcesPerInstance"))
    assert "Did you mean resourcePerInstance?" in raised.value.problems[1].message


@pytest.mark.parametrize(
    "text",
    ["", "   \n", "null", "- a", "just text", "42", "[]", '"text"', "{}", "{a: 1}", "\x00", "﻿"],
)
def test_what_is_no_job_at_all_is_refused(text):
    assert problems(text)


def test_problems_of_json_have_lines_too():
    text = json.dumps(job_file("x", instances=-1), indent=2)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if '"instances"' in row)
    assert problems(text) == [("invalid_value", "taskRoles.worker.instances", line)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"name": "a", "name": "b"}', "duplicate_key"),
        ('{"name": NaN}', "missing_field"),
        ('{"name": "\\u0000"}', "invalid_character"),
        ('{"name": "\\ud800"}', "invalid_character"),
        ('{"name": 1e999}', "invalid_value"),
        ('{"name": "a"', "syntax"),
        ("{" * 5000, "syntax"),
        ('{"a":' * 500 + "1" + "}" * 500, "too_deep"),
        ('{"a":' * 80_000 + "1" + "}" * 80_000, "too_deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "spec_too_large"),
    ],
)
def test_bad_json_is_refused(text, code):
    assert code in [p[0] for p in problems(text)]


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
)
ATTACKS_31 = {
    "a billion laughs": (BOMB, "too_many_values"),
    "merge keys that double": (
        "a0: &a0 {x: 1, y: 2}\n"
        + "\n".join(f"a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}}}" for i in range(1, 60)),
        "too_many_values",
    ),
    "a recursive list": ("a: &a [*a]", "recursive_alias"),
    "a recursive object": ("a: &a {b: *a}", "recursive_alias"),
    "a recursive merge": ("a: &a {<<: *a}", "recursive_alias"),
    "nested flow lists": ("a: " + "[" * 10_000, "syntax"),
    "nested block lists": ("\n".join("  " * i + "- " for i in range(500)), "syntax"),
    "too many values": ("a: [" + "1," * (MAX_NODES + 10) + "]", "too_many_values"),
    "too many empty objects": ("a: [" + "{}," * (MAX_NODES + 10) + "]", "too_many_values"),
    "a number with many digits": ("a: " + "9" * 100_000, "unknown_field"),
    "a huge exponent": ("a: 1e" + "9" * 200, "unknown_field"),
    "a megabyte": ("a: " + "x" * 1_000_000, "spec_too_large"),
    "half a megabyte in one scalar": ("a: " + "x" * 500_000, "unknown_field"),
    "half a megabyte of comments": ("#\n" * 250_000, "empty"),
    "a key of half a megabyte": ("? " + "x" * 500_000 + "\n: 1", "invalid_key"),
    "many anchors": ("\n".join(f"a{i}: &b{i} 1" for i in range(3_000)), "unknown_field"),
    "an anchor used often": (
        "a: &a [1, 1, 1, 1]\nb: [" + "*a, " * 10_000 + "]",
        "too_many_values",
    ),
    "JSON deeper than Python reads": ("[" * 200_000, "syntax"),
    "quotes that do not end": ('a: "' + "\\" * 400_000, "syntax"),
}


@pytest.mark.parametrize("attack", ATTACKS_31)
def test_31_a_hostile_file_is_refused_in_bounded_time(attack):
    text, code = ATTACKS_31[attack]
    started = time.process_time()
    found = [p[0] for p in problems(text)]
    assert code in found or "too_deep" in found, found
    assert time.process_time() - started < 20  # seconds of CPU: a guard against quadratic work


def test_no_more_problems_are_reported_than_a_page_shows():
    text = json.dumps(job_file("x") | {f"unknown{i}": 1 for i in range(1000)})
    assert len(problems(text)) == 100


def test_a_json_file_costs_well_under_a_millisecond():
    text = json.dumps(job_file("x", instances=100))
    skep_jobfile.parse(text)
    started = time.process_time()
    for _ in range(200):
        skep_jobfile.parse(text)
    assert (time.process_time() - started) / 200 < 0.002


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_with_a_typed_error(text):
    _read_or_refuse(text)


@given(st.text(alphabet="{}[]:,-?&*!|>'\"%@`# \n\tab0<", max_size=60))
def test_any_yaml_like_text_is_read_or_refused_with_a_typed_error(text):
    _read_or_refuse(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner),
    max_leaves=20,
)
KEYS = st.sampled_from(
    ["protocolVersion", "name", "type", "taskRoles", "prerequisites", "defaults", "extras"]
)


@given(st.dictionaries(KEYS, PLAIN))
def test_any_json_under_known_keys_is_read_or_refused_with_a_typed_error(data):
    _read_or_refuse(json.dumps(data))


@given(st.data())
def test_a_good_file_with_one_value_replaced_is_read_or_refused(data):
    spec = job_file("x", instances=2, completion={"minFailedInstances": 1}, ports={"a": 1})
    _replace_somewhere(spec, data)
    _read_or_refuse(json.dumps(spec))


def _replace_somewhere(value: object, data: st.DataObject) -> None:
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.booleans()):
            value = value[key]
            continue
        value[key] = data.draw(PLAIN)
        return


def _read_or_refuse(text: str) -> None:
    try:
        job, _ = skep_jobfile.parse(text)
    except InvalidJobFile as refused:
        error = refused
    else:
        json.dumps(job.model_dump(mode="json"), allow_nan=False)
        return
    json.dumps([problem.as_dict() for problem in error.problems])
    assert error.problems
    assert all(p.line >= 1 and p.column >= 1 and p.code and p.message for p in error.problems)


def test_the_schema_is_json_schema_of_the_fields_as_written():
    schema = skep_jobfile.schema()
    assert set(schema["required"]) == {"protocolVersion", "name", "type", "taskRoles"}
    assert schema["additionalProperties"] is False
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert validator.is_valid(job_file("x"))
    assert not validator.is_valid(job_file("x") | {"secrets": 1})
