"""Amounts and times as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listing(parts: Sequence[str]) -> str:
    """Join parts, as in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def cpus(millis: int) -> str:
    return "1 CPU" if millis == 1000 else f"{millis / 1000:g} CPUs"


def memory(mebibytes: int) -> str:
    whole = mebibytes % 1024 == 0
    return f"{mebibytes // 1024} GiB" if whole else f"{mebibytes} MiB"


def soon(seconds: float) -> str:
    """A time from now, rounded so that it does not change with every look."""
    minutes = max(round(seconds / 60), 0)
    if minutes < 1:
        return "in less than a minute"
    if minutes < 60:
        return f"in about {minutes if minutes < 10 else round(minutes / 5) * 5} min"
    if minutes < 48 * 60:
        hours = round(minutes / 30) / 2
        return f"in about {hours:g} h"
    return f"in about {round(minutes / 1440)} days"
