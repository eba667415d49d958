"""The loop of events that the kernels of elastic and of packing policies share.

Time is a whole number of microseconds, as in `kernel`. Of one instant ends come first, then
arrivals, then wake-ups, then one decision over all jobs that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import Any, Generic, Protocol, TypeVar

from skep_scheduler.simulator.results import JobResult
from skep_scheduler.simulator.workload import TraceJob

US = 1_000_000
NEVER = 1 << 62
MOST_POINTS = 500
IDLE_DECISIONS = 3  # so many without any GPU in use, and nothing to arrive: none ever gives one

Series = list[tuple[float, int, int]]


class TimedJob(Protocol):
    """A job in time, as the loop sees it."""

    trace: TraceJob
    submit_us: int
    first_us: int | None
    end_us: int
    ended_us: int | None
    held_us: int
    gpu_us: Any
    preemptions: int

    @property
    def has_gpus(self) -> bool: ...

    def touch(self, now: int) -> None:
        """Bring its facts up to now."""
        ...


J = TypeVar("J", bound=TimedJob)


class EventHandler(Protocol, Generic[J]):
    """What happens at the events."""

    def arrive(self, job: J) -> None: ...
    def end(self, job: J, now: int) -> None: ...

    def decide(self, active: list[J], now: int) -> tuple[list[J], float]:
        """Decide, carry it out, and return the jobs that stay and when to decide again at the
        latest (seconds; `inf`: with the next event)."""
        ...

    def used(self, active: Sequence[J]) -> int:
        """Return how many GPUs are in use."""
        ...


def run_events(handler: EventHandler[J], jobs: Sequence[J], report: Any = None) -> Series:
    """Run jobs until the last has ended, or none of those that wait can ever start. Return at most
    about `MOST_POINTS` points (second, waiting jobs, GPUs in use)."""
    coming = sorted(jobs, key=lambda job: job.submit_us)
    coming.reverse()
    active: list[J] = []
    wake_us, ended, idle, series = NEVER, 0, 0, Series()
    while coming or active:
        now = min([wake_us, *(job.end_us for job in active)])
        now = min(now, coming[-1].submit_us if coming else NEVER)
        if now == NEVER:
            break  # what waits now waits for ever
        for job in active:
            job.touch(now)
            if job.end_us <= now:
                handler.end(job, now)
                ended += 1
        active = [job for job in active if job.ended_us is None]
        while coming and coming[-1].submit_us <= now:
            handler.arrive(coming[-1])
            active.append(coming.pop())
        wake_us = NEVER
        if active:
            active, wake_at = handler.decide(active, now)
            if wake_at != inf:
                wake_us = max(ceil(wake_at * US - 1e-3), now + 1)
        used = handler.used(active)
        idle = 0 if used or coming else idle + 1
        if idle >= IDLE_DECISIONS:
            break
        series.append((now / US, sum(not job.has_gpus for job in active), used))
        if report is not None:
            report(ended)
    return series[:: max(len(series) // MOST_POINTS, 1)]


def result_of(
    job: TimedJob, duration_s: float, *, migrations: int = 0, refused: str = ""
) -> JobResult:
    """Return what became of a job, which runs for `duration_s` when it has its GPUs to itself."""
    trace = job.trace
    ended_at = None
    if job.ended_us is not None:
        ended_at = trace.submit_s + (job.ended_us - job.submit_us) / US
    due = trace.deadline_s
    return JobResult(
        trace.id,
        trace.gpus,
        trace.submit_s,
        None if job.first_us is None else job.first_us / US,
        ended_at,
        job.held_us / US,
        duration_s,
        trace.vc,
        trace.user,
        job.preemptions,
        migrations,
        gpu_s=job.gpu_us / US,
        met=None if due is None else ended_at is not None and ended_at <= due + 1e-6,
        refused=refused,
    )
