"""Durations of jobs that recur, learned from those that ended: Weng et al., "MLaaS in the Wild",
NSDI 2022, section 6.1 (recurrence), and the quantiles that stand for Lucid's model.

A family is what submissions of one thing have in common: the user, the group (what the trace calls
it, else the name without its number, else the model) and the number of GPUs. The durations of the
last `KEPT` jobs of each family that ended are kept; the prediction is the median of the first of
these that has any (of an even number the lower one):

    user_group_gpus: (user, group, GPUs), (user, GPUs), (GPUs), (virtual cluster)
    user_group:      (user, group), (user), (virtual cluster)
    user:            (user), (virtual cluster)

It is causal: only jobs that ended before teach, and a prediction is made once, at submission. What
differs from the paper: it predicts by the mean over all jobs of a group, those to come included, as
its traces have them; a median does not follow the few very long runs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Sequence
from statistics import median_low

KEPT = 200  # durations of each family
SOURCES = ("user_group_gpus", "user_group", "user")
Families = Sequence[Hashable]  # from the narrowest to the widest

_SUFFIX = re.compile(r"[-_.]([0-9]{1,9}|[0-9a-f]{8})$")


def stem(name: str) -> str:
    """Return a name without the suffix by which repeated submissions differ."""
    return _SUFFIX.sub("", name) or name


def families(source: str, user: str, group: str, gpus: int, vc: str) -> Families:
    """Return the families of a job, the narrowest first."""
    wide = ("vc", vc)
    if source == "user":
        return (("user", user), wide)
    if source == "user_group":
        return (("group", user, group), ("user", user), wide)
    return (("group", user, group, gpus), ("user", user, gpus), ("gpus", gpus), wide)


def groups_of(user: str, name: str, gpus: int) -> list[tuple[object, ...]]:
    """Return the families of a job for Lucid's packing, the narrowest first."""
    found: list[tuple[object, ...]] = [(user, name, gpus)] if name else []
    if user:
        found.append((user, gpus))
    return [*found, (gpus,), ()]


class Recurrence:
    """The durations that were seen so far."""

    def __init__(self) -> None:
        self._sorted: dict[Hashable, list[float]] = {}
        self._by_age: dict[Hashable, deque[float]] = {}
        self._errors: list[float] = []

    def predict(self, job: Families) -> float | None:
        """Return the seconds that a job of these families probably runs; None: none ended yet."""
        for family in job:
            known = self._sorted.get(family)
            if known:
                return known[(len(known) - 1) // 2]
        return None

    def learn(self, job: Families, duration_s: float, predicted_s: float | None = None) -> None:
        """Note that a job ended that ran so long, and what was predicted of it."""
        if predicted_s is not None and duration_s > 0:
            self._errors.append(abs(predicted_s - duration_s) / duration_s)
        for family in job:
            known = self._sorted.setdefault(family, [])
            ages = self._by_age.setdefault(family, deque())
            if len(ages) == KEPT:
                del known[bisect_left(known, ages.popleft())]
            ages.append(duration_s)
            insort(known, duration_s)

    def figures(self) -> dict[str, float | int]:
        """Return of how many jobs that ended a duration was predicted, and the median of the
        errors, as parts of the real duration."""
        error = median_low(self._errors) if self._errors else 0.0
        return {"predicted": len(self._errors), "prediction_error_p50": error}
