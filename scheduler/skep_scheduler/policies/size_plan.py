"""Plans of sizes over time, for jobs with deadlines on GPUs of which some are taken.

`F(t)` is how many GPUs are free from t on, a step function (`FreeProfile`). `fill` makes the
minimum satisfactory share of ElasticFlow (Gu et al., ASPLOS 2023, section 4.1), which `elasticflow`
uses. A plan ends with a slot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf

SLOT_S = 60
ALMOST = 1 + 1e-12  # rounding of floats makes no job late
Segment = tuple[float, float, int]  # (from, until, GPUs)


@dataclass
class SizePlan:
    """How many GPUs a job has, piece by piece without gaps. Its steps are made at `ends_at`; the
    last piece goes on to the end of that slot. `met`: it meets the deadline."""

    pieces: Sequence[Segment] = ()
    ends_at: float = inf
    met: bool = False

    @property
    def gpus(self) -> int:
        return self.pieces[0][2] if self.pieces else 0

    @cached_property
    def gpu_s(self) -> float:
        return sum((until - start) * gpus for start, until, gpus in self.pieces if gpus)

    def changes_at(self) -> float:
        """Return when its number of GPUs changes for the first time."""
        now = self.gpus
        return next((start for start, _, gpus in self.pieces if gpus != now), self.until)

    @property
    def until(self) -> float:
        return self.pieces[-1][1] if self.pieces else inf


@dataclass(slots=True)
class ElasticJob:
    """What the policy knows of a job, and what it plans for it."""

    id: str
    rates: Mapping[int, float]
    levels: Sequence[int]
    deadline: float
    left: float
    plan: SizePlan = field(default_factory=SizePlan)

    def level(self, free: int) -> int:
        """Return the largest size that fits on so many GPUs, 0 for none."""
        at = bisect_right(self.levels, free)
        return self.levels[at - 1] if at else 0

    def next_level(self) -> int:
        """Return the size after that of its plan now, 0 for none."""
        at = bisect_right(self.levels, self.plan.gpus)
        return self.levels[at] if at < len(self.levels) else 0


class FreeProfile:
    """The GPUs that are free: `free[i]` from `times[i]` on, the first of which is `now`."""

    def __init__(self, now: float, gpus: int, slot: float = SLOT_S) -> None:
        self.now, self.slot = now, slot
        self.times: list[float] = [now]
        self.free = [gpus]

    def take(self, plan: SizePlan, sign: int = 1) -> None:
        """Take what a plan has; with a sign of -1 give it back."""
        times, free = self.times, self.free
        for start, until, gpus in plan.pieces:
            if gpus:
                first, last = self._cut(start), self._cut(until)
                for n in range(first, last):
                    free[n] -= sign * gpus
        keep = [0, *(n for n in range(1, len(free)) if free[n] != free[n - 1])]
        self.times, self.free = [times[n] for n in keep], [free[n] for n in keep]

    def _cut(self, at: float) -> int:
        if at == inf:
            return len(self.times)
        n = bisect_left(self.times, at)
        if n == len(self.times) or self.times[n] != at:
            self.times.insert(n, at)
            self.free.insert(n, self.free[n - 1])
        return n

    def align(self, at: float) -> float:
        """Return the end of the slot of a moment."""
        return at if at == inf else self.now + ceil((at - self.now) / self.slot) * self.slot

    def next_change(self) -> float:
        return self.times[1] if len(self.times) > 1 else inf


def fill(job: ElasticJob, profile: FreeProfile, start: float, left: float) -> SizePlan:
    """Return a plan from `start` on for `left` steps: with the least level that meets the deadline
    and as late as possible, or else with as many GPUs as there are."""
    times, free = profile.times, profile.free
    last = bisect_left(times, profile.align(job.deadline)) - 1
    below = 0
    for size in job.levels if job.deadline > start else ():
        work, until = 0.0, job.deadline
        for n in range(last, -1, -1):
            begin = max(times[n], start)
            if begin < until:
                gpus = job.level(min(size, free[n]))
                work += job.rates[gpus] * (until - begin) if gpus else 0.0
                if work * ALMOST >= left:
                    return _forwards(job, profile, start, left, (begin, below, size))
                until = begin
            if begin <= start:
                break
        below = size
    return _forwards(job, profile, start, left, (start, 0, job.levels[-1]))


def _forwards(
    job: ElasticJob,
    profile: FreeProfile,
    start: float,
    left: float,
    sizes: tuple[float, int, int],
) -> SizePlan:
    """Plan `left` steps with at most the first of the sizes before a moment, the second after."""
    since, below, size = sizes
    times, free = profile.times, profile.free
    pieces: list[Segment] = []
    n, at = bisect_right(times, start) - 1, start
    while True:
        n += 1
        until = times[n] if n < len(times) else inf
        gpus = job.level(min(size if at >= since else below, free[n - 1]))
        if gpus:
            rate = job.rates[gpus]
            made = rate * (until - at)
            if made * ALMOST >= left:
                ends_at = at + left / rate
                end = max(profile.align(ends_at), at + profile.slot)
                pieces.append((at, end, gpus))
                return SizePlan(pieces, ends_at, ends_at <= job.deadline * ALMOST)
            left -= made
        if until == inf:
            return SizePlan((*pieces, (at, inf, 0)))
        pieces.append((at, until, gpus))
        at = until
