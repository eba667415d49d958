"""Plain words of YAML mean what they mean to js-yaml, which OpenPAI's server reads with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_jobfile import InvalidJobFile
from skep_jobfile.document import read
from skep_jobfile.scalars import read as scalar

WORDS: list[tuple[str, Any]] = [
    ("yes", "yes"), ("on", "on"), ("True", True), ("tRue", "tRue"), ("~", None), ("Null", None),
    ("1", 1), ("1.0", 1), ("1e3", 1000), ("1_000", 1000), ("1_", "1_"), ("-0x1F", -31),
    ("0b101", 5), ("010", 8), ("08", "08"), ("0o7", "0o7"), ("1:30", 90), ("1:75", "1:75"),
    ("0:7", "0:7"), (".5", 0.5), (".", "."), ("1.2.3", "1.2.3"), ("2020-01-02", "2020-01-02"),
    ("0.01", 0.01), ("-.inf", float("-inf")), ("+", "+"), ("_1", "_1"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "value"), WORDS, ids=[word for word, _ in WORDS])
def test_a_word_means_what_it_means_to_js_yaml(word: str, value: Any) -> None:
    found = read(f"x: {word}").data["x"]
    assert (found, type(found)) == (value, type(value))


def test_quotes_and_tags_make_text() -> None:
    assert read("a: '1'\nb: \"true\"\nc: !!str 1.0").data == {"a": "1", "b": "true", "c": "1.0"}


def test_the_last_line_of_a_block_ends_as_all_do() -> None:
    assert read("a: |\n  x").data == {"a": "x\n"}


def test_a_tag_says_what_it_shall_be() -> None:
    assert read("a: !!int '7'\nb: !!float 1").data == {"a": 7, "b": 1}
    with pytest.raises(InvalidJobFile):
        read("a: !!int x")


def test_json_and_yaml_mean_the_same() -> None:
    assert read('{"a": 1.0, "b": [1e2, null]}').data == read("a: 1.0\nb: [1e2, ~]").data


@given(st.text(alphabet="0123456789abxo_+-.:eEnif~", max_size=12))
def test_any_word_has_a_value(word: str) -> None:
    scalar(word)
