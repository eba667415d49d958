"""Pieces of many streams become whole lines."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skep_platform.telemetry import lines
from skep_platform.telemetry.lines import Merger

OUTPUT = st.lists(st.sampled_from(b"xy\r\n"), max_size=5).map(bytes)
PIECES = st.lists(st.tuples(st.sampled_from("ab"), OUTPUT), max_size=30)


def merge(merger: Merger, *pieces: tuple[str, bytes]) -> bytes:
    told = [merger.feed(stream, f"[{stream}] ".encode(), data) for stream, data in pieces]
    return b"".join(told) + merger.end()


def test_lines_of_two_tasks_never_mix():
    pieces = [("a", b"one\ntw"), ("b", b"other\n"), ("a", b"o\nthree"), ("b", b"last")]
    assert merge(Merger(), *pieces) == b"[a] one\n[b] other\n[a] two\n[a] three\n[b] last"


def test_progress_bars_as_their_last_state_also_over_pieces():
    pieces = [("a", b"1%\r2%\r"), ("b", b"x\r\n"), ("a", b"3%\rdone\nnext\n")]
    assert merge(Merger(settled=True), *pieces) == b"[b] x\n[a] done\n[a] next\n"
    assert merge(Merger(), *pieces) == b"[b] x\r\n[a] 1%\r2%\r3%\rdone\n[a] next\n"


def test_a_line_that_never_ends_comes_in_parts_and_is_ended_for_another_task(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 4)
    pieces = [("a", b"12345"), ("a", b"6"), ("b", b"x\n"), ("a", b"7\n")]
    assert merge(Merger(), *pieces) == b"[a] 12345\n[b] x\n[a] 67\n"


def test_begun_lines_of_many_tasks_take_a_bounded_memory(monkeypatch):
    monkeypatch.setattr(lines, "MAX_BEGUN", 10)
    merger = Merger()
    told = merge(merger, ("a", b"123456"), ("b", b"12345"), ("b", b"6\n"), ("a", b"7\n"))
    assert told == b"[a] 123456\n[b] 123456\n[a] 7\n"


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_one_stream_alone_without_prefixes_is_what_it_was(data, cuts):
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    merger = Merger()
    told = [merger.feed("a", b"", data[x:y]) for x, y in pairwise(borders)]
    assert b"".join(told) + merger.end() == data


@given(PIECES)
def test_no_line_is_lost_and_each_has_its_prefix(pieces):
    whole = {s: b"".join(data for stream, data in pieces if stream == s) for s in "ab"}
    told = merge(Merger(), *pieces)
    for stream, data in whole.items():
        prefix = f"[{stream}] ".encode()
        ended = data.removesuffix(b"\n")
        expected = ended.split(b"\n") if data else []
        found = [line for line in told.split(b"\n") if line.startswith(prefix)]
        assert [line.removeprefix(prefix) for line in found] == expected
