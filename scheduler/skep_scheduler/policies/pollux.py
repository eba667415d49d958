"""Pollux (Qiao et al., OSDI 2021): sizes by goodput, for all jobs together.

Rule, section 4.2: `SPEEDUP_j(K)` is the goodput of job j on K GPUs by that on its fair share,
`ceil(GPUs / jobs)`. A job that would have to restart keeps `max(age - restarts * d, 0) / (age + d)`
of it. Maximise the power mean

    (1 / J * sum (SPEEDUP_j + 0.001) ** p) ** (1 / p),  p = -1

so that a job with little counts most. The paper searches with a genetic algorithm, unseeded; this
is greedy: all begin without GPUs, and the step to a larger size that adds most for each GPU is
taken, until none fits. Sizes are powers of two within a node and whole nodes beyond, so that a
placement always exists; the paper has any size, and weighs where the GPUs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar

from skep_scheduler.policies.base import Keep, Needs, parameter

LEAST_SPEEDUP = 1e-3


@dataclass(frozen=True, slots=True)
class Pollux:
    """Jobs change their size every minute, so that all of them together make good progress."""

    power: float = parameter(-1.0, "p of the power mean", minimum=-10, maximum=-0.1)
    restart_s: int = parameter(30, "Seconds that a restart takes", minimum=0, maximum=3600)
    round_s: int = parameter(60, "Seconds between decisions", minimum=10, maximum=3600)

    name: ClassVar[str] = "pollux"
    label: ClassVar[str] = "goodput"
    needs: ClassVar[Needs] = Needs(otherwise="It runs at the size that it asks for.")
    keep: ClassVar[Keep] = Keep.DISPLACE


@dataclass(frozen=True, slots=True)
class Speedups:
    """`by_size` has the speed-up at each size, 0 where it is not allowed. The job has the size with
    the index `present` now."""

    by_size: Sequence[float]
    present: int | None = None
    restart_factor: float = 1.0


def decide(
    policy: Pollux, jobs: Sequence[Speedups], sizes: Sequence[int], gpus: int
) -> list[int | None]:
    """Return the index of the size of each job, None for no GPUs. `sizes` ascend."""
    taken: list[int | None] = [None] * len(jobs)

    def worth(job: int, size: int | None) -> float:
        """Return what a job adds to the power mean (the less its power, the more)."""
        speedup = 0.0
        if size is not None:
            known = jobs[job]
            kept = known.present is None or size == known.present
            speedup = known.by_size[size] * (1.0 if kept else known.restart_factor)
        return -float((speedup + LEAST_SPEEDUP) ** policy.power)

    def step(job: int, left: int) -> tuple[float, int, int] | None:
        """Return (-gain for each GPU, job, size) of the best step up, None where there is none."""
        now = taken[job]
        held, before = (0, worth(job, None)) if now is None else (sizes[now], worth(job, now))
        best = None
        for size in range(0 if now is None else now + 1, len(sizes)):
            more = sizes[size] - held
            if more > left or jobs[job].by_size[size] <= 0:
                continue
            gain = (worth(job, size) - before) / more
            if gain > 0 and (best is None or -gain < best[0]):
                best = -gain, job, size
        return best

    left = gpus
    steps = [found for job in range(len(jobs)) if (found := step(job, left)) is not None]
    heapify(steps)
    while steps:
        _, job, size = heappop(steps)
        now = taken[job]
        more = sizes[size] - (0 if now is None else sizes[now])
        if more <= left:
            taken[job], left = size, left - more
        following = step(job, left)
        if following is not None:
            heappush(steps, following)
    return taken
