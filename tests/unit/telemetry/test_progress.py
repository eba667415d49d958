"""Progress bars read as the last state of their line."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_client.loglines import last_state as shown_by_the_client
from skep_platform.telemetry.merged_lines import last_state, settle

DATA = Path(__file__).parents[2] / "data" / "logs" / "progress.json"
CASES = json.loads(DATA.read_text())
OUTPUT = st.text(st.sampled_from("ab\r\n"), max_size=30)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_whole_line(case):
    assert last_state(case["line"]) == case["shown"]
    assert last_state(case["line"].encode()) == case["shown"].encode()
    assert shown_by_the_client(case["line"]) == case["shown"]


def test_a_piece_of_a_stream_is_short_and_says_what_it_writes_over():
    assert settle("10%\r20%\r30%\rdone\nnext 1%\r2%\r") == "\rdone\n2%\r"
    assert settle("no bars\nhere") == "no bars\nhere"


@given(OUTPUT, st.lists(st.integers(0, 30)))
def test_settled_pieces_read_like_the_whole(text, cuts):
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [settle(text[a:b]) for a, b in pairwise(borders)]
    assert lines("".join(pieces)) == lines(text)
    assert settle("".join(pieces)) == settle(text)


def lines(text: str) -> list[str]:
    return [last_state(line) for line in text.split("\n")]
