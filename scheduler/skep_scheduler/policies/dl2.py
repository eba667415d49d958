"""DL2 (Peng et al., 2019, arXiv:1909.06040): a network learns sizes. Experimental.

Rule, section 3: time goes in slots of `slot_s`. At the start of a slot each job gets one GPU while
there are any; then the network is asked again and again which job gets one more, or to *skip*,
which ends the slot's decisions. It learns first from the decisions of DRF (with one kind of GPU:
equal sizes), and then by the policy gradient.

It differs from the paper: a network scores each job by itself (`network`), where the paper has 20
jobs side by side; it has workers only, as all-reduce has no parameter servers; the speeds of a job
stand for its type; where jobs are more than GPUs the network also chooses who gets the first ones;
the reward is less by one for each job and slot, the sum of completion times, where the paper adds
up progress; the baseline is the mean of several runs of the same trace, instead of a second
network; and a slot is 2 minutes, as jobs here take minutes (paper: 20 minutes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log1p
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.elastic import ElasticFacts
from skep_scheduler.policies.learned import Choose, starving

FREE = 9  # the feature that changes with each choice


@dataclass(frozen=True, slots=True)
class Dl2:
    """Experimental: each slot a network that was trained in the simulator chooses who gets one more
    GPU, until it skips."""

    name: ClassVar[str] = "dl2"
    features: ClassVar[tuple[str, ...]] = (
        "skip",
        "slots since submission",
        "remaining time",
        "part of it saved by one more",
        "time saved by one more",
        "part of all GPUs",
        "GPUs, of 16",
        "part of work done",
        "no rescale",
        "free GPUs",
        "jobs for each GPU",
        "no GPU yet",
    )

    slot_s: float = parameter(120.0, "Seconds between two decisions.", minimum=1, maximum=86400)
    most: int = parameter(16, "The most GPUs of one job.", minimum=1, maximum=1024)
    starvation_s: float = parameter(
        21600.0, "A job that waited longer comes first.", minimum=60, maximum=31536000
    )

    def is_due(self, now: float) -> bool:
        return now - floor(now / self.slot_s + 1e-9) * self.slot_s <= 1e-6

    def next_at(self, now: float, *, waits: bool) -> float:
        return (floor(now / self.slot_s + 1e-9) + 1) * self.slot_s

    def sizes(
        self, jobs: Sequence[ElasticFacts], gpus: int, now: float, choose: Choose
    ) -> dict[str, int]:
        import numpy as np

        first = list(jobs) if len(jobs) <= gpus else starving(jobs, now, self.starvation_s)
        given = {job.id: job.least for job in _fitting(first, gpus)}
        free = gpus - sum(given.values())
        crowd = len(jobs) / gpus
        rows = np.array(
            [self._row(job, given.get(job.id, 0), gpus, now, crowd) for job in jobs]
            + [[1.0, *[0.0] * 9, _squash(crowd), 0.0]]
        )
        keys = [float(given.get(job.id, 0)) for job in jobs] + [float("inf")]
        allowed = [self._next(job, given.get(job.id, 0)) for job in jobs]
        skips = len(jobs) <= gpus  # no job waits for what stays idle
        while free > 0:
            open_ = [n for n, size in enumerate(allowed) if 0 < size - keys[n] <= free]
            if not open_:
                break
            if skips:
                open_.append(len(jobs))
            rows[:, FREE] = free / gpus
            taken = open_[choose(rows[open_], [keys[n] for n in open_])]
            if taken == len(jobs):
                break
            job, size = jobs[taken], allowed[taken]
            free -= size - given.get(job.id, 0)
            given[job.id] = size
            keys[taken] = float(size)
            allowed[taken] = self._next(job, size)
            rows[taken] = self._row(job, size, gpus, now, crowd)
        return given

    def _next(self, job: ElasticFacts, size: int) -> int:
        """Return its next size, 0 where it would be no faster."""
        if not size:
            return job.least
        more = size + 1
        limit = max(min(job.largest, self.most), job.least)
        return more if more <= limit and job.rate(more) > job.rate(size) else 0

    def _row(
        self, job: ElasticFacts, size: int, gpus: int, now: float, crowd: float
    ) -> list[float]:
        at = max(size, job.least)
        left = job.left_s(at)
        after = job.left_s(at + 1) if size and at < job.largest else left
        saved = left if not size else max(left - after, 0.0)
        return [
            0.0,
            _squash((now - job.submitted_at) / self.slot_s / 10),
            _scaled(left),
            saved / left if left > 0 else 0.0,
            _scaled(saved),
            size / gpus,
            min(size / 16, 1.0),
            1 - job.left / job.total if job.total else 1.0,
            float(size < job.held),
            0.0,
            _squash(crowd),
            float(not size),
        ]


def _fitting(jobs: Sequence[ElasticFacts], gpus: int) -> list[ElasticFacts]:
    """Return the jobs, in order, whose least sizes fit together."""
    found = []
    for job in jobs:
        if job.least <= gpus:
            found.append(job)
            gpus -= job.least
    return found


def _squash(value: float) -> float:
    return value / (1 + value)


def _scaled(seconds: float) -> float:
    """Return 0 to 1 for nothing to twelve days."""
    return min(log1p(max(seconds, 0.0)) / log1p(1e6), 1.0)
