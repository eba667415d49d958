"""Preset `tiresias-4x4`: the simulator of Tiresias (Gu et al., NSDI 2019) without placement.

Whole seconds; events are merged if they are at the same second. Its policies keep their names:

- `fifo` (strict), `fjf` (any job that fits, in order of submission), `lpjf` (the longest pending
  first, strict): nothing is preempted. `lpjf` has a habit: it takes a job that starts from the list
  that it walks, so that the job behind it is passed over until the next event
- `sjf`: the smallest job first, by GPUs; `shortest`, `shortest-gpu`: least remaining time, and
  least remaining GPU time; all three with preemption, ties by the order of the event before
- `dlas`, `dlas-gpu`: least attained service in three queues, in seconds and in GPU-seconds;
  `dlas-gpu-gittins`: the same queues, the largest Gittins index first within each
- `gittins`: one queue by the Gittins index, with two habits: the *least* index is first, and the
  service of a job that waits is taken in seconds
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from skep_scheduler.policies.tiresias import LIMITS, Gittins
from skep_scheduler.simulator.presets.las import LasQueues
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

FIRM = ("fifo", "fjf", "lpjf")
DISPLACING = (
    *("sjf", "shortest", "shortest-gpu", "dlas", "dlas-gpu", "dlas-gpu-gittins", "gittins"),
)
POLICIES = FIRM + DISPLACING
SERVICES = "yarn-gput1000.csv"  # the sample of services that the artifact has for its Gittins index
NEVER = 1 << 60


class CountedJob:
    """A job in time."""

    def __init__(self, trace: TraceJob, row: int) -> None:
        self.trace, self.row, self.gpus = trace, row, trace.gpus
        self.submitted_at = int(trace.submit_s)
        self.left, self.executed, self.queue, self.last = int(trace.duration_s), 0, 0, 0
        self.running = False
        self.started_at: int | None = None
        self.ended_at: int | None = None
        self.preemptions = 0

    def result(self) -> JobResult:
        held = int(self.trace.duration_s) - self.left
        return JobResult(
            self.trace.id, self.gpus, self.submitted_at, self.started_at, self.ended_at, held,
            self.trace.duration_s, self.trace.vc, self.trace.user, self.preemptions,
        )  # fmt: skip


def run(
    jobs: Sequence[TraceJob],
    gpus: int,
    policy: str,
    sample: Path | None = None,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run one of `POLICIES`. `sample` is a CSV file of past services, for the Gittins index.

    Raises `WorkloadError`.
    """
    for job in jobs:
        if not job.duration_s >= 1 or not 0 < job.gpus <= gpus:
            raise WorkloadError(
                f"job {job.id} has no whole second, no GPU, or more than the {gpus} that there are"
            )
    made = [CountedJob(job, row) for row, job in enumerate(jobs)]
    gittins = Gittins(_services(sample)) if policy.endswith("gittins") else None
    _loop(made, gpus, policy, gittins, report)
    outcome = Outcome([job.result() for job in made], gpus)
    outcome.check(len(made))
    return outcome


def _services(path: Path | None) -> list[float]:
    if path is None or not path.is_file():
        raise WorkloadError(
            f"the Gittins index needs past services: a CSV file with the column `duration` in "
            f"GPU-seconds, given with --profiles or as {SERVICES} beside the trace",
            "bad_profile",
        )
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            return [float(row["duration"]) for row in csv.DictReader(file)]
        except (KeyError, ValueError) as error:
            raise WorkloadError(f"{path}: no services: {error}", "bad_profile") from None


def _loop(
    jobs: list[CountedJob],
    gpus: int,
    policy: str,
    gittins: Gittins | None,
    report: Callable[[int], None] | None,
) -> None:
    coming = sorted(jobs, key=lambda job: job.submitted_at, reverse=True)
    by_queue = policy.startswith("dlas")
    key = _key(policy, gittins)
    queues: LasQueues[CountedJob] = LasQueues(LIMITS if by_queue else ())
    running: list[CountedJob] = []
    ended = 0
    jump = NEVER
    look = int(gittins.delta) if gittins is not None and policy == "gittins" else NEVER
    while coming or running:
        start = coming[-1].submitted_at if coming else NEVER
        now = min(start, min((job.last + job.left for job in running), default=NEVER), jump, look)
        for job in running:
            job.executed += now - job.last
            job.left -= now - job.last
            job.last = now
            if not job.left:
                job.ended_at, job.running = now, False
                queues.remove(job)
                ended += 1
            elif by_queue:
                queues.demote(job, job.executed * (job.gpus if policy != "dlas" else 1))
        while coming and coming[-1].submitted_at <= now:
            queues.add(coming.pop())
        if key is not None:
            for queue in queues.lists:  # a list keeps its order from event to event: ties go by it
                queue.sort(key=key)
        running = _choose(queues.in_order(), policy, gpus, now)
        if by_queue or policy in FIRM:
            queues.settle()
        jump = _next_demotion(running, queues, policy, now) if by_queue else NEVER
        # The artifact looks at its index after a quantum too, and that quantum grows.
        look = look + now if look != NEVER else NEVER
        if report is not None:
            report(ended)


def _key(policy: str, gittins: Gittins | None) -> Callable[[CountedJob], Any] | None:
    """Return what the jobs of a list are sorted by, least first; None: they stay as they are."""
    if policy == "sjf":
        return lambda job: job.gpus
    if policy == "shortest":
        return lambda job: job.left
    if policy == "shortest-gpu":
        return lambda job: job.left * job.gpus
    if gittins is None:
        return None
    index = gittins.at_sample
    if policy == "gittins":
        # The artifact's habits: the least index first, and seconds instead of GPU-seconds for a
        # job that waits.
        return lambda job: index(job.executed * (job.gpus if job.running else 1))
    return lambda job: (-index(job.executed * job.gpus), job.submitted_at)


def _choose(order: Iterable[CountedJob], policy: str, gpus: int, now: int) -> list[CountedJob]:
    jobs = list(order)
    if policy in FIRM:
        jobs.sort(key=lambda job: not job.running)  # who runs goes on
    chosen: list[CountedJob] = []
    free = gpus
    strict = passed = False
    for job in jobs:
        if passed:  # `lpjf` takes a job from the list that it walks, and so passes over the next
            passed = False
            continue
        fits = job.gpus <= free and not strict
        strict = strict or (policy in ("fifo", "lpjf") and not fits)
        if fits:
            free -= job.gpus
            chosen.append(job)
            passed = policy == "lpjf" and not job.running
            if not job.running:
                job.last = now
                job.started_at = now if job.started_at is None else job.started_at
        job.preemptions += job.running and not fits
        job.running = fits
    return chosen


def _next_demotion(
    running: list[CountedJob], queues: LasQueues[CountedJob], policy: str, now: int
) -> int:
    at = NEVER
    for job in running:
        if job.queue < len(queues.limits):
            limit = queues.limits[job.queue]
            needed = limit if policy == "dlas" else ceil(limit / job.gpus)
            at = min(at, now + int(needed) - job.executed)
    return max(at, now + 1)
