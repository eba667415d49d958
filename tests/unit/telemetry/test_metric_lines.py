"""Metrics in the bytes of a log: what is found, whatever the bytes and wherever they are cut."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.telemetry.metric_lines import (
    MAX_LINE,
    MAX_NAMES,
    MAX_POINTS,
    Number,
    Series,
    collect,
    in_order,
    patterns,
    read,
)

ASKED = [
    "loss",
    {"name": "accuracy", "pattern": r"top1 ([0-9.]+)%"},
    {"name": "rate", "pattern": r"^it (?P<step>\d+) .*rate=(\S+)$"},
]
PATTERNS = patterns(ASKED)


def found(text: bytes, of: Any = PATTERNS) -> list[tuple[str, float | None, float]]:
    return [(one.name, one.step, one.value) for one in read(text, of, final=True).found]


@pytest.mark.parametrize(
    ("line", "numbers"),
    {
        "loss=0.5": [("loss", None, 0.5)],
        "Epoch 3 step 7/90 Loss: 1.25e-3 lr=0.1": [("loss", 7.0, 0.00125)],
        "{'loss': 2.25, 'global_step': 40}": [("loss", 40.0, 2.25)],
        "train_loss=0.5": [],
        "loss=none": [],
        "it 12 at rate=.5": [("rate", 12.0, 0.5)],
        "top1 76.1%": [("accuracy", None, 76.1)],
        "::skep-metric loss=0.1 val_loss=2 step=5": [("loss", 5.0, 0.1), ("val_loss", 5.0, 2.0)],
        "[rank0]: ::skep-metric a=-1": [("a", None, -1.0)],
        "::skep-metrics a=1": [],
        "::skep-metric": [],
    }.items(),
)
def test_lines_as_programs_write_them(line: str, numbers: list[object]) -> None:
    # The line of the SDK has a pattern of the job file in it, too: it counts once.
    assert found(line.encode()) == numbers


def test_each_state_of_a_progress_bar_counts() -> None:
    bar = b"10% loss=3\r50% loss=2\r100% loss=1\nloss=0.5"
    assert [value for _, _, value in found(bar)] == [3.0, 2.0, 1.0, 0.5]


def test_what_is_no_metric_is_counted() -> None:
    text = b"::skep-metric Loss=1 a=x b=1e9999999999999999999999999999999999999999 =1 c=1 step=2"
    result = read(text, [], final=True)
    assert [(one.name, one.value) for one in result.found] == [("c", 1.0)]
    assert result.dropped == Counter(name=2, number=2)
    assert read(b"::skep-metric a=1 step=x\n", []).dropped == Counter(step=1)
    many = b"::skep-metric " + b" ".join(b"a%d=1" % n for n in range(100)) + b"\n"
    result = read(many, [])
    assert (len(result.found), result.dropped) == (64, Counter(many_pairs=1))


def test_a_number_that_is_not_finite_is_one() -> None:
    values = [value for _, _, value in found(b"loss=nan\nloss=-inf\nloss=1e999\n")]
    assert math.isnan(values[0])
    assert values[1:] == [-math.inf, math.inf]


def test_a_line_that_is_too_long_is_not_looked_at() -> None:
    text = b"loss=1 " + b"x" * MAX_LINE + b"\nloss=2\n"
    assert [value for _, _, value in found(text)] == [2.0]


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(b"loss=1", b"loss: 2.5 step 3", b"::skep-metric a=1 b=nan step=4", b"top1 5%"),
                *(b"it 3 rate=x", b"it 4 rate=2", b"::skep-metric ", b"", "loss=\u00e9".encode()),
                b"loss=9" + b" " * MAX_LINE,
            ]
        ),
        st.binary(max_size=40),
    ),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(LINES, ENDS, st.lists(st.integers(0, 12_000), max_size=6), st.booleans())
def test_where_the_bytes_are_cut_changes_nothing(lines, end, cuts, closed) -> None:
    data = end.join(lines) + (end if closed else b"")
    whole = read(data, PATTERNS, final=True)
    assert whole.consumed == len(data)

    # As the reader does it: from the place that the last read left, to what is there by now.
    place, inside = 0, False
    numbers: list[tuple[str, int, float | None, str]] = []
    dropped: Counter[str] = Counter()
    for upto in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        final = upto == len(data)
        part = read(data[place:upto], PATTERNS, inside=inside, final=final)
        numbers += [_plain(one, place) for one in part.found]
        dropped += part.dropped
        place, inside = place + part.consumed, part.inside
        if final:
            break
        assert upto - place <= MAX_LINE
    assert numbers == [_plain(one, 0) for one in whole.found]
    assert dropped == whole.dropped


def _plain(one: Number, place: int) -> tuple[str, int, float | None, str]:
    return (one.name, place + one.at, one.step, repr(one.value))


@given(st.binary(max_size=3000))
def test_any_bytes_can_be_read(data) -> None:
    result = read(data, PATTERNS, final=True)
    assert result.consumed == len(data)
    assert all(0 <= one.at <= len(data) for one in result.found)


@given(st.integers(1, 5000))
def test_a_series_keeps_points_of_its_whole_length(count) -> None:
    series = Series()
    for n in range(count):
        series.add(float(n), None, float(-n))
    assert len(series.values) <= MAX_POINTS
    assert series.steps == [float(n) for n in range(0, count, series.stride)]
    assert series.values == [-step for step in series.steps]
    assert (series.count, series.high, series.low) == (count, 0.0, float(1 - count))
    assert (series.last, series.last_step) == (float(1 - count), float(count - 1))
    # No fewer than half of what may be kept.
    assert len(series.values) >= min(count, MAX_POINTS // 2)


def test_what_is_not_finite_is_counted_and_no_point() -> None:
    series = Series()
    for value in (1.0, math.nan, math.inf, 2.0):
        series.add(0.0, None, value)
    assert (series.count, series.not_finite, series.not_finite_step) == (2, 2, 1.0)
    assert (series.steps, series.values) == ([0.0, 3.0], [1.0, 2.0])
    assert (series.low, series.high) == (1.0, 2.0)


def test_a_flood_of_names_is_bounded_and_counted() -> None:
    text = b"".join(b"::skep-metric m%d=1\n" % n for n in range(MAX_NAMES + 5))
    series: dict[str, Series] = {}
    dropped = collect(read(text, []), series, lambda at: 0.0)
    assert len(series) == MAX_NAMES
    assert dropped == {"many_names": 5}


@given(st.integers(2, 50), st.integers(0, 200))
def test_fewer_points_have_the_first_and_the_last_one(most, count) -> None:
    points = [(float(n), 0.0, 0.0) for n in range(count)]
    kept = list(in_order(points, most))
    assert len(kept) == min(most, count)
    assert kept == sorted(set(kept))
    assert kept[:1] + kept[-1:] == points[:1] + points[-1:]
