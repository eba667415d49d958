"""One pass over a log: which rule's line tells best why it ended.

Memory is bounded by the chunk. The chunk is searched for the rules' literals, which is quick; only
around those that are found do patterns run, on a window of fixed size. Every byte is thus seen
once per literal, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from skep_diagnosis.table import Rule, Table

CHUNK = 1 << 16
BEFORE, AFTER = 500, 1000  # bytes of a line that are looked at around a literal
EVIDENCE = 500  # characters
# Errors further apart than this are of different events: one that was overcome, and the end.
NEAR = 200  # lines
CONTEXT_LINES = 30
TIME_BEFORE = 4096  # bytes in which the last time stamp is sought

CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
ANSI = re.compile(rb"\x1b\[[0-9;?]{0,20}[A-Za-z]")
STAMP = re.compile(rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
RANK = re.compile(
    rb"\[(?:rank|default) ?(\d{1,6})\]|^\[\d{1,3},(\d{1,6})\]<|\brank ?(\d{1,6})\b", re.IGNORECASE
)
# What frameworks print when they do not know: "(1) killed by the OOM killer. (2) SIGSEGV."
SUPPOSING = re.compile(
    rb"(?:potential|possible|probable|common|likely) (?:root )?(?:causes?|reasons?)"
    rb"|(?:could|may|might) (?:be|have been) (?:caused|because|due|killed)"
    rb"|\(1\) .{1,300}\(2\) ",
    re.IGNORECASE,
)
# A line of source code in a traceback: what is raised is told by the line at its end.
RAISING = re.compile(rb"^(?:\[[^\]\n]{1,24}\](?:<\w{1,8}>)?:?|[\w.-]{1,60}\d:)?\s*raise \w")


@dataclass(frozen=True, slots=True)
class Match:
    """A rule's line; `line` counts from 1, `at` is seconds since the epoch where lines tell it."""

    rule: Rule
    line: int
    text: str
    at: float | None
    rank: int | None


@dataclass(slots=True)
class Scan:
    """What a pass found. `best` is the line that tells, `lines` how many there were."""

    best: Match | None = None
    lines: int = 0
    last_match_line: int = 0
    steps: int = 0  # windows on which patterns ran; bounded by the log's size
    _context: dict[str, int] = field(default_factory=dict)

    @property
    def near_the_end(self) -> bool:
        return self.best is not None and self.lines - self.last_match_line < NEAR


def scan(chunks: Iterable[bytes], table: Table, exit_code: int | None = None) -> Scan:
    """Of the last burst of errors the first line of the best tier. Raises nothing."""
    found = Scan()
    line = 0
    for chunk in _whole_lines(chunks):
        _scan_chunk(chunk, line, table.by_literal, found, exit_code)
        line += chunk.count(b"\n")
        found.lines = line + (not chunk.endswith(b"\n"))
    return found


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Of about CHUNK bytes, cut at line ends, and elsewhere only in lines longer than that."""
    rest = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK):
            rest += chunk[start : start + CHUNK]
            if len(rest) < CHUNK:
                continue
            cut = rest.rfind(b"\n") + 1 or len(rest)
            yield bytes(rest[:cut])
            del rest[:cut]
    if rest:
        yield bytes(rest)


def _scan_chunk(
    chunk: bytes,
    base: int,
    literals: Mapping[bytes, Sequence[Rule]],
    found: Scan,
    exit_code: int | None,
) -> None:
    lower = chunk.lower()
    windows: dict[tuple[int, int], set[int]] = {}
    rules: dict[int, Rule] = {}
    for literal, some in literals.items():
        at = lower.find(literal)
        while at >= 0:
            window = _window(chunk, at)
            keys = windows.setdefault(window, set())
            for rule in some:
                keys.add(id(rule))
                rules[id(rule)] = rule
            at = lower.find(literal, max(window[1], at + len(literal)))
    line, counted = base + 1, 0
    for start, end in sorted(windows):
        line += chunk.count(b"\n", counted, start)
        counted = start
        text = ANSI.sub(b"", chunk[start:end])
        mine = [rules[key] for key in windows[start, end]]
        found.steps += len(mine)
        _judge(found, mine, text, line, chunk, start, exit_code)


def _window(chunk: bytes, at: int) -> tuple[int, int]:
    """The part of the line around `at`; the whole line where that is short."""
    start = chunk.rfind(b"\n", max(0, at - BEFORE), at) + 1 or max(0, at - BEFORE)
    end = chunk.find(b"\n", at, at + AFTER)
    return start, end if end >= 0 else min(len(chunk), at + AFTER)


def _judge(
    found: Scan,
    rules: list[Rule],
    text: bytes,
    line: int,
    chunk: bytes,
    start: int,
    exit_code: int | None,
) -> None:
    text = text.rstrip(b"\r")
    hits = [rule for rule in rules if rule.pattern and rule.pattern.search(text)]
    if any(rule.stated for rule in hits) and SUPPOSING.search(text):
        hits = [rule for rule in hits if not rule.stated]
    for rule in hits:
        if not rule.code:
            found._context[rule.id] = line
    applying = [rule for rule in hits if rule.code and _applies(rule, found, line, exit_code)]
    if not applying or RAISING.match(text):
        return
    rule = min(applying, key=lambda r: (r.tier, r.order))
    new_burst = line - found.last_match_line > NEAR
    found.last_match_line = line
    if found.best is None or new_burst or rule.tier < found.best.rule.tier:
        found.best = Match(rule, line, _evidence(text), _time(chunk, start), _rank(text))


def _applies(rule: Rule, found: Scan, line: int, exit_code: int | None) -> bool:
    if rule.context and line - found._context.get(rule.context, -CONTEXT_LINES) >= CONTEXT_LINES:
        return False
    return not rule.exit_codes or exit_code is None or exit_code in rule.exit_codes


def _evidence(text: bytes) -> str:
    """Without control characters: a NUL, say, cannot be stored as text."""
    return CONTROL.sub(" ", text.decode("utf-8", "replace")).strip()[:EVIDENCE]


def _time(chunk: bytes, start: int) -> float | None:
    """Of the line, or the last one before it in reach."""
    stamps = list(STAMP.finditer(chunk, max(0, start - TIME_BEFORE), start + 120))
    for stamp in reversed(stamps):
        year, month, day, hour, minute, second = (int(part) for part in stamp.groups()[:6])
        micro = int((stamp[7] or b"0").ljust(6, b"0"))
        try:
            moment = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
        except ValueError:
            continue
        return moment.timestamp()
    return None


def _rank(text: bytes) -> int | None:
    found = RANK.search(text)
    return int(found[1] or found[2] or found[3]) if found else None
