"""The replay of recorded cases: every operation, one line per expectation, whatever fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.cells import plain

from skep_scheduler.replay.__main__ import main
from skep_scheduler.replay.runner import replay_file

CONFIG = plain([2, 2], 2, {"a": [(3, 1)], "b": [(3, 1)]}, node=3)


def pod(group: str, *members: tuple[int, int], vc: str = "a", **options: Any) -> dict[str, Any]:
    sizes = [{"podNumber": tasks, "leafCellNumber": cells} for tasks, cells in members]
    spec = {"virtualCluster": vc, "priority": 0, "leafCellNumber": members[0][1], **options}
    return {**spec, "affinityGroup": {"name": group, "members": sizes}}


def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *steps: dict[str, Any]
) -> tuple[int, list[dict[str, Any]]]:
    (tmp_path / "configs").mkdir(exist_ok=True)
    with (tmp_path / "configs" / "c.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(CONFIG, file)
    begin = [{"op": "new_scheduler", "config": "c.yaml"}, {"op": "set_all_nodes_healthy"}]
    cases = {"pods": {}, "cases": [{"id": "case", "steps": [*begin, *steps]}]}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    code = main([str(tmp_path / "cases.json")])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_gangs_are_scheduled_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(
        tmp_path,
        capsys,
        {"op": "comment", "text": "two pods of a gang"},
        {"op": "define_pod", "pod": "p1", "spec": pod("g", (2, 2))},
        {
            "op": "schedule_gang",
            "group": "g",
            "pods": [{"pod": "p1"}, {"pod": "p2", "spec": pod("g", (2, 2))}],
            "expect": {"bind": {"node": "g0", "leaf_cells": [2, 3]}},
        },
        {"op": "assert", "assert": "group_state", "group": "g", "state": "Allocated"},
        {
            "op": "schedule",
            "pod": "late",
            "spec": pod("g", (2, 2)),
            "expect": {"panic": "user_error"},
        },
        {
            "op": "schedule",
            "pod": "high",
            "spec": pod("h", (1, 4), priority=1),
            "phase": "Filtering",
            "expect": {"no_bind": True, "preempt_victims_exactly": ["p1", "p2"]},
        },
        {"op": "assert", "assert": "group_absent", "group": "h"},
        {"op": "delete_group", "group": "g"},
        {"op": "assert", "assert": "group_absent", "group": "g"},
    )
    assert code == 0
    assert [line["step"] for line in lines] == [4, 5, 6, 7, 8, 10]
    assert all(line["pass"] for line in lines)


def test_failures_are_lines_and_do_not_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(
        tmp_path,
        capsys,
        {"op": "schedule", "pod": "nobody", "expect": {"bind": {"node": "g0"}}},
        {"op": "no_such_operation"},
        {"op": "schedule", "pod": "p", "spec": pod("g", (1, 1)), "expect": {"wait": True}},
        {"op": "schedule", "pod": "p", "spec": pod("g", (1, 1)), "expect": {"no_bind": False}},
    )
    assert code == 1
    assert [line["pass"] for line in lines] == [False, False, False, True]
    assert lines[0]["got"]["exception"] == "KeyError"
    assert set(lines[0]) == {"case", "step", "op", "expected", "got", "pass"}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.json")]) == 2


@pytest.mark.parametrize(
    "case",
    [3, None, [], {"steps": 3}, {"steps": [3]}, {"steps": [None]}, {"pods": [1], "steps": []}],
)
def test_what_is_no_case_is_a_failed_line(tmp_path: Path, case: object) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [case, {"id": "next", "steps": [{"op": "nothing"}]}]}))
    lines = list(replay_file(file))
    assert lines[-1]["case"] == "next"
    assert len(lines) == 2
    assert not any(line["pass"] for line in lines)
