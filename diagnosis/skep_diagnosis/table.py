"""The codes and rules of table.toml, ready to use."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

# Better first. A consequence is what the other ranks say when one has failed; a hint only says that
# something has.
TIERS = ("cause", "symptom", "consequence", "hint")
NO_SIGNATURE = 255
UNDEFINED_NEGATIVE = -8000
GATE = 4  # bytes


@dataclass(frozen=True, slots=True)
class Code:
    """What a failure of this code means and what to do about it."""

    code: int
    name: str
    type: str
    retry: str  # transient, permanent or unknown
    reaction: str  # OpenPAI's: ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, RETRY_TO_MAX, NEVER_RETRY
    category: str  # reason of the Philly study where it has one
    axis: str  # of the ICSE 2020 study
    blame: str  # node, job, platform, unknown or none
    remedy: str
    title: str = ""  # what a person calls it; "": the category

    @property
    def heading(self) -> str:
        return self.title or self.category


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    code: int
    order: int  # the earlier wins on the same line
    tier: int = 0  # index into TIERS
    category: str = ""  # instead of the code's
    alone: int = 0  # the code in a job of one task, where it is another
    context: str = ""  # which must have been in the lines just before
    exit_codes: tuple[int, ...] = ()  # holds only with one of these, where the exit code is known
    literals: tuple[bytes, ...] = ()
    pattern: re.Pattern[bytes] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    any_fact: bool = False  # one of the facts is enough
    late: bool = False  # asked only where the log names no cause
    # Of text: its lines say that a process was killed, and guess why. Of facts: asked where a log
    # has such a line, to confirm that the kernel did it for lack of memory.
    kill: bool = False
    # Holds only where a line states it, not where it is one in a list of possible causes.
    stated: bool = False
    # Also reads the line that ends a Python traceback, whatever literals that line has.
    exception: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    codes: Mapping[int, Code]
    fact_rules: tuple[Rule, ...]
    late_fact_rules: tuple[Rule, ...]
    kill_fact_rules: tuple[Rule, ...]
    text_rules: tuple[Rule, ...]
    contexts: tuple[Rule, ...]
    by_literal: Mapping[bytes, Sequence[Rule]]  # what to look for, and which rules may hold there
    gates: Mapping[bytes, Sequence[bytes]]  # a part that literals share: without it none is there
    exception_rules: tuple[Rule, ...]

    def code(self, number: int) -> Code:
        """Return the code of a number; an undefined number is no known failure."""
        shadow = UNDEFINED_NEGATIVE if number < 0 else NO_SIGNATURE
        return self.codes.get(number) or self.codes[shadow]


@cache
def table() -> Table:
    text = files("skep_diagnosis").joinpath("table.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    codes = {entry["code"]: Code(**entry) for entry in data["codes"]}
    names = data["names"]
    rules = [_rule(entry, order, names) for order, entry in enumerate(data["rules"])]
    contexts = [
        _rule({"id": name, "code": 0, **entry}, order, names)
        for order, (name, entry) in enumerate(data["contexts"].items())
    ]
    text_rules = tuple(rule for rule in rules if rule.pattern)
    by_literal = _by_literal([*contexts, *text_rules])
    return Table(
        codes=codes,
        fact_rules=tuple(rule for rule in rules if rule.facts and not rule.late and not rule.kill),
        late_fact_rules=tuple(rule for rule in rules if rule.facts and rule.late),
        kill_fact_rules=tuple(rule for rule in rules if rule.facts and rule.kill),
        text_rules=text_rules,
        contexts=tuple(contexts),
        by_literal=by_literal,
        gates=_gates(by_literal),
        exception_rules=tuple(rule for rule in text_rules if rule.exception),
    )


def _by_literal(rules: Sequence[Rule]) -> dict[bytes, list[Rule]]:
    found: dict[bytes, list[Rule]] = {}
    for rule in rules:
        for literal in rule.literals:
            found.setdefault(literal, []).append(rule)
    return found


def _gates(literals: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Return the literals grouped by a substring of GATE bytes that all of a group contain.

    A log without the substring contains none of the group, which is one search instead of many.
    The substring that most of the remaining literals share is taken first; literals shorter than
    GATE are their own group.
    """
    parts: dict[bytes, set[bytes]] = {}
    for literal in literals:
        for at in range(max(1, len(literal) - GATE + 1)):
            parts.setdefault(literal[at : at + GATE], set()).add(literal)
    gates: dict[bytes, list[bytes]] = {}
    left = set(literals)
    while left:
        gate = min(parts, key=lambda part: (-len(parts[part] & left), part))
        gates[gate] = sorted(parts[gate] & left)
        left -= parts.pop(gate)
    return gates


def _rule(entry: Mapping[str, Any], order: int, names: Mapping[str, str]) -> Rule:
    patterns = [_named(pattern, names) for pattern in entry.get("patterns", ())]
    return Rule(
        id=entry["id"],
        code=entry["code"],
        order=order,
        tier=TIERS.index(entry.get("tier", "cause")),
        category=entry.get("category", ""),
        alone=entry.get("alone", 0),
        context=entry.get("context", ""),
        exit_codes=tuple(entry.get("exit_codes", ())),
        literals=tuple(literal.encode() for literal in entry.get("literals", ())),
        pattern=_pattern(patterns) if patterns else None,
        facts=entry.get("facts", {}),
        any_fact=entry.get("any_fact", False),
        late=entry.get("late", False),
        kill=entry.get("kill", False),
        stated=entry.get("stated", False),
        exception=entry.get("exception", False),
    )


def _named(pattern: str, names: Mapping[str, str]) -> str:
    for name, meaning in names.items():
        pattern = pattern.replace(f"{{{name}}}", meaning)
    return pattern


def _pattern(patterns: list[str]) -> re.Pattern[bytes]:
    return re.compile("|".join(f"(?:{p})" for p in patterns).encode(), re.IGNORECASE)
