"""No log makes the scan raise, or take more than its size is worth."""

from __future__ import annotations

import re._constants as sre
import re._parser as parser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_diagnosis.facts import read_facts
from skep_diagnosis.scan import scan
from skep_diagnosis.table import TIERS, Rule, table
from skep_diagnosis.verdict import Log, diagnose

RULES = (*table().text_rules, *table().contexts)
LITERALS = sorted({literal for rule in RULES for literal in rule.literals})
WIDEST = 200


@given(st.lists(st.binary(max_size=200) | st.sampled_from(LITERALS), max_size=30))
def test_no_bytes_make_it_raise(parts: list[bytes]) -> None:
    assert diagnose([Log("x", parts)]).category


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)


@given(st.dictionaries(st.sampled_from(["exit_code", "signal", "xid", "reason", "gpu"]), JSON))
def test_no_facts_make_it_raise(data: dict[str, Any]) -> None:
    assert diagnose([Log("x", (), read_facts(data))]).category


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=4), st.booleans())
def test_windows_grow_with_the_bytes_only(words: list[bytes], lines: bool) -> None:
    unit = b" ".join(words) + (b"\n" if lines else b" ")
    few = scan([unit * 200], table()).steps
    many = scan([unit * 2000], table()).steps
    assert many <= 12 * few + 12 * len(LITERALS)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8))
def test_how_the_bytes_are_cut_changes_nothing(sizes: list[int]) -> None:
    text = b"step 1\n" * 40 + b"IndexError: list index out of range\n" + b"bye\n" * 30
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    parts.append(text[at:])
    assert scan(parts, table()).best == scan([text], table()).best


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_31_patterns_have_small_repeats_that_do_not_nest(rule: Rule) -> None:
    assert rule.pattern
    assert rule.tier < len(TIERS)
    _check(parser.parse(rule.pattern.pattern.decode(), re_flags()), inside=False)


def re_flags() -> int:
    return int(sre.SRE_FLAG_IGNORECASE)


def _check(tree: Any, *, inside: bool) -> None:
    for op, value in tree:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            _, most, body = value
            wide = most > 1
            bound = most if most != sre.MAXREPEAT else 10**9
            assert bound <= WIDEST or (len(body) == 1 and str(body[0][1]) == "32") or _one(body)
            assert not (wide and inside)
            _check(body, inside=inside or wide)
        elif op is sre.SUBPATTERN:
            _check(value[3], inside=inside)
        elif op is sre.BRANCH:
            for branch in value[1]:
                _check(branch, inside=inside)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            _check(value[1], inside=inside)


def _one(body: Any) -> bool:
    """`E +` of pytest: a run of one character right at the line's start."""
    return len(body) == 1 and body[0][0] is sre.LITERAL
