"""Pieces of many streams become whole lines."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skep_agent.frames import count_segments
from skep_platform.telemetry import merged_lines
from skep_platform.telemetry.merged_lines import LineRun, LineWriter, Merger, TimeOrder, as_text

OUTPUT = st.lists(st.sampled_from(b"xy\r\n"), max_size=5).map(bytes)
PIECES = st.lists(st.tuples(st.sampled_from("ab"), OUTPUT), max_size=30)


def merge(merger: Merger, *pieces: tuple[str, bytes]) -> bytes:
    written = [merger.feed(stream, f"[{stream}] ".encode(), data) for stream, data in pieces]
    return b"".join(written) + merger.end()


def test_lines_of_two_tasks_never_mix():
    pieces = [("a", b"one\ntw"), ("b", b"other\n"), ("a", b"o\nthree"), ("b", b"last")]
    assert merge(Merger(), *pieces) == b"[a] one\n[b] other\n[a] two\n[a] three\n[b] last"


def test_progress_bars_as_their_last_state_also_over_pieces():
    pieces = [("a", b"1%\r2%\r"), ("b", b"x\r\n"), ("a", b"3%\rdone\nnext\n")]
    assert merge(Merger(settled=True), *pieces) == b"[b] x\n[a] done\n[a] next\n"
    assert merge(Merger(), *pieces) == b"[b] x\r\n[a] 1%\r2%\r3%\rdone\n[a] next\n"


def test_a_line_that_never_ends_comes_in_parts_and_is_ended_for_another_task(monkeypatch):
    monkeypatch.setattr(merged_lines, "LONGEST_LINE", 4)
    pieces = [("a", b"12345"), ("a", b"6"), ("b", b"x\n"), ("a", b"7\n")]
    assert merge(Merger(), *pieces) == b"[a] 12345\n[b] x\n[a] 67\n"


def test_partial_lines_of_many_tasks_take_a_bounded_memory(monkeypatch):
    monkeypatch.setattr(merged_lines, "MAX_PARTIAL", 10)
    merger = Merger()
    written = merge(merger, ("a", b"123456"), ("b", b"12345"), ("b", b"6\n"), ("a", b"7\n"))
    assert written == b"[a] 123456\n[b] 123456\n[a] 7\n"


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_one_stream_alone_without_prefixes_is_what_it_was(data, cuts):
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    merger = Merger()
    written = [merger.feed("a", b"", data[x:y]) for x, y in pairwise(borders)]
    assert b"".join(written) + merger.end() == data


@given(PIECES)
def test_no_line_is_lost_and_each_has_its_prefix(pieces):
    whole = {s: b"".join(data for stream, data in pieces if stream == s) for s in "ab"}
    written = merge(Merger(), *pieces)
    for stream, data in whole.items():
        prefix = f"[{stream}] ".encode()
        ended = data.removesuffix(b"\n")
        expected = ended.split(b"\n") if data else []
        found = [line for line in written.split(b"\n") if line.startswith(prefix)]
        assert [line.removeprefix(prefix) for line in found] == expected


@st.composite
def logs(draw) -> dict[str, list[tuple[bytes, list[int]]]]:
    """Chunks of some streams: cut anywhere, with times that mostly rise."""
    found = {}
    for name in "abc":
        pieces, at, open_line = [], draw(st.integers(0, 5)), False
        for data in draw(st.lists(st.sampled_from([b"x\n", b"yy\nz\n", b"w", b"\n"]), max_size=6)):
            times = []
            for number in range(count_segments(data)):
                at += 0 if open_line and not number else draw(st.integers(-1, 3))
                times.append(at)
            open_line = not data.endswith(b"\n")
            pieces.append((data, times))
        found[name] = pieces
    return found


@given(logs(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_finding_j11_lines_of_many_streams_come_in_the_order_of_their_times(found, random, keep):
    """Each stream as it was, and all of them by time as far as they were at hand together."""
    order, arrivals = TimeOrder(), [name for name in found for _ in found[name]]
    random.shuffle(arrivals)
    waiting = {name: list(pieces) for name, pieces in found.items()}
    given_pieces = []
    for cursor, name in enumerate(arrivals):
        order.add(name, cursor, name, *waiting[name].pop(0))
        given_pieces += order.take(keep) if keep < 6 else []
    given_pieces += order.take()
    for name, pieces in found.items():
        mine = [piece for piece in given_pieces if piece.source == name]
        assert b"".join(piece.data for piece in mine) == b"".join(data for data, _ in pieces)
        assert all(count_segments(piece.data) == len(piece.times) for piece in mine)
    if keep >= 6:
        times = [at for piece in given_pieces for at in piece.times]
        assert times == sorted(times)


@given(st.lists(st.sampled_from([b"a\n", b"b", b"\n", b"cc\nd"])), st.integers(0, 9))
def test_the_last_lines_of_a_piece(parts, lines):
    data = b"".join(parts)
    piece = LineRun("s", 10, data, list(range(count_segments(data))))
    last = piece.last(lines)
    assert last.data == b"".join(data.splitlines(keepends=True)[-lines:] if lines else [])
    assert last.start == 10 + len(data) - len(last.data)
    assert last.times == piece.times[len(piece.times) - len(last.times) :]
    assert len(last.times) == min(lines, len(piece.times))


def test_lines_one_by_one_have_the_time_at_which_they_began():
    writer = LineWriter()
    out = writer.feed("a", as_text("[a] "), b"one\ntw", [1_000_000, 2_000_000])
    out += writer.feed("b", as_text("[b] "), b"other\n", [2_500_000])
    out += writer.feed("a", as_text("[a] "), b"o\nthree", [2_000_000, 4_000_000]) + writer.end()
    assert out.decode().splitlines() == [
        "[a] 1970-01-01T00:00:00.001000Z one",
        "[b] 1970-01-01T00:00:00.002500Z other",
        "[a] 1970-01-01T00:00:00.002000Z two",
        "[a] 1970-01-01T00:00:00.004000Z three",
    ]
