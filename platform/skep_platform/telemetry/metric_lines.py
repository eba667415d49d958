"""Metrics in the bytes of a log, and points of a metric in bounded memory. Pure.

A line has metrics where a pattern of the job file matches, or where it has METRIC_LINE and after it
`name=number` pairs, such as `::skep-metric loss=0.1 step=5`. A carriage return ends a line as a
newline does, so each state of a progress bar counts. What is found does not depend on where the
bytes were cut: a line is looked at when it has its end, and not at all if it is too long.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from skep_jobfile.metric_patterns import compiled
from skep_limits import MAX_METRIC_NAME, METRIC_LINE, METRIC_NAME, METRIC_STEP

MAX_LINE = 8 * 1024  # bytes; a longer one is not looked at
MAX_NUMBER = 40  # characters
MAX_PAIRS = 64  # of one line
MAX_STEP = 2.0**53  # whole numbers up to it are exact

NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)"
_NUMBER = re.compile(NUMBER.encode(), re.IGNORECASE)
_NAME = re.compile(METRIC_NAME)
_MARK = METRIC_LINE.encode()
# Of a pattern without a group of that name: `step 5`, `'global_step': 5`, `Iteration [5/9]`.
_STEP = re.compile(
    rb"\b(?:global_)?(?:step|iteration|iter)['\"]?\s{0,3}[=:#]?\s{0,3}[\[(]?\s{0,3}([0-9]{1,18})",
    re.IGNORECASE,
)

# Why a number was not taken.
BAD_NAME, BAD_NUMBER, BAD_STEP, MANY_NAMES, MANY_PAIRS = (
    *("name", "number", "step", "many_names"),
    "many_pairs",
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """How one metric is found."""

    name: str
    regex: Any  # of RE2
    number: int  # the groups
    step: int | None


def patterns(asked: object) -> list[Pattern]:
    """Return the patterns of `extras.skep.metrics`. One that RE2 does not take is left out: the job
    file was checked when it was submitted."""
    found = []
    for one in asked if isinstance(asked, list) else []:
        name, text = (one, _by_name(one)) if isinstance(one, str) else (one["name"], one["pattern"])
        try:
            regex = compiled(text)
        except ValueError:
            continue
        step = next((n for key, n in regex.groupindex.items() if key == METRIC_STEP.encode()), None)
        numbers = [n for n in range(1, regex.groups + 1) if n != step]
        if numbers:
            found.append(Pattern(name, regex, numbers[0], step))
    return found


def _by_name(name: str) -> str:
    """Return the pattern of `loss=0.1`, `Loss: 0.1` and `'loss': 0.1`."""
    return rf"(?i)\b{name}['\"]?\s{{0,3}}[=:]\s{{0,3}}['\"]?({NUMBER})"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a line that begins at byte `at` of what was read."""

    name: str
    at: int
    step: float | None
    value: float


@dataclass(slots=True)
class Read:
    """What some bytes hold: the numbers, in their order, how many were not taken and why, and from
    where to go on: `consumed` bytes on, inside of a line that is too long or not."""

    found: list[Number] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    consumed: int = 0
    inside: bool = False


def read(data: bytes, of: Sequence[Pattern], *, inside: bool = False, final: bool = False) -> Read:
    """Look at the whole lines of `data`, and at its last bytes, too, if nothing follows (`final`).
    `inside`: it begins within a line that is too long."""
    text = data.replace(b"\r", b"\n")
    result = Read()
    begin = 0
    if inside:
        begin = text.find(b"\n") + 1
        if not begin:
            result.consumed, result.inside = len(data), not final
            return result
    end = len(text) if final else text.rfind(b"\n") + 1
    end = max(end, begin)
    result.consumed = end
    if len(text) - end > MAX_LINE:
        result.consumed, result.inside = len(text), True
    for pattern in of:
        _match(text, begin, end, pattern, result)
    _marked(text, begin, end, result)
    result.found.sort(key=lambda one: one.at)
    return result


def _match(text: bytes, begin: int, end: int, pattern: Pattern, into: Read) -> None:
    """Take the first match of each line that is not one of METRIC_LINE."""
    place = begin
    # The place behind the last newline is no line.
    last = end - text.endswith(b"\n", begin, end)
    while place < last and (match := pattern.regex.search(text, place, last)):
        line, line_end = _line(text, match.start(), begin, end)
        # An empty match at the end of a line must not be found again.
        place = max(line_end, match.end()) + 1
        if line_end - line > MAX_LINE or text.find(_MARK, line, line_end) >= 0:
            continue
        step = match.group(pattern.step) if pattern.step else None
        if step is None and pattern.step is None:
            near = _STEP.search(text, line, line_end)
            step = near.group(1) if near else None
        _take(into, pattern.name, line, step, match.group(pattern.number))


def _marked(text: bytes, begin: int, end: int, into: Read) -> None:
    """Take the pairs of each line with METRIC_LINE."""
    place = begin
    while (mark := text.find(_MARK, place, end)) >= 0:
        line, line_end = _line(text, mark, begin, end)
        place = line_end + 1
        rest = text[mark + len(_MARK) : line_end]
        if line_end - line > MAX_LINE or not rest[:1].isspace():
            continue
        pairs = rest.split(maxsplit=MAX_PAIRS)
        if len(pairs) > MAX_PAIRS:
            into.dropped[MANY_PAIRS] += 1
            del pairs[MAX_PAIRS:]
        named = [pair.partition(b"=") for pair in pairs]
        step = next((value for name, _, value in named if name == METRIC_STEP.encode()), None)
        for name, _, value in named:
            if name != METRIC_STEP.encode():
                _take(into, name.decode(errors="replace"), line, step, value)


def _line(text: bytes, place: int, begin: int, end: int) -> tuple[int, int]:
    line = max(text.rfind(b"\n", begin, place) + 1, begin)
    newline = text.find(b"\n", place, end)
    return line, newline if newline >= 0 else end


def _take(into: Read, name: str, line: int, step: bytes | None, value: bytes | None) -> None:
    if len(name) > MAX_METRIC_NAME or not _NAME.fullmatch(name) or name == METRIC_STEP:
        into.dropped[BAD_NAME] += 1
        return
    number, place = _number(value), None if step is None else _number(step)
    if number is None:
        into.dropped[BAD_NUMBER] += 1
    elif step is not None and (place is None or not abs(place) <= MAX_STEP):
        into.dropped[BAD_STEP] += 1
    else:
        into.found.append(Number(name, line, place, number))


def _number(text: bytes | None) -> float | None:
    if text is None or len(text) > MAX_NUMBER or not _NUMBER.fullmatch(text):
        return None
    return float(text)


Item = TypeVar("Item")
MAX_POINTS = 1000  # of a series: of one that is full every second one is kept
MAX_NAMES = 32  # series of a task attempt


@dataclass(slots=True)
class Series:
    """Points of one metric: every `stride`-th one, and what is known of all of them."""

    stride: int = 1
    steps: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    count: int = 0
    low: float | None = None
    high: float | None = None
    last: float | None = None
    last_step: float | None = None
    last_time: float | None = None
    not_finite: int = 0
    not_finite_step: float | None = None

    def add(self, time: float, step: float | None, value: float) -> None:
        """Take a point; one without a step belongs to its number."""
        step = float(self.count + self.not_finite) if step is None else step
        if not math.isfinite(value):
            if not self.not_finite:
                self.not_finite_step = step
            self.not_finite += 1
            return
        if self.count % self.stride == 0:
            self.steps.append(step)
            self.times.append(time)
            self.values.append(value)
        self.count += 1
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)
        self.last, self.last_step, self.last_time = value, step, time
        if len(self.values) > MAX_POINTS:
            del self.steps[1::2], self.times[1::2], self.values[1::2]
            self.stride *= 2


def collect(
    read: Read, into: dict[str, Series], time_of: Callable[[int], float]
) -> Mapping[str, int]:
    """Add what was read to the series of a task attempt; return what was dropped, by reason."""
    dropped = Counter(read.dropped)
    for one in read.found:
        series = into.get(one.name)
        if series is None:
            if len(into) >= MAX_NAMES:
                dropped[MANY_NAMES] += 1
                continue
            series = into[one.name] = Series()
        series.add(time_of(one.at), one.step, one.value)
    return dropped


def in_order(points: Sequence[Item], most: int) -> Iterator[Item]:
    """Give at most `most` of the points, evenly, with the first and the last one."""
    if len(points) <= most:
        yield from points
        return
    last = len(points) - 1
    for number in range(most):
        yield points[round(number * last / (most - 1))]
