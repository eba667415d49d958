"""One pass over a log: which rule's line explains best why it ended.

Memory is bounded by the chunk. The chunk is searched for the rules' literals, which is quick; only
around those that are found do patterns run, on a window of fixed size. Every byte is thus seen
once per literal, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter

from skep_diagnosis.table import Rule, Table

CHUNK = 1 << 16
BEFORE, AFTER = 500, 1000  # bytes of a line that are looked at around a literal
EVIDENCE = 500  # characters
# Errors further apart than this are of different events: one that was overcome, and the end.
NEAR = 200  # lines
CONTEXT_LINES = 30
TIME_BEFORE = 4096  # bytes in which the last time stamp is sought

FRAME = b'  file "'
FRAMES = 100  # lines that are searched for the end of a traceback
PREFIX = 8  # bytes that distinguish the lines of one process from those of others
NAMED = re.compile(rb"[A-Za-z_][\w.]{0,200}(?:: |:?\s*$)")
MESSAGE = 60  # words of a message that starts on the line below its exception

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
# A line of source code in a traceback: the line at its end says what is raised.
RAISING = re.compile(rb"^(?:\[[^\]\n]{1,24}\](?:<\w{1,8}>)?:?|[\w.-]{1,60}\d:)?\s*raise \w")

# What Python's warnings module prints: the program went on.
WARNED = re.compile(rb"^[^\s:]{1,300}:\d{1,7}: \w{0,60}Warning: ")


@dataclass(frozen=True, slots=True)
class Match:
    """A rule's line; `line` counts from 1, `at` is seconds since the epoch, if known."""

    rule: Rule
    line: int
    text: str
    at: float | None
    rank: int | None


@dataclass(slots=True)
class Scan:
    """What a pass found. `best` is the line that explains the end, `lines` the number of lines."""

    best: Match | None = None
    lines: int = 0
    last_match_line: int = 0
    steps: int = 0  # windows on which patterns ran; bounded by the log's size
    _context: dict[str, int] = field(default_factory=dict)

    @property
    def near_the_end(self) -> bool:
        return self.best is not None and self.lines - self.last_match_line < NEAR


def scan(chunks: Iterable[bytes], table: Table, exit_code: int | None = None) -> Scan:
    """Return the first line of the best tier of the last burst of errors. Raises nothing."""
    found = Scan()
    line = 0
    for chunk in _whole_lines(chunks):
        _scan_chunk(chunk, line, table, found, exit_code)
        line += chunk.count(b"\n")
        found.lines = line + (not chunk.endswith(b"\n"))
    return found


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks of about CHUNK bytes, cut at line ends, and elsewhere only in lines longer than
    that."""
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


def _scan_chunk(chunk: bytes, base: int, table: Table, found: Scan, exit_code: int | None) -> None:
    lower = chunk.lower()
    windows: dict[tuple[int, int], set[int]] = {}
    rules: dict[int, Rule] = {id(rule): rule for rule in table.exception_rules}
    present = (literals for gate, literals in table.gates.items() if gate in lower)
    for literal in chain.from_iterable(present):
        at = lower.find(literal)
        while at >= 0:
            window = _window(chunk, at)
            keys = windows.setdefault(window, set())
            for rule in table.by_literal[literal]:
                keys.add(id(rule))
                rules[id(rule)] = rule
            at = lower.find(literal, max(window[1], at + len(literal)))
    exceptions = _exceptions(chunk, lower)
    for window in exceptions:
        windows.setdefault(window, set()).update(map(id, table.exception_rules))
    line, counted = base + 1, 0
    for window in sorted(windows):
        start, end = window
        line += chunk.count(b"\n", counted, start)
        counted = start
        text = ANSI.sub(b"", chunk[start:end])
        mine = [rules[key] for key in windows[window]]
        found.steps += len(mine)
        bare = exceptions.get(window, text)
        _judge(found, mine, bare, text, line, chunk, start, exit_code)


def _exceptions(chunk: bytes, lower: bytes) -> dict[tuple[int, int], bytes]:
    """Return the lines that end Python tracebacks: their windows, each with the exception's name
    and message without what a logger or launcher wrote before it.

    All lines of a traceback begin alike. Its frames are indented, and the first line below them
    that begins with a name is the exception. Lines that begin otherwise belong to other processes.
    """
    found: dict[tuple[int, int], bytes] = {}
    seen: dict[bytes, int] = {}
    at = lower.find(FRAME)
    while at >= 0:
        start = chunk.rfind(b"\n", max(0, at - BEFORE), at) + 1 or max(0, at - BEFORE)
        mark = chunk[start:at].strip()[:PREFIX]
        if start >= seen.get(mark, 0):
            seen[mark], ending = _ending(chunk, mark, at - start, at)
            found |= ending
        at = lower.find(FRAME, at + len(FRAME))
    return found


def _ending(
    chunk: bytes, mark: bytes, indent: int, at: int
) -> tuple[int, dict[tuple[int, int], bytes]]:
    """Return where the search ended, and the window and text of the exception, if there is one."""
    for _ in range(FRAMES):
        at = chunk.find(b"\n", at) + 1
        if not at or at >= len(chunk):
            return len(chunk), {}
        start, end = _window(chunk, at)
        line = ANSI.sub(b"", chunk[start:end])
        body = line[indent:]
        if line.lstrip().startswith(mark) and NAMED.match(body):
            if body.rstrip().endswith(b":"):  # The message is below.
                body = b" ".join(chunk[start + indent : end + AFTER].split()[:MESSAGE])
            return end, {(start, end): body}
    return at, {}


def _window(chunk: bytes, at: int) -> tuple[int, int]:
    """The part of the line around `at`; the whole line where that is short."""
    start = chunk.rfind(b"\n", max(0, at - BEFORE), at) + 1 or max(0, at - BEFORE)
    end = chunk.find(b"\n", at, at + AFTER)
    return start, end if end >= 0 else min(len(chunk), at + AFTER)


def _judge(
    found: Scan,
    rules: list[Rule],
    bare: bytes,
    text: bytes,
    line: int,
    chunk: bytes,
    start: int,
    exit_code: int | None,
) -> None:
    text, bare = text.rstrip(b"\r"), bare.rstrip(b"\r")
    for context in [rule for rule in rules if not rule.code]:
        if context.pattern and context.pattern.search(bare):
            found._context[context.id] = line
    if RAISING.match(text) or WARNED.match(text):
        return
    # The best first, as the first that holds is the line's. A line of possible causes states none.
    ordered = sorted((rule for rule in rules if rule.code), key=attrgetter("tier", "order"))
    applying = (rule for rule in ordered if _holds(rule, bare, found, line, exit_code))
    rule = next(applying, None)
    if rule is None:
        return
    new_burst = line - found.last_match_line > NEAR
    found.last_match_line = line
    if found.best is None or new_burst or rule.tier < found.best.rule.tier:
        found.best = Match(rule, line, _evidence(text), _time(chunk, start), _rank(text))


def _holds(rule: Rule, text: bytes, found: Scan, line: int, exit_code: int | None) -> bool:
    if not rule.pattern or not rule.pattern.search(text):
        return False
    if rule.stated and SUPPOSING.search(text):
        return False
    if rule.context and line - found._context.get(rule.context, -CONTEXT_LINES) >= CONTEXT_LINES:
        return False
    return not rule.exit_codes or exit_code is None or exit_code in rule.exit_codes


def _evidence(text: bytes) -> str:
    """Without control characters: a NUL, say, cannot be stored as text."""
    return CONTROL.sub(" ", text.decode("utf-8", "replace")).strip()[:EVIDENCE]


def _time(chunk: bytes, start: int) -> float | None:
    """Return the time of the line, or of the last one before it in reach."""
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
