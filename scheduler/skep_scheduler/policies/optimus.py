"""Optimus (Peng et al., EuroSys 2018): sizes by the gain of one worker more.

Rule, section 4.1: at the start of each interval every job gets one worker, in the order of its
submission; then one more goes to the job with the largest `(t(w) - t(w + 1)) / d`, until no job
gains or no GPU is left. `t(w)` is the time that its remaining work takes on w workers, and `d` the
part of the cluster that a worker takes, which is the same for all here (one GPU). The gain of a job
in the first part of its work counts `early_factor` (section 4.1: its estimate is poor).

What is left, section 3.1: the loss after k epochs is `l(k) = 1 / (a k + b) + c`, fitted by
non-negative least squares for a range of c (`fit_loss`); a job has converged at the first epoch
with `(l(e) - l(e + 1)) / l_max < 0.05` for 10 epochs (`epochs_to_converge`). Speed, section 3.2:
`f(w) = 1 / (x0 M / w + x1 + x2 w)` for all-reduce (`fit_speed`), which is the paper's formula
without parameter servers. The simulator has exact work and rates, so that it needs no fit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import floor, inf
from typing import ClassVar

from skep_scheduler.policies.base import Needs, parameter
from skep_scheduler.policies.elastic import NEEDS, ElasticFacts, Sizes


@dataclass(frozen=True, slots=True)
class Optimus:
    """Every interval each job gets one GPU, and then one more goes where it saves most time. Jobs
    that arrive wait for the next interval."""

    name: ClassVar[str] = "optimus"
    label: ClassVar[str] = "one GPU each, then where they save most time"
    needs: ClassVar[Needs] = NEEDS

    interval_s: float = parameter(600.0, "Seconds between two decisions.", minimum=1, maximum=86400)
    early_part: float = parameter(
        0.0, "The first part of the work, in which a gain counts less.", minimum=0, maximum=1
    )
    early_factor: float = parameter(
        0.95, "What a gain counts in the first part of the work.", minimum=0, maximum=1
    )

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        passed = floor(now / self.interval_s + 1e-9) * self.interval_s
        wake_at = passed + self.interval_s
        if now - passed > 1e-6:
            return Sizes({job.id: job.held for job in jobs}, wake_at=wake_at)
        return Sizes(self.sizes(jobs, gpus), wake_at=wake_at)

    def sizes(self, jobs: Sequence[ElasticFacts], gpus: int) -> dict[str, int]:
        """Return the GPUs of each job by its id."""
        given, heap = dict[str, int](), list[tuple[float, int]]()
        free = gpus
        for number, job in enumerate(jobs):
            if job.least <= free:
                given[job.id] = job.least
                free -= job.least
                heapq.heappush(heap, (-self._gain(job, job.least), number))
        while free and heap:
            gain, number = heapq.heappop(heap)
            if gain >= 0:
                break
            job = jobs[number]
            given[job.id] += 1
            free -= 1
            heapq.heappush(heap, (-self._gain(job, given[job.id]), number))
        return given

    def _gain(self, job: ElasticFacts, gpus: int) -> float:
        if gpus >= job.largest:
            return 0.0
        early = job.total - job.left < self.early_part * job.total
        saved = job.left_s(gpus) - job.left_s(gpus + 1)
        return saved * (self.early_factor if early else 1.0)


def fit_loss(losses: Sequence[float]) -> Callable[[float], float] | None:
    """Return `l(k)` fitted to the losses of epochs 0, 1, ...; None where fewer than three are
    known or nothing fits. Later epochs weigh more (1, 2 and 4 by thirds)."""
    if len(losses) < 3:
        return None
    weights = [2.0 ** (3 * k // len(losses)) for k in range(len(losses))]
    least = min(losses)
    best: tuple[float, float, float, float] | None = None
    for step in range(20):
        c = least * (step / 20 if least > 0 else 1 + step / 20)
        y = [1 / (loss - c) for loss in losses if loss > c]
        if len(y) < len(losses):
            continue
        # Both sides times (l - c): the error is one of the loss and not of its inverse.
        rows = [[w * k / u, w / u] for k, (u, w) in enumerate(zip(y, weights, strict=True))]
        a, b = non_negative(rows, weights)
        if a * (len(losses) - 1) + b <= 0 or b <= 0:
            continue
        error = sum(
            w * (1 / (a * k + b) + c - loss) ** 2
            for k, (loss, w) in enumerate(zip(losses, weights, strict=True))
        )
        if best is None or error < best[0]:
            best = error, a, b, c
    if best is None:
        return None
    _, a, b, c = best
    return lambda k: 1 / (a * k + b) + c


def epochs_to_converge(
    losses: Sequence[float], declared: int, threshold: float = 0.05, patience: int = 10
) -> int:
    """Return the epoch at which the loss has converged, between those done and `declared`."""
    curve = fit_loss(losses)
    if curve is None:
        return declared
    largest, flat = max(losses), 0
    for epoch in range(declared):
        flat = flat + 1 if (curve(epoch) - curve(epoch + 1)) / largest < threshold else 0
        if flat == patience:
            return max(epoch - patience + 1, len(losses))
    return max(declared, len(losses))


def fit_speed(samples: Sequence[tuple[int, float]], batch: float) -> Callable[[int], float]:
    """Return `f(w)` in steps per second, fitted to (workers, steps per second)."""
    rows = [[speed * batch / workers, speed, speed * workers] for workers, speed in samples]
    x = non_negative(rows, [1.0] * len(rows))

    def speed(workers: int) -> float:
        time = x[0] * batch / workers + x[1] + x[2] * workers
        return 1 / time if time > 0 else inf

    return speed


def non_negative(rows: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """Return x >= 0 of least squares for a few unknowns: the best of all sets of those above 0."""
    n = len(rows[0])
    best, least = [0.0] * n, sum(value * value for value in wanted)
    for count in range(1, n + 1):
        for chosen in combinations(range(n), count):
            solved = _solve(
                [[sum(r[i] * r[j] for r in rows) for j in chosen] for i in chosen],
                [sum(r[i] * y for r, y in zip(rows, wanted, strict=True)) for i in chosen],
            )
            if solved is None or min(solved) < 0:
                continue
            x = [0.0] * n
            for at, value in zip(chosen, solved, strict=True):
                x[at] = value
            error = sum(
                (sum(a * b for a, b in zip(row, x, strict=True)) - y) ** 2
                for row, y in zip(rows, wanted, strict=True)
            )
            if error < least:
                best, least = x, error
    return best


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Return x with `matrix x = right` by elimination, None where the matrix is singular."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(n):
        pivot = max(range(at, n), key=lambda row: abs(rows[row][at]))
        if abs(rows[pivot][at]) < 1e-300:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for row in range(n):
            if row != at:
                rows[row] = [
                    v - rows[row][at] * w for v, w in zip(rows[row], rows[at], strict=True)
                ]
    return [row[n] for row in rows]
