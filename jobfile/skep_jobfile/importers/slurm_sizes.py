"""Quantities as Slurm writes them."""

from __future__ import annotations

import math
import re

MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024, "P": 1024**3}
MAX_DIGITS = 12
ENDLESS = frozenset({"UNLIMITED", "INFINITE", "0", "-1"})


def whole(text: str) -> int | None:
    """A number of things; None for what is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def nodes(text: str) -> tuple[int, int] | None:
    """At least and at most: `4`, `2-4`, `1k`."""
    found = re.fullmatch(r"([0-9]{1,6})([kK]?)(?:-([0-9]{1,6})([kK]?))?", text)
    if found is None:
        return None
    least = int(found[1]) * (1024 if found[2] else 1)
    most = int(found[3]) * (1024 if found[4] else 1) if found[3] else least
    return (least, most) if 1 <= least <= most else None


def memory_mb(text: str) -> int | None:
    """MiB, rounded up. Without a unit it is MiB."""
    found = re.fullmatch(rf"([0-9]{{1,{MAX_DIGITS}}})(?:([KMGTP])(?:i?B)?)?", text, re.IGNORECASE)
    if found is None:
        return None
    return math.ceil(int(found[1]) * MIB[(found[2] or "M").upper()])


def seconds(text: str) -> int | None:
    """Of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`;
    0 for no limit, None for what is no time."""
    if text.upper() in ENDLESS:
        return 0
    found = re.fullmatch(
        r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?", text
    )
    if found is None:
        return None
    days, *parts = found.groups()
    first, second, third = (int(part) if part else 0 for part in parts)
    if days is not None:
        return int(days) * 86400 + first * 3600 + second * 60 + third
    if found[4] is not None:
        return first * 3600 + second * 60 + third
    return first * 60 + second


def gpus(text: str) -> tuple[str, int] | None:
    """Type ("" for any) and number, of `4`, `a100:4`, `a100`; several types make no sense here."""
    kind, joined, number = text.rpartition(":")
    if not joined and whole(text) is None:
        kind, number = text, "1"
    count = whole(number)
    good = re.fullmatch("[A-Za-z0-9_.-]*", kind)
    return None if count is None or not good else (kind, count)


def gres_gpus(text: str) -> tuple[tuple[str, int] | None, list[str]]:
    """The GPUs among generic resources such as `gpu:a100:4,lustre:1`, and the other ones."""
    found, others = None, []
    for part in text.split(","):
        name, _, rest = part.removeprefix("gres/").replace("=", ":").partition(":")
        amount = gpus(re.sub(r"\(S:[0-9,-]*\)$", "", rest) or "1") if name == "gpu" else None
        if amount is None or found is not None:
            others.append(part)
        else:
            found = amount
    return found, others


MAX_ARRAY = 10_000


def indices(text: str) -> list[int] | None:
    """The indices of an array ("0-9", "1,3,5-15:2", with or without "%4"), or None."""
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        span = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if span is None:
            return None
        first, last = int(span[1]), int(span[2] or span[1])
        step = int(span[3] or 1)
        if last < first or not step or (last - first) // step >= MAX_ARRAY:
            return None
        found += range(first, last + 1, step)
        if len(found) > MAX_ARRAY:
            return None
    return found
