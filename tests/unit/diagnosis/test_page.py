"""The page of all failures says what the table says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from skep_diagnosis.table import table

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_fresh() -> None:
    command = [sys.executable, ROOT / "scripts" / "diagnosis-table", "--check"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_every_remedy_is_short_and_a_sentence() -> None:
    for code in table().codes.values():
        assert code.remedy.endswith("."), code.name
        assert code.remedy[0].isupper() or code.remedy[0] in "`/", code.name
        assert len(code.remedy) < 200, code.name


def test_every_rule_tells_a_code_that_is_there() -> None:
    codes = table().codes
    rules = (*table().fact_rules, *table().late_fact_rules, *table().text_rules)
    assert {rule.code for rule in rules} <= set(codes)
    assert len({rule.id for rule in rules}) == len(rules)
