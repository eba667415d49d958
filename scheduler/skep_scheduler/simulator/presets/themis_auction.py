"""Themis' auction in the rounds of the preset `shockwave`, as policy `themis_auction`.

A job holds its GPUs for a term; at each round the GPUs of terms that ended, and idle ones, are
auctioned among the jobs without a term (`policies.themis`). Jobs are rigid, so that a bid is for
none or for all of a job's GPUs: without them it waits for a term more.
"""

from __future__ import annotations

from collections.abc import Sequence

from skep_scheduler.policies.themis import Bidder, auction
from skep_scheduler.simulator.presets.shockwave import EpochJob

TERM_S = 1200.0


class Auctions:
    """Terms by job number, and how many jobs there were in the rounds of each job's life."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._until: dict[int, float] = {}
        self._crowd: dict[int, tuple[int, int]] = {}

    def came(self, job: EpochJob, now: float) -> None:
        self._crowd[job.number] = (0, 0)

    def ran(self, ran: Sequence[EpochJob], ended: Sequence[EpochJob]) -> None:
        for job in ended:
            self._until.pop(job.number, None)
            del self._crowd[job.number]

    def choose(self, jobs: Sequence[EpochJob], now: float) -> list[EpochJob]:
        holding = [job for job in jobs if self._until.get(job.number, 0.0) > now]
        free = self._gpus - sum(job.gpus for job in holding)
        others = [job for job in jobs if self._until.get(job.number, 0.0) <= now]
        for job in jobs:
            seen, rounds = self._crowd[job.number]
            self._crowd[job.number] = (seen + len(jobs), rounds + 1)
        granted = auction([self._bid(job, now) for job in others], free)
        for job, gangs in zip(others, granted, strict=True):
            if gangs:
                self._until[job.number] = now + TERM_S
                holding.append(job)
        return holding

    def _bid(self, job: EpochJob, now: float) -> Bidder:
        seen, rounds = self._crowd[job.number]
        ideal = job.alone * max(1.0, seen / rounds / self._gpus)
        soonest = max(now - job.arrival + max(job.left, 0) / job.rate, 1e-6)
        return Bidder(((soonest + TERM_S) / ideal, soonest / ideal), job.gpus)
