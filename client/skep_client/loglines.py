"""Log chunks of many tasks into lines, as `docker compose logs` shows its services. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

# A line that never ends is cut here, in characters, so that it costs no more memory.
LONGEST_LINE = 64 * 1024
# Everything that moves a cursor, sets a title, links or rings; colours (CSI … m) stay.
_TERMINAL_CONTROL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b\[[0-?]*[ -/]*[@-ln-~]"  # CSI other than "m"
    r"|\x1b[^\[\]PX^_]"  # two-character escapes
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)


# Colours; and marks that change the direction of writing, with which a name can look like another.
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*m|\x1b|[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Chunk(Protocol):
    @property
    def attempt_id(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end; `at` is when it was written."""

    role: str
    index: int
    rank: int
    stream: str
    at: datetime
    text: str

    @property
    def task(self) -> str:
        return f"{self.role}-{self.index}"


class Lines:
    """Joins the pieces of each stream of each task; a line comes out when it is whole. Of a line
    that a progress bar wrote over only the last state is given, unless `raw`."""

    def __init__(self, *, raw: bool = False) -> None:
        self._raw = raw
        self._open: dict[tuple[str, str], tuple[Chunk, str, datetime]] = {}

    def feed(self, chunk: Chunk) -> Iterator[Line]:
        key = (chunk.attempt_id, chunk.stream)
        begun = self._open.pop(key, None)
        *whole, rest = ((begun[1] if begun else "") + chunk.text).split("\n")
        for number, text in enumerate(whole):
            at = begun[2] if begun and not number else line_time(chunk, number)
            yield self._line(chunk, text, at)
        at = begun[2] if begun and not whole else line_time(chunk, len(whole))
        if len(rest) > LONGEST_LINE:
            yield self._line(chunk, rest, at)
        elif rest:
            self._open[key] = (chunk, rest, at)

    def rest(self) -> Iterator[Line]:
        """Yield the lines that their tasks never ended."""
        for chunk, text, at in self._open.values():
            yield self._line(chunk, text, at)
        self._open.clear()

    def _line(self, chunk: Chunk, text: str, at: datetime) -> Line:
        shown = text if self._raw else last_state(text)
        return Line(chunk.role, chunk.index, chunk.rank, chunk.stream, at, shown)


def line_time(chunk: Chunk, number: int) -> datetime:
    """Return when a line of the chunk was written; the chunk's own time where that is not known."""
    times = getattr(chunk, "line_times", None) or ()  # an older server does not send them
    return chunk.at + timedelta(microseconds=times[number]) if number < len(times) else chunk.at


def last_state(line: str) -> str:
    """Return what a terminal still shows of a line that a progress bar wrote over with `\\r`."""
    return line.rstrip("\r").rpartition("\r")[2]


def safe_for_terminal(text: str) -> str:
    """The text without what could make a terminal do more than show coloured characters."""
    return _TERMINAL_CONTROL.sub("", text)


def plain(text: str) -> str:
    """Return the text without control characters and escape sequences; line ends and tabs stay."""
    return _COLOUR.sub("", safe_for_terminal(text)).replace("\r", "")


def one_line(text: str) -> str:
    """Return the text as one line of a table."""
    return plain(text).replace("\n", " ").replace("\t", " ")
