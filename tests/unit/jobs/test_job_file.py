"""Any file becomes rows that can be stored, or typed problems; never another error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.openpai import job

from skep_platform.accounts.models import User
from skep_platform.jobs.submission.job_file import InvalidJobFile, read
from skep_platform.jobs.submission.storing import job_row, role_rows
from skep_platform.tenancy.models import VirtualCluster

CMD = "com.microsoft.pai.runtimeplugin.cmd"
CALLBACKS = [{"event": "taskStarts", "commands": ["a <% $parameters.x %>", "b"]}]
RICH: dict[str, Any] = {
    **job(
        role={"prerequisites": ["tools"], "script": "tools", "taskRetryCount": 2},
        asks={"ports": {"rpc": 1}},
        parameters={"x": [1, {"y": None}], "n": 1.5},
        secrets={"p": "S3cret", "deep": {"q": ["S3cret"]}},
        deployments=[{"name": "d", "taskRoles": {"worker": {"preCommands": ["pre"]}}}],
        defaults={"deployment": "d", "virtualCluster": "vc"},
    ),
    "extras": {
        "com.microsoft.pai.runtimeplugin": [
            {"plugin": "cmd", "parameters": {"callbacks": CALLBACKS}, "failurePolicy": "ignore"}
        ],
        "hivedScheduler": {"taskRoles": {"worker": {"skuType": "A100"}}},
        "tags": ["a"],
        "storages": [{"name": "s"}],
        "skep": {
            "environment": {"A": "<% $secrets.p %>", "B": 1},
            "workingFiles": {"git": {"url": "https://x/y", "commit": "a" * 40}},
            "deadline": "2027-01-31T18:00Z",
            "maxDuration": "2h",
            "elastic": {"min": 1, "max": 2},
        },
    },
}
RICH["prerequisites"][0]["auth"] = {"username": "u", "password": "<% $secrets.p %>"}
RICH["prerequisites"].append(
    {"name": "tools", "type": "script", "plugin": CMD, "callbacks": CALLBACKS, "require": ["x"]}
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["<% $secrets.p %>", "<% x", "2h", "job", 2**70]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def store(text: str) -> None:
    """All that a submit would write, as JSON."""
    vc = VirtualCluster(name="vc")
    found = read(text)
    row = job_row(User(username="u"), vc, found)
    images = {item.uri: item.uri for item in found.job.prerequisites if item.type == "dockerimage"}
    roles = role_rows(row, found, images)
    json.dumps([row.spec, row.environment, row.tags], allow_nan=False)
    json.dumps([note.as_dict() for note in found.notes])
    shown = [row.spec_text, *(str(role.command) for role in roles), str(row.spec)]
    assert not any("\0" in text for text in shown)
    if found.secrets == RICH["secrets"]:
        assert not any("S3cret" in text for text in shown)


def test_the_good_file_is_good() -> None:
    store(json.dumps(RICH))


def test_numbers_that_json_has_not_are_stored_as_nothing() -> None:
    text = json.dumps(RICH).replace("1.5", "__N__")
    for number in (".inf", ".nan", "-.inf", "1e999"):
        store(text.replace("__N__", number))


@given(st.data())
def test_a_good_file_with_a_value_replaced_is_stored_or_reported(data: st.DataObject) -> None:
    spec = copy.deepcopy(RICH)
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_somewhere(spec, data)
    reported = _stored_or_refused(json.dumps(spec))
    assert spec.get("secrets") != RICH["secrets"] or "S3cret" not in reported


def _stored_or_refused(text: str) -> str:
    try:
        store(text)
    except InvalidJobFile as refused:
        return json.dumps(refused.as_dict())
    return ""


def _replace_somewhere(value: Any, data: st.DataObject) -> None:
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.booleans()):
            value = value[key]
            continue
        value[key] = data.draw(ANYTHING)
        return


@pytest.mark.parametrize("text", ["", "a: [", "[]", "\0", '{"a": 1}'])
def test_what_is_no_job_is_reported_with_its_place(text: str) -> None:
    with pytest.raises(InvalidJobFile) as refused:
        read(text)
    first = refused.value.as_dict()["details"]["errors"][0]
    assert set(first) == {"code", "message", "path", "line", "column"}
