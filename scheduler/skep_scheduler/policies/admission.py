"""The earliest deadline that a policy with admission would accept."""

from __future__ import annotations

from collections.abc import Callable

MOST_AHEAD_S = 366 * 86400.0  # deadlines later than that are not searched
CLOSE_S = 60.0  # how exactly


def earliest_deadline(admits: Callable[[float], bool], now: float, least_s: float) -> float | None:
    """Return the earliest deadline that is admitted (seconds since the epoch), to `CLOSE_S`, at
    least `least_s` from now; None: there is none in `MOST_AHEAD_S`."""
    before, after = 0.0, least_s
    while not admits(now + after):
        before, after = after, after * 2
        if before > MOST_AHEAD_S:
            return None
    while after - before > CLOSE_S:
        between = (before + after) / 2
        before, after = (before, between) if admits(now + between) else (between, after)
    return now + after
