"""When a waiting gang starts, as an interval, from predicted durations.

The durations of all gangs before it are drawn many times, each from its own prediction, and the
queue is run on with each draw: gangs start in the order of the queue as soon as enough GPUs are
free. The interval holds the middle `COVERAGE` of the starts. GPUs are counted, without places, and
no job is preempted. Equal facts give equal intervals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

COVERAGE = 0.8
DRAWS = 100
OVERRUN = 0.05  # of what it ran: how long one that overran every estimate is taken to run yet


@dataclass(frozen=True, slots=True)
class Lasts:
    """A predicted duration (seconds): it holds with the probability `COVERAGE` between `low` and
    `high`, and is as often below `median` as above."""

    low: float
    median: float
    high: float

    def at(self, share: float) -> float:
        """Return the duration that this share of jobs does not exceed: linear between the known
        ones, from half of the low one to one and a half times the high one."""
        known = (0.5 * self.low, self.low, self.median, self.high, 1.5 * self.high)
        marks = (0.0, 0.1, 0.5, 0.9, 1.0)
        for i in range(1, len(marks)):
            if share <= marks[i]:
                part = (share - marks[i - 1]) / (marks[i] - marks[i - 1])
                return known[i - 1] + part * (known[i] - known[i - 1])
        return known[-1]

    def left(self, ran: float, random: Random) -> float:
        """Draw how much longer one runs that ran so long already."""
        for _ in range(8):
            drawn = self.at(random.random())
            if drawn > ran:
                return drawn - ran
        return max(1.5 * self.high - ran, OVERRUN * ran)


@dataclass(frozen=True, slots=True)
class LineJob:
    """gpus: of all its tasks; lasts: None where nothing is known; ran: seconds since it started"""

    id: str
    gpus: int
    lasts: Lasts | None
    ran: float = 0.0


def intervals(
    gpus: int,
    running: Sequence[LineJob],
    queue: Sequence[LineJob],
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return for gangs of the `queue` the earliest and latest start, in seconds from now. One
    behind a gang of which no duration is known has none, and neither has one that needs more
    than all `gpus`."""
    if any(job.lasts is None for job in running):
        return {}
    known: list[LineJob] = []
    for job in queue:
        if job.gpus > gpus:
            continue
        known.append(job)
        if job.lasts is None:
            break
    random = Random(seed)  # noqa: S311 (no secret is made of it)
    starts: dict[str, list[float]] = {job.id: [] for job in known}
    for _ in range(draws):
        free = gpus - sum(job.gpus for job in running)
        ends = [(job.lasts.left(job.ran, random), job.gpus) for job in running if job.lasts]
        heapq.heapify(ends)
        now = 0.0
        for job in known:
            while free < job.gpus:
                at, gone = heapq.heappop(ends)
                now, free = max(now, at), free + gone
            starts[job.id].append(now)
            if job.lasts is not None:
                free -= job.gpus
                heapq.heappush(ends, (now + job.lasts.left(0.0, random), job.gpus))
    outside = round(draws * (1 - COVERAGE) / 2)
    found = {job: sorted(of_job) for job, of_job in starts.items()}
    return {job: (of_job[outside], of_job[-1 - outside]) for job, of_job in found.items()}
