"""Policies that share GPUs in fractions of time: a job that holds `a` of its `n` GPUs makes `a / n`
of its progress. Time goes from event to event: an arrival, an end, or a moment at which a job has
used up what it was ahead.

`run` has three of them. `fair`: users share equally, by tickets, what their jobs can use, and the
jobs of one user go by submission. `hug`: each user gets no more than its guarantee, see
`policies.hug`; with one resource that is the capacity by the number of users. `carbyne`: `fair`,
and what jobs give away, see `policies.carbyne`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skep_scheduler.policies import carbyne, hug
from skep_scheduler.policies.gandiva_fair import water_fill
from skep_scheduler.simulator.invariants import require
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.simulator.workload import TraceJob

NEVER = float("inf")
DONE = 1e-6  # GPU-seconds
POLICIES = ("carbyne", "hug")


@dataclass(slots=True)
class FluidJob:
    """A job, with its work left in GPU-seconds, alone under the fair policy and really."""

    trace: TraceJob
    left: float
    fair_left: float
    started: float | None = None
    ended: float | None = None
    held: float = 0.0

    @property
    def id(self) -> str:
        return self.trace.id

    @property
    def gpus(self) -> int:
        return self.trace.gpus


def fair(
    jobs: Sequence[FluidJob], gpus: float, tickets: Mapping[str, float], cap: float = NEVER
) -> dict[str, float]:
    """Return the GPUs of each job when users share equally; no user gets more than `cap`."""
    asked: dict[str, float] = {}
    for job in jobs:
        asked[job.trace.user] = asked.get(job.trace.user, 0.0) + job.gpus
    asked = {user: min(some, cap) for user, some in asked.items()}
    left = water_fill(gpus, asked, tickets)
    given: dict[str, float] = {}
    for job in jobs:  # by submission
        user = job.trace.user
        given[job.id] = min(left[user], float(job.gpus))
        left[user] -= given[job.id]
    return given


def run(
    jobs: Sequence[TraceJob],
    gpus: int,
    policy: str,
    altruism: float = 1.0,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run a policy of this module; "fair" is one, too. Jobs that need more GPUs than there are
    never start."""
    ordered = sorted(jobs, key=lambda job: (job.submit_s, job.id))
    made = [FluidJob(job, job.gpus * job.duration_s, job.gpus * job.duration_s) for job in ordered]
    fitting = [job for job in made if job.gpus <= gpus]
    present: list[FluidJob] = []  # not ended really, or not alone under the fair policy
    coming, now, ended = 0, 0.0, 0
    while coming < len(fitting) or any(job.ended is None for job in present):
        alone = fair([job for job in present if job.fair_left > DONE], gpus, {})
        real = _allocate(
            [job for job in present if job.ended is None], gpus, policy, alone, altruism
        )
        given_in_all = sum(real.values())
        require(given_in_all <= gpus + DONE, f"{given_in_all} of {gpus} GPUs are given.", now)
        step = fitting[coming].trace.submit_s - now if coming < len(fitting) else NEVER
        for job in present:
            given, shadow = real.get(job.id, 0.0), alone.get(job.id, 0.0)
            if given > 0:
                step = min(step, job.left / given)
            if shadow > 0:
                step = min(step, job.fair_left / shadow)
            ahead = job.fair_left - job.left
            if job.ended is None and ahead > carbyne.AHEAD and shadow > given:
                step = min(step, ahead / (shadow - given))
        step = max(step, 0.0)
        now += step
        for job in present:
            given = real.get(job.id, 0.0)
            if given > 0 and job.started is None:
                job.started = now - step
            job.left -= given * step
            job.held += given * step
            job.fair_left = max(job.fair_left - alone.get(job.id, 0.0) * step, 0.0)
            if job.ended is None and job.left <= DONE:
                job.ended, job.left = now, 0.0
                ended += 1
                if report is not None and ended % 1000 == 0:
                    report(ended)
        present = [job for job in present if job.ended is None or job.fair_left > DONE]
        while coming < len(fitting) and fitting[coming].trace.submit_s <= now + 1e-9:
            present.append(fitting[coming])
            coming += 1
    results = [
        JobResult(
            job.id,
            job.gpus,
            job.trace.submit_s,
            job.started,
            job.ended,
            job.held / job.gpus,
            job.trace.duration_s,
            job.trace.vc,
            job.trace.user,
            gpu_s=job.held,
            met=_met(job),
        )
        for job in made
    ]
    outcome = Outcome(results, gpus)
    outcome.check(len(jobs))
    return outcome


def _met(job: FluidJob) -> bool | None:
    due = job.trace.deadline_s
    return None if due is None else job.ended is not None and job.ended <= due + DONE


def _allocate(
    jobs: Sequence[FluidJob], gpus: int, policy: str, alone: Mapping[str, float], altruism: float
) -> dict[str, float]:
    if policy == "carbyne":
        claimants = [
            carbyne.Claimant(
                job.id, job.left, job.fair_left, alone.get(job.id, 0.0), float(job.gpus)
            )
            for job in jobs
        ]
        return carbyne.allocate(claimants, gpus, altruism)
    if policy == "hug":
        users = sorted({job.trace.user for job in jobs})
        progress = hug.best_progress([{"gpu": 1.0} for _ in users])
        return fair(jobs, gpus, {}, progress * gpus)
    return fair(jobs, gpus, {})
