"""Progress bars: what a terminal still shows of a line that was written over with `\\r`.

A line's last state is the text behind its last carriage return that has text behind it. Every
reader follows this one rule: REST, downloads, `skep logs` (`skep_client.loglines`) and the pages
(`assemble.ts`); tests/data/logs/progress.json holds cases that try them all. The bytes in the store
stay as they were written.
"""

from __future__ import annotations

from typing import AnyStr


def last_state(line: AnyStr) -> AnyStr:
    """Of a whole line without its newline. The `\\r` of a Windows line end goes, too."""
    mark: AnyStr = b"\r" if isinstance(line, bytes) else "\r"
    return line.rstrip(mark).rpartition(mark)[2]


def settle(text: str) -> str:
    """A piece of a stream with the last state of each line in it. What may write over a line that
    began before, or be written over later, keeps its mark, so that pieces can be settled alone:
    settle(settle(a) + settle(b)) == settle(a + b)."""
    if "\r" not in text:
        return text
    first, *others = text.split("\n")
    if not others:
        return _over(first) + _under(first)
    *whole, rest = others
    last = last_state(rest) + _under(rest)
    return "\n".join([_over(first), *map(last_state, whole), last])


def _over(line: str) -> str:
    """Of the rest of a line that began before."""
    return "\r" * ("\r" in line.rstrip("\r")) + last_state(line)


def _under(line: str) -> str:
    """The mark that makes what comes later begin anew."""
    return "\r" * line.endswith("\r")
