"""Tiresias (Gu et al., NSDI 2019): two-dimensional least attained service, and the Gittins index.

2D-LAS, section 3.2. The attained service `a_j` of job j is the GPU time that it was given: GPUs
`n_j` times seconds. Service is discretised into K queues by thresholds `limits` (GPU-seconds): a
job starts in queue 0 and belongs to queue q once `a_j >= limits[q - 1]`. Queues are served in
order, each first in, first out; a job of a later queue yields to one of an earlier queue.

2D-Gittins, section 3.3, where the distribution of service is known: within a queue the job with
the largest `G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a]` comes first. `Gittins` is the
form of the published simulator: `D` is fixed, the distribution is a sorted sample, and by a habit
the mean is of `S` where `S - a` is at most `D`, so that the index falls with `a` even where nothing
is learned by serving (exponential services). Live the sample is what the last jobs of the virtual
cluster that ended were served, however they ended.

Defaults: limits of 3,250 and 7,200 GPU-seconds, as the published simulator has them. It differs
from the paper in that nothing is promoted; the guard against starvation of the queue
(`SKEP_SCHEDULING_STARVATION_S`) stands in for it live.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

from skep_scheduler.policies.base import (
    MOST_SERVICES,
    BackfillMode,
    JobFacts,
    Keep,
    Key,
    Needs,
    Standing,
    parameter,
)

LIMITS = (3250, 7200)
LEAST_SERVICES = 20  # jobs that ended, below which nothing is said of the others


def _first_limit() -> Any:
    return parameter(
        LIMITS[0], "GPU-seconds of service after which a job is in the second queue.", minimum=1
    )


def _second_limit() -> Any:
    return parameter(
        LIMITS[1],
        "GPU-seconds of service after which a job is in the third queue; 0: there is none.",
        minimum=0,
    )


@dataclass(frozen=True, slots=True)
class Tiresias:
    """Jobs that were served less GPU time so far come first, in up to three queues; within a queue
    the first submitted comes first. A job of a later queue yields to one of an earlier queue. No
    durations are needed."""

    name: ClassVar[str] = "tiresias"
    label: ClassVar[str] = "least attained service first"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.DISPLACE

    first_limit_gpu_s: int = _first_limit()
    second_limit_gpu_s: int = _second_limit()

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    @property
    def limits(self) -> tuple[int, ...]:
        """Return the thresholds in ascending order (GPU-seconds)."""
        return tuple(sorted({limit for limit in self._given() if limit}))

    def _given(self) -> tuple[int, int]:
        return self.first_limit_gpu_s, self.second_limit_gpu_s

    def key(self, gang: JobFacts, now: float) -> Key:
        return -gang.priority, bisect_right(self.limits, gang.attained_gpu_s)

    def standing(self, gang: JobFacts) -> Standing:
        queue = bisect_right(self.limits, gang.attained_gpu_s)
        return {
            "policy": self.name,
            "served_gpu_s": round(gang.attained_gpu_s),
            "queue": queue + 1,
            "queues": len(self.limits) + 1,
        }

    def next_limit(self, attained_gpu_s: float) -> int | None:
        """Return the service at which a job comes into its next queue; None: it is in the last."""
        queue = bisect_right(self.limits, attained_gpu_s)
        return self.limits[queue] if queue < len(self.limits) else None


class Gittins:
    """The index of a job by what it was served so far, for services drawn as `sample`."""

    def __init__(self, sample: Sequence[float], delta: float = LIMITS[0]) -> None:
        """`sample` are services of past jobs and `delta` the quantum, all in GPU-seconds."""
        self.delta, self.sample = delta, sorted(sample)
        self._sums = [0.0, *accumulate(self.sample)]

    def index(self, attained: float) -> float:
        """Return the index, 0 beyond the largest of the sample: the largest goes first."""
        sample, n = self.sample, len(self.sample)
        i = bisect_right(sample, attained)
        if i >= n:
            return 0.0
        k = bisect_right(sample, attained + self.delta)
        k = n - 1 if k >= n else k
        ends = round((k - i) / (n - i), 5)
        mean = round((self._sums[k] - self._sums[i] + self.delta * (n - k)) / (n - i), 5)
        return round(ends * 1e6 / mean, 4)

    def at_sample(self, attained: float) -> float:
        """Return the index as the published simulator looks it up: that of the next service of the
        sample, less 1. It is 0 at and beyond the largest of the sample."""
        i = bisect_right(self.sample, attained)
        return self.index(self.sample[i] - 1) if i < len(self.sample) else 0.0

    def ending(self, attained: float) -> tuple[int, int]:
        """Return how many of the sample were served longer, and how many of these ended within the
        quantum."""
        i, k = (bisect_right(self.sample, limit) for limit in (attained, attained + self.delta))
        return len(self.sample) - i, k - i


@dataclass(frozen=True, slots=True)
class TiresiasGittins:
    """Jobs that were served less GPU time so far come first, in up to three queues; within a queue
    those that are most likely to end soon, by what earlier jobs of the virtual cluster were served
    in all. Running jobs yield. No durations are needed."""

    name: ClassVar[str] = "tiresias_gittins"
    label: ClassVar[str] = "least attained service first, then who probably ends soon"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.DISPLACE

    first_limit_gpu_s: int = _first_limit()
    second_limit_gpu_s: int = _second_limit()
    quantum_gpu_s: int = parameter(
        LIMITS[0], "Soon is within so many GPU-seconds of further service.", minimum=1
    )

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def next_limit(self, attained_gpu_s: float) -> int | None:
        """Return the service at which a job comes into its next queue; None: it is in the last."""
        return self._queues.next_limit(attained_gpu_s)

    @property
    def _queues(self) -> Tiresias:
        return Tiresias(self.first_limit_gpu_s, self.second_limit_gpu_s)

    def by_services(self, services: Sequence[float]) -> OrderBySample:
        """Return the order by a sample of services (GPU-seconds)."""
        sample = tuple(services[-MOST_SERVICES:])
        known = _gittins(sample, self.quantum_gpu_s) if len(sample) >= LEAST_SERVICES else None
        return OrderBySample(self._queues, known, len(sample))

    def key(self, gang: JobFacts, now: float) -> Key:
        return self.by_services(()).key(gang, now)


@dataclass(frozen=True, slots=True)
class OrderBySample:
    """2D-Gittins by a sample of services. `gittins` None: they are too few, `known` of them, and
    within a queue the first submitted comes first."""

    queues: Tiresias
    gittins: Gittins | None
    known: int

    name: ClassVar[str] = TiresiasGittins.name
    label: ClassVar[str] = TiresiasGittins.label
    needs: ClassVar[Needs] = TiresiasGittins.needs
    keep: ClassVar[Keep] = TiresiasGittins.keep

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def key(self, gang: JobFacts, now: float) -> Key:
        index = self.gittins.at_sample(gang.attained_gpu_s) if self.gittins is not None else 0.0
        return *self.queues.key(gang, now), -index

    def next_limit(self, attained_gpu_s: float) -> int | None:
        """Return the service at which a job comes into its next queue; None: it is in the last."""
        return self.queues.next_limit(attained_gpu_s)

    def standing(self, gang: JobFacts) -> Standing:
        found = {**self.queues.standing(gang), "policy": self.name}
        if self.gittins is None:
            return {**found, "earlier_jobs": self.known, "least_jobs": LEAST_SERVICES}
        earlier, ended = self.gittins.ending(gang.attained_gpu_s)
        soon = round(self.gittins.delta)
        return {**found, "earlier_jobs": earlier, "ended_soon": ended, "soon_gpu_s": soon}


@lru_cache(maxsize=64)
def _gittins(sample: tuple[float, ...], delta: float) -> Gittins:
    return Gittins(sample, delta)
