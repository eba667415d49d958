"""The threat model names tests that exist, and has a row for every attack that a test tries."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROWS = re.findall(
    r"^\| (\d+) \|.*\| ([^|]*) \|$", (ROOT / "docs/threat-model.md").read_text(), re.M
)
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.M)
}
ATTACKS = 33
UNTESTED = {11, 14}  # they need a GPU, and several of them


def numbers(test: str) -> set[int]:
    """The attacks in a test's name: test_attack_05_06_… tries two."""
    found = re.match(r"test_(?:attack_)?((?:\d\d_)+)", test)
    return {int(number) for number in found[1].split("_") if number} if found else set()


def test_every_test_of_the_threat_model_exists_and_tries_its_attack():
    for number, cell in ROWS:
        for name in re.findall(r"`(test_\w+)`", cell):
            assert name in TESTS, name
            assert int(number) in numbers(name), name


def test_every_attack_has_a_row_with_a_test():
    tested = {int(number) for number, cell in ROWS if "`test_" in cell}
    assert tested >= set(range(1, ATTACKS + 1)) - UNTESTED
    tried = set().union(*map(numbers, TESTS)) & set(range(1, ATTACKS + 1))
    assert tried - UNTESTED <= tested
