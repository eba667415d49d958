"""What HiveD did, recorded: every given case must end as there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.cells import REFERENCE, reference

from skep_scheduler.replay.runner import replay_file

CASES = "hived_cases.json"


def case_names() -> list[str]:
    path = REFERENCE / CASES
    if not path.exists():
        return ["none"]
    return [case["id"] for case in json.loads(path.read_text())["cases"]]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return list(replay_file(reference(CASES)))


@pytest.mark.parametrize("case", case_names())
def test_recorded_case(case: str, lines: list[dict[str, Any]]) -> None:
    mine = [line for line in lines if line["case"] == case]
    assert mine
    assert [line for line in mine if not line["pass"]] == []
