"""What is looked for in a log: literal text, or a regular expression that takes linear time.

Python's `re` can be made to run for hours by a pattern of ten characters, and nothing can stop it;
RE2 cannot (https://github.com/google/re2/wiki/WhyRE2), at the price of look-around and
back-references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import re2

from skep_platform.core.errors import SkepError

MAX_PATTERN_MEMORY = 1024 * 1024  # bytes of a compiled pattern

# (data, from, to) -> where the first match begins and ends; None: there is none.
Find = Callable[[bytes, int, int], tuple[int, int] | None]


def finder(text: str, *, regex: bool, ignore_case: bool) -> Find:
    """Raises SkepError `regex_invalid`. A match never spans lines."""
    if not regex and not ignore_case:
        return _literal(text.encode())
    return _regex(text if regex else re2.escape(text), ignore_case)


def line_matches(
    data: bytes, find: Find, start: int, end: int, after: int = 0
) -> Iterator[tuple[int, int]]:
    """The first match of each line within data[start:end] that ends behind `after`."""
    at = start
    while at <= end and (hit := find(data, at, end)):
        if after and hit[1] <= after:
            at = hit[0] + 1
            continue
        yield hit
        newline = data.find(b"\n", hit[1], end)
        if newline < 0:
            return
        at = newline + 1


def _literal(needle: bytes) -> Find:
    def find(data: bytes, start: int, end: int) -> tuple[int, int] | None:
        at = data.find(needle, start, end)
        return (at, at + len(needle)) if at >= 0 else None

    return find


def _regex(text: str, ignore_case: bool) -> Find:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.never_nl = True
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY
    try:
        pattern = re2.compile(b"(?m)" + text.encode(), options)
    except re2.error as error:
        reason = error.args[0]
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise SkepError(
            f"This is no regular expression of RE2: {why}.", code="regex_invalid"
        ) from None

    def find(data: bytes, start: int, end: int) -> tuple[int, int] | None:
        match = pattern.search(data, start, end)
        return match.span() if match else None

    return find
