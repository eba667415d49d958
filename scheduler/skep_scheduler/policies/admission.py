"""What policies that admit jobs by their deadline share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skep_scheduler.policies.base import parameter

MOST_AHEAD_S = 366 * 86400.0  # deadlines later than that are not searched
CLOSE_S = 60.0  # how exactly


def admission_parameter() -> Any:
    """Declare what becomes of a job whose deadline cannot be met."""
    return parameter(
        "refuse",
        "What happens to a job that is submitted with a deadline which cannot be met, or only if "
        "another one is missed: `refuse` refuses it, with the earliest deadline that it can have; "
        "`warn` accepts it.",
        choices=("refuse", "warn"),
    )


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
