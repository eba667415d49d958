"""Themis in the preset `muri-n8g8`, as Muri's artifact has it: the least of the largest rho.

At each event shares `x_j` are made that minimise the largest
`rho_j = (now - submitted + left_j / x_j) / isolated_j`, with the seconds of work that are left.
Habits: `isolated_j` is `done / share + left / share` with the share `min(1, ceil(N / J) / n_j)` of
each time; the priority of a job is its share by the time that it held GPUs so far. Jobs are packed
in that order, and others that fit run behind. The released code counts `isolated_j` in iterations;
the printed p99 is that of seconds, as the paper has it (`docs/policies/themis.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from skep_scheduler.policies.one_model import finish_time_fair
from skep_scheduler.simulator.presets.muri import MuriJob, _Events, _outcome, _pack, check_sizes
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import TraceJob


class _Fairness:
    """What is kept of jobs from one event to the next."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._isolated: dict[MuriJob, float] = {}
        self._before: dict[MuriJob, tuple[float, float]] = {}
        self._owed: dict[MuriJob, float] = {}
        self._last = 0.0

    def order(self, jobs: Sequence[MuriJob], now: float) -> list[MuriJob]:
        part = ceil(self._gpus / len(jobs))
        shares = [min(part / job.gpus, 1.0) for job in jobs]
        for job in jobs:
            if job in self._before:
                left_s, share = self._before[job]
                self._isolated[job] = self._isolated.get(job, 0.0) + (left_s - job.left_s) / share
        isolated = [
            self._isolated.get(job, 0.0) + job.left_s / share
            for job, share in zip(jobs, shares, strict=True)
        ]
        self._before = {job: (job.left_s, share) for job, share in zip(jobs, shares, strict=True)}
        given = finish_time_fair(
            [now - job.submitted_at for job in jobs],
            [job.left_s for job in jobs],
            [max(own, 1e-9) for own in isolated],
            [job.gpus for job in jobs],
            self._gpus,
        )
        keys = {}
        for job, share in zip(jobs, given, strict=True):
            priority = share / job.held_s if job.held_s else share * 1e9
            owed = self._owed.get(job, 0.0)
            keys[job] = (priority, owed - job.held_s, share)
            self._owed[job] = owed + share * (now - self._last)
        self._last = now
        return sorted(jobs, key=lambda job: keys[job], reverse=True)


def run_themis(jobs: Sequence[TraceJob], nodes: Sequence[int], report: Any = None) -> Outcome:
    """Run under min-max finish-time fairness."""
    check_sizes(jobs, sum(nodes), nodes)
    events, active = _Events(jobs, MuriJob), list[MuriJob]()
    fairness = _Fairness(sum(nodes))
    while events.pending or active:
        now, new = events.next()
        done = events.ended(now)
        for job in active:
            if job.running:
                job.progress(now)
        for job in done:
            job.ended_at, job.running = now, False
            active.remove(job)
        active += new
        if active:
            active = fairness.order(active, now)
        placed = _pack(active, nodes)
        active.sort(key=lambda job: -job.gpus)
        for job in active:
            job.set_running(job in placed, now)
        events.estimate((now + job.left_s, job) for job in active if job.running)
        events.report(report)
    return _outcome(events.jobs, sum(nodes))
