"""The labelled log endings of tests/data/diagnosis: `@ label [exit=N]`, then the lines.

The rules were written with endings.txt at hand, whose labels are rules. The others have a category
as their label, and were measured before any rule was changed for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skep_diagnosis.facts import Facts, read_facts
from skep_diagnosis.verdict import Log, Verdict, diagnose

DATA = Path(__file__).resolve().parents[1] / "data" / "diagnosis"
LABELLED = re.compile(r"^@ (.+?) / (\w+) (\{.*\})\n", re.MULTILINE)
HEAD = re.compile(r"^@ (.+?)(?: exit=(\d+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Ending:
    label: str  # a rule, or a category
    exit_code: int
    text: str
    retry: str = ""  # transient, permanent or unknown, where the set is labelled with it
    facts: Facts | None = None

    def verdict(self, before: str = "") -> Verdict:
        text = (before + self.text).encode()
        facts = self.facts or Facts(exit_code=self.exit_code)
        return diagnose([Log("task.log", [text], facts)])


def endings() -> list[Ending]:
    """By rule."""
    return list(_read(DATA / "endings.txt"))


def held_out() -> list[Ending]:
    """By category; rules were mended after they were measured with these."""
    return _of("held_out")


def unseen() -> list[Ending]:
    """By category; no rule was changed for these, and none shall be."""
    return _of("unseen")


def sources() -> list[Ending]:
    """Return endings with category, retry class and the agent's facts, written from the packages'
    own messages and from what people report.

    The first five sets, the seventh and the eleventh were written before the rules were read. Half
    of the sixth and a fifth of the eighth were drawn at random from `raise` statements; the rest of
    the eighth is of programs that no rule was made for (molecular dynamics, genomics, object
    stores, workflow engines), the tenth of messages that are hard to distinguish. Each was measured
    first, and rules were mended after that. Right at the first measurement (reason, class):
    frameworks 84 %, second 79 %, third 90 %, fourth 90 % and 94 %, fifth 86 % and 90 %, sixth 85 %
    and 88 %, seventh 80 % and 84 % (82 % and 86 % with its labels amended), eighth 73 % and 78 %,
    ninth 96 % and 97 %, tenth 75 % and 88 %, eleventh 86 % and 91 % (91 % and 94 % with its labels
    amended). Labels were amended where older sets call the same failure otherwise (a segmentation
    fault is a core dump): twelve of the fourth to sixth, six of the seventh, three of the eighth,
    none of the ninth, two of the tenth, nine of the eleventh.
    """
    return [e for file in sorted((DATA / "sources").glob("*.txt")) for e in _read_labelled(file)]


def recorded() -> list[Ending]:
    """By category: what torchrun 2.13 (CPU) wrote with two ranks, of which the second failed."""
    return list(_read(DATA / "recorded.txt"))


def benign() -> list[Ending]:
    """Lines that show no failure, as many programs write them before they fail."""
    text = (DATA / "benign.txt").read_text(encoding="utf-8")
    return [Ending("No signature", 1, line) for line in text.splitlines(keepends=True)]


def _read_labelled(file: Path) -> Iterator[Ending]:
    _, *parts = LABELLED.split(file.read_text(encoding="utf-8"))
    for label, retry, facts, text in zip(*(parts[i::4] for i in range(4)), strict=True):
        yield Ending(label, 1, text, retry, read_facts(json.loads(facts)))


def _of(folder: str) -> list[Ending]:
    return [e for file in sorted((DATA / folder).glob("*.txt")) for e in _read(file)]


def _read(file: Path) -> Iterator[Ending]:
    _, *parts = HEAD.split(file.read_text(encoding="utf-8"))
    for label, code, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Ending(label, int(code or 1), text)
