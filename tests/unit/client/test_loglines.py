"""Merged log pieces become whole lines, and harmless ones."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_client.loglines import LONGEST_LINE, Lines, safe_for_terminal
from skep_client.models import LogChunk


def piece(text: str, rank: int = 0, stream: str = "stdout", attempt: str = "") -> LogChunk:
    return LogChunk(
        cursor=1,
        attempt_id=attempt or f"a{rank}",
        role="worker",
        index=rank,
        rank=rank,
        stream=stream,
        offset=0,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        text=text,
    )


def lines_of(*pieces: LogChunk) -> list[tuple[str, str]]:
    lines = Lines()
    found = [line for p in pieces for line in lines.feed(p)]
    return [(line.task, line.text) for line in [*found, *lines.rest()]]


def test_a_line_comes_out_when_it_is_whole():
    assert list(Lines().feed(piece("half a li"))) == []
    assert lines_of(piece("half a li"), piece("ne\nnext\n")) == [
        ("worker-0", "half a line"),
        ("worker-0", "next"),
    ]


def test_tasks_and_streams_do_not_cut_into_each_others_lines():
    found = lines_of(piece("a"), piece("b", rank=1), piece("c", stream="stderr"), piece("d\n"))
    assert found == [("worker-0", "ad"), ("worker-1", "b"), ("worker-0", "c")]


def test_a_retried_task_starts_a_line_of_its_own():
    assert lines_of(piece("cut off", attempt="one"), piece("again\n", attempt="two")) == [
        ("worker-0", "again"),
        ("worker-0", "cut off"),
    ]


def test_a_line_without_end_is_cut_and_not_kept():
    lines = Lines()
    found = list(lines.feed(piece("x" * (LONGEST_LINE + 1))))
    assert len(found) == 1
    assert list(lines.rest()) == []


@given(st.text(alphabet="ab\n"), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_the_text_was_cut(text, cuts):
    edges = sorted({0, len(text), *(c for c in cuts if c <= len(text))})
    pieces = [piece(text[a:b]) for a, b in pairwise(edges)]
    assert [t for _, t in lines_of(*pieces)] == text.removesuffix("\n").split("\n") * bool(text)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain äö 🐝", "plain äö 🐝"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]52;c;c3RvbGVu\x1b\\text", "text"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b[2J\x1b[Htext", "text"),
        ("\x1bcreset", "reset"),
        ("tab\tstays, bell\x07 goes", "tab\tstays, bell goes"),
        ("\x9b31mC1 control", "31mC1 control"),
    ],
)
def test_a_terminal_is_given_colours_and_nothing_else(raw, shown):
    assert safe_for_terminal(raw) == shown
