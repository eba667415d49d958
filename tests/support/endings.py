"""The labelled log endings of tests/data/diagnosis: `@ rule [exit=N]`, then the lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skep_diagnosis.facts import Facts
from skep_diagnosis.verdict import Log, Verdict, diagnose

FILE = Path(__file__).resolve().parents[1] / "data" / "diagnosis" / "endings.txt"


@dataclass(frozen=True)
class Ending:
    rule: str
    exit_code: int
    text: str

    def verdict(self, before: str = "") -> Verdict:
        text = (before + self.text).encode()
        return diagnose([Log("task.log", [text], Facts(exit_code=self.exit_code))])


def endings() -> list[Ending]:
    found = []
    for part in FILE.read_text(encoding="utf-8").split("@ ")[1:]:
        label, _, text = part.partition("\n")
        rule, _, code = label.partition(" exit=")
        found.append(Ending(rule, int(code or 1), text))
    return found
