"""What plain words of YAML mean: as js-yaml 3 reads them, on which OpenPAI's server is built.

Between YAML 1.1 and 1.2: `yes` is text, `010` is eight, `1:30` is ninety. One thing is ours: a date
is text, where js-yaml makes an object of it. A number without a fraction is whole, as in
JavaScript: `gpu: 1.0` is one GPU.
"""

from __future__ import annotations

import re

MAX_NUMBER = 100  # characters; longer ones are no quantity of anything
MAX_WHOLE = 2**53  # from here on, JavaScript's numbers have gaps

Plain = str | int | float | bool | None

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
TRUE = frozenset({"true", "True", "TRUE"})
FALSE = frozenset({"false", "False", "FALSE"})
BASES = {"b": 2, "x": 16}
WHOLE = re.compile(
    r"[-+]?(?:0b[01_]*[01]|0x[0-9a-fA-F_]*[0-9a-fA-F]|0[0-7_]*[0-7]|0|[1-9](?:[0-9_]*[0-9])?)",
    re.ASCII,
)
SIXTIES = re.compile(
    r"[-+]?(?:[1-9][0-9_]*(?::[0-5]?[0-9])+|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)(?<!_)",
    re.ASCII,
)
FLOAT = re.compile(
    r"(?:[-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"
    r"|\.[0-9_]+(?:[eE][-+]?[0-9]+)?)(?<!_)",
    re.ASCII,
)
INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})


def read(text: str) -> Plain:
    """The value of a scalar that has neither quotes nor a tag."""
    if text in NULLS:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    return text if len(text) > MAX_NUMBER else _number(text)


def whole(value: float) -> int | float:
    """Return an int where JavaScript makes no difference."""
    return int(value) if value.is_integer() and abs(value) < MAX_WHOLE else value


def _number(text: str) -> Plain:
    if WHOLE.fullmatch(text):
        return _whole(text.replace("_", ""))
    if SIXTIES.fullmatch(text):
        return _sixties(text.replace("_", ""))
    if FLOAT.fullmatch(text) and any(char.isdigit() for char in text):
        return whole(float(text.replace("_", "")))
    if INFINITE.fullmatch(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if text in NOT_A_NUMBER else text


def _whole(digits: str) -> int:
    sign, digits = _signed(digits)
    if len(digits) > 1 and digits[0] == "0":
        return sign * int(digits, BASES.get(digits[1], 8))
    return sign * int(digits)


def _sixties(digits: str) -> int | float:
    sign, digits = _signed(digits)
    total = 0.0
    for part in digits.split(":"):
        total = total * 60 + float(part)
    return whole(sign * total)


def _signed(digits: str) -> tuple[int, str]:
    return -1 if digits[0] == "-" else 1, digits.lstrip("+-")
