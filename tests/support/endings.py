"""The labelled log endings of tests/data/diagnosis: `@ label [exit=N]`, then the lines.

The rules were written with endings.txt at hand, whose labels are rules. The others have a category
as their label, and were measured before any rule was changed for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skep_diagnosis.facts import Facts
from skep_diagnosis.verdict import Log, Verdict, diagnose

DATA = Path(__file__).resolve().parents[1] / "data" / "diagnosis"
HEAD = re.compile(r"^@ (.+?)(?: exit=(\d+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Ending:
    label: str  # a rule, or a category
    exit_code: int
    text: str

    def verdict(self, before: str = "") -> Verdict:
        text = (before + self.text).encode()
        return diagnose([Log("task.log", [text], Facts(exit_code=self.exit_code))])


def endings() -> list[Ending]:
    """By rule."""
    return list(_read(DATA / "endings.txt"))


def held_out() -> list[Ending]:
    """By category; rules were mended after they were measured with these."""
    return _of("held_out")


def unseen() -> list[Ending]:
    """By category; no rule was changed for these, and none shall be."""
    return _of("unseen")


def recorded() -> list[Ending]:
    """By category: what torchrun 2.13 (CPU) wrote with two ranks, of which the second failed."""
    return list(_read(DATA / "recorded.txt"))


def benign() -> list[Ending]:
    """Lines that tell of no failure, as many programs write them before they fail."""
    text = (DATA / "benign.txt").read_text(encoding="utf-8")
    return [Ending("No signature", 1, line) for line in text.splitlines(keepends=True)]


def _of(folder: str) -> list[Ending]:
    return [e for file in sorted((DATA / folder).glob("*.txt")) for e in _read(file)]


def _read(file: Path) -> Iterator[Ending]:
    _, *parts = HEAD.split(file.read_text(encoding="utf-8"))
    for label, code, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Ending(label, int(code or 1), text)
