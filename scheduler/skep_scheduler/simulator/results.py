"""What a simulation answers: one result for each job, and the figures that are made of them.

The figures have one definition for all policies and presets:

- job completion time (JCT): end minus submission; queueing: the part of it without GPUs
- percentiles by nearest rank (a preset may have that of its artifact)
- makespan: from the first submission to the last end (a preset may have the last end itself)
- utilisation: GPU time held, of all GPU time within the makespan
- starvation: the longest wait, and how many jobs waited longer than a limit. A job that never ends
  waits until the run is over; refused ones, and ones that ask for more GPUs than there are, do not
- finish-time fairness rho: as `usage.fairness` has it, live too
- deadlines met: jobs that ended by their deadline; refused and late ones missed it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, fsum

from skep_scheduler.simulator.invariants import RunInvariantError
from skep_scheduler.usage.fairness import UNFAIR, Life, finish_time_fairness

STARVED_AFTER_S = 86_400.0


@dataclass(slots=True)
class JobResult:
    """What became of one job. Times are in seconds on the clock of the trace.

    ended_at: None for one that was refused, or still waits when nothing can happen any more
    held_s: how long it held GPUs; gpu_s: its GPU-seconds, where its size changed; else None
    duration_s: how long it runs at the size that it asks for, when it has the GPUs to itself
    met: whether it ended by its deadline; None: it has none
    """

    id: str
    gpus: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    held_s: float
    duration_s: float
    vc: str = ""
    user: str = ""
    preemptions: int = 0
    migrations: int = 0
    gpu_s: float | None = None
    met: bool | None = None
    refused: str = ""

    @property
    def jct_s(self) -> float:
        assert self.ended_at is not None
        return self.ended_at - self.submitted_at


@dataclass(slots=True)
class Outcome:
    """All jobs of a run, on a cluster of `gpus` GPUs.

    absolute_makespan: the makespan is the last end, on the clock of the trace
    p99_by_index: the 99th percentile is `sorted(jct)[int(count * 0.99)]`
    utilisation: as the artifact measures it; None: by the definition above
    queueing_s: job-seconds waited by cause; series: (second, waiting jobs, GPUs in use)
    """

    jobs: list[JobResult]
    gpus: int
    absolute_makespan: bool = False
    p99_by_index: bool = False
    utilisation: float | None = None
    queueing_s: Mapping[str, float] = field(default_factory=dict)
    series: Sequence[tuple[float, int, int]] = ()
    more: Mapping[str, float | int] = field(default_factory=dict)

    def check(self, submitted: int) -> None:
        """Raise `RunInvariantError` unless each of the submitted jobs is there once, and each ended
        once, was refused, or has not ended; and none ran on GPUs that do not exist."""
        found = []
        if len(self.jobs) != submitted:
            found.append(f"{len(self.jobs)} of {submitted} jobs are there.")
        if len({job.id for job in self.jobs}) != len(self.jobs):
            found.append("A job is there twice.")
        for job in self.jobs:
            if job.refused and job.ended_at is not None:
                found.append(f"{job.id} was refused, and ended.")
            if job.ended_at is not None and job.jct_s < -1e-6:
                found.append(f"{job.id} ended before it was submitted.")
        held, most = self._held(), self.gpus * self._span()
        if held > most * (1 + 1e-9) + 1e-6:
            found.append(f"{held} GPU-seconds were used, and there were {most}.")
        if found:
            raise RunInvariantError(found)

    def figures(self, starved_after_s: float = STARVED_AFTER_S) -> dict[str, float | int]:
        """Return the figures, times in seconds rounded to 1 µs. A job that waits longer than
        `starved_after_s` in all counts as starved."""
        ended = [job for job in self.jobs if job.ended_at is not None]
        times = sorted(job.jct_s for job in ended)
        n = len(ended)
        waits = sorted(max(job.jct_s - job.held_s, 0.0) for job in ended)
        waits_in_all = [*waits, *self._endless_waits()]
        due = [job for job in self.jobs if job.met is not None]
        rho = self._rho(ended)
        span = self._span()
        used = self._held() / (self.gpus * span) if self.gpus and span else 0.0
        p99 = times[min(int(n * 0.99), n - 1)] if self.p99_by_index and n else percentile(times, 99)
        last = max((job.ended_at or 0.0 for job in ended), default=0.0)
        met = sum(job.met is True for job in due)
        figures: dict[str, float | int] = {
            "jobs": len(self.jobs),
            "finished": n,
            "refused": sum(bool(job.refused) for job in self.jobs),
            "avg_jct_s": _mean(times),
            "p50_jct_s": percentile(times, 50),
            "p95_jct_s": percentile(times, 95),
            "p99_jct_s": p99,
            "avg_wait_s": _mean(waits),
            "p99_wait_s": percentile(waits, 99),
            "wait_max_s": max(waits_in_all, default=0.0),
            "starved": sum(wait > starved_after_s for wait in waits_in_all),
            "starved_after_s": starved_after_s,
            "makespan_s": last if self.absolute_makespan else span,
            "deadlines": len(due),
            "deadlines_met": met,
            "deadline_ratio": met / len(due) if due else 0.0,
            "utilisation": used if self.utilisation is None else self.utilisation,
            "rho_mean": _mean(rho),
            "rho_max": max(rho, default=0.0),
            "unfair_share": sum(value > UNFAIR for value in rho) / len(rho) if rho else 0.0,
            "preemptions": sum(job.preemptions for job in self.jobs),
            "migrations": sum(job.migrations for job in self.jobs),
        }
        for cause, seconds in sorted(self.queueing_s.items()):
            figures[f"queueing_{cause}_s"] = seconds / len(self.jobs) if self.jobs else 0.0
        figures |= self.more
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in figures.items()
        }

    def _held(self) -> float:
        return fsum(job.held_s * job.gpus if job.gpu_s is None else job.gpu_s for job in self.jobs)

    def _endless_waits(self) -> list[float]:
        """How long jobs waited that could run and did not end, until the run was over."""
        over = min((job.submitted_at for job in self.jobs), default=0.0) + self._span()
        return [
            max(over - job.submitted_at - job.held_s, 0.0)
            for job in self.jobs
            if job.ended_at is None and not job.refused and job.gpus <= self.gpus
        ]

    def _span(self) -> float:
        """From the first submission to the last end; of jobs that never end, as long as they
        held GPUs."""
        first = min((job.submitted_at for job in self.jobs), default=0.0)
        ends = [job.ended_at for job in self.jobs if job.ended_at is not None]
        ends += [(job.started_at or 0.0) + job.held_s for job in self.jobs if job.ended_at is None]
        return max(max(ends, default=0.0) - first, 0.0)

    def _rho(self, ended: Sequence[JobResult]) -> list[float]:
        lives = [
            Life(job.submitted_at, job.submitted_at + job.jct_s, job.gpus, job.duration_s)
            for job in ended
        ]
        return [rho for rho in finish_time_fairness(lives, self.gpus) if rho is not None]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in ascending order, 0 for no values."""
    return ordered[max(ceil(len(ordered) * percent / 100), 1) - 1] if ordered else 0.0


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0
