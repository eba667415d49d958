"""What may be the pattern of a metric.

A pattern is one of RE2, which takes linear time for every text: the server has it, and its word
counts. Where RE2 is not installed, as beside the command line, what Python's own expressions refuse
is found before the submit, and the rest by the server.
"""

from __future__ import annotations

import re
from typing import Any

from skep_limits import METRIC_STEP

try:
    import re2
except ImportError:  # the base install is the client
    re2 = None

MAX_MEMORY = 256 * 1024  # bytes of a compiled pattern


def compiled(pattern: str) -> Any:
    """Return a pattern of RE2 that looks for bytes, line by line. Raises ValueError."""
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(b"(?m)" + pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"this is no regular expression of RE2: {text}") from None


def check_pattern(pattern: str) -> str:
    """Return why the text is no pattern of a metric; "" where it is one."""
    try:
        found = _python(pattern) if re2 is None else compiled(pattern)
    except ValueError as error:
        return str(error)
    names = [n.decode() if isinstance(n, bytes) else n for n in found.groupindex]
    if found.groups - (METRIC_STEP in names) != 1:
        return (
            "a pattern has one group (…) around the number, and perhaps (?P<step>…); write (?:…) "
            "for groups that are neither"
        )
    return ""


def _python(pattern: str) -> Any:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"this is no regular expression: {error}") from None
