"""How JavaScript turns values into text, and what it takes for white space."""

from __future__ import annotations

import math
from typing import Any

# `\s` of JavaScript; Python's has a few control characters more, and no byte order mark.
WHITE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
SPACE = f"[{WHITE}]"
_TRIMMED = WHITE.replace("\u2000-\u200a", "".join(map(chr, range(0x2000, 0x200B))))
WHITE_SPACE = frozenset(_TRIMMED)
MAX_PLAIN = 21  # digits before the point, beyond which JavaScript writes an exponent
MIN_PLAIN = -6


def trim(text: str) -> str:
    return text.strip(_TRIMMED)


def right_trim(text: str) -> str:
    return text.rstrip(_TRIMMED)


def text_of(value: Any) -> str:
    """`String(value)`; a list is its items joined by commas, an object is not shown."""
    if isinstance(value, list):
        return ",".join("" if item is None else text_of(item) for item in value)
    if isinstance(value, dict):
        return "[object Object]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return _number(value)
    return str(value)


def _number(value: int | float) -> str:
    try:
        value = float(value)
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    return ("-" if value < 0 else "") + _digits(abs(value))


def _digits(value: float) -> str:
    """Python and JavaScript find the same shortest digits; where the point stands differs."""
    mantissa, _, power = f"{value!r}".partition("e")
    before, _, after = mantissa.partition(".")
    after = "" if after == "0" else after
    point = len(before) + int(power or 0)
    stripped = (before + after).lstrip("0")
    point -= len(before + after) - len(stripped)
    digits = stripped.rstrip("0")
    if len(digits) <= point <= MAX_PLAIN:
        return digits + "0" * (point - len(digits))
    if 0 < point <= MAX_PLAIN:
        return f"{digits[:point]}.{digits[point:]}"
    if MIN_PLAIN < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"
