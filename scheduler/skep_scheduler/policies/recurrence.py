"""How long a job will run, judged by earlier ones that were like it: Lucid (ASPLOS 2023, section 4)
and MLaaS in the Wild (NSDI 2022, section 5) both find that most jobs recur.

The estimate is the median of the last 200 durations of the most specific group that has any: user,
name and GPUs; user and GPUs; GPUs; all. It replaces Lucid's additive model of user, name and hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median_low

KEPT = 200


class Recurrence:
    """Durations of jobs that ended, by group."""

    def __init__(self) -> None:
        self._ended: dict[tuple[object, ...], deque[float]] = {}

    def add(self, groups: Sequence[tuple[object, ...]], duration_s: float) -> None:
        for group in groups:
            self._ended.setdefault(group, deque(maxlen=KEPT)).append(duration_s)

    def expect(self, groups: Sequence[tuple[object, ...]]) -> float | None:
        """Return the estimate for a job of these groups, the most specific first."""
        for group in groups:
            if group in self._ended:
                return median_low(self._ended[group])
        return None


def groups_of(user: str, name: str, gpus: int) -> list[tuple[object, ...]]:
    """Return the groups of a job, the most specific first."""
    found: list[tuple[object, ...]] = [(user, name, gpus)] if name else []
    if user:
        found.append((user, gpus))
    return [*found, (gpus,), ()]
