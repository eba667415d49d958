"""Quantities and command lines of Kubernetes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from skep_jobfile.importers import shell_text
from skep_jobfile.importers.result import refused

UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(?:[eE]([0-9]{1,2})|([numkMGTPE]i?|Ki)?)")
MIB = 2**20
MAX_VALUE = 100_000  # characters of one variable, expanded
REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
SHELLS = frozenset({"sh", "bash", "ash", "dash"})


def amount(value: Any) -> Decimal | None:
    """None for what is no quantity, or below zero."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = QUANTITY.fullmatch(str(value).strip())
    if found is None or (found[3] or "") not in UNITS:
        return None
    return Decimal(found[1]) * UNITS[found[3] or ""] * 10 ** int(found[2] or 0)


def whole(value: Decimal) -> int:
    """Rounded up: half a CPU is one."""
    return int(value.to_integral_value(ROUND_CEILING))


def mib(value: Decimal) -> int:
    return whole(value / MIB)


def script(words: Sequence[str], known: Collection[str]) -> str:
    """The command line as shell, where $(NAME) becomes the variable if it is one of `known`."""
    if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] in ("-c", "-ec"):
        return _shell(words[0].rpartition("/")[2], words[1], _replaced(words[2], known).strip())
    return " ".join(_word(word, known) for word in words)


def arguments(words: Sequence[str], known: Collection[str]) -> str:
    """Return the words as shell, where $(NAME) becomes the variable if it is one of `known`."""
    return " ".join(_word(word, known) for word in words)


def expanded(value: str, known: Mapping[str, str]) -> str:
    """The value of a variable that uses earlier ones: at most MAX_VALUE characters of what they
    expand to. Raises InvalidJobFile: variables that use each other twice grow exponentially."""
    left = MAX_VALUE

    def printed(found: re.Match[str]) -> str:
        nonlocal left
        text = "$" if found[2] is None else known.get(found[2], found[0])
        left -= len(text)
        if left < 0:
            raise refused("too_much_text", f"A variable has at most {MAX_VALUE} characters.")
        return text

    return REFERENCE.sub(printed, value)


def _shell(name: str, option: str, text: str) -> str:
    """Commands are run by sh anyway."""
    if name == "sh":
        return f"set -e\n{text}" if option == "-ec" else text
    return shell_text.run([name, option], text, "COMMAND")


def _word(word: str, known: Collection[str]) -> str:
    """Quoted for a shell, but for the variables in it."""
    parts, place = [], 0
    for found in REFERENCE.finditer(word):
        if found[2] is not None and found[2] not in known:
            continue  # stays as it is written
        parts.append(_quoted(word[place : found.start()]))
        parts.append("'$'" if found[2] is None else f'"${{{found[2]}}}"')
        place = found.end()
    parts.append(_quoted(word[place:]))
    return "".join(parts) or "''"


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def _replaced(text: str, known: Collection[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[2] is None:
            return "$"
        return f"${{{found[2]}}}" if found[2] in known else found[0]

    return REFERENCE.sub(value, text)
