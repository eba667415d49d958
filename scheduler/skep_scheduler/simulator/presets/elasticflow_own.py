"""ElasticFlow's own policy in presets `elasticflow*`: the loop of its artifact around the rule of
`policies.elasticflow`; and Chronus, which the artifact compares itself with.

Habits of the loop: every event costs each running job an overhead (2 s; 7 s on 256 GPUs or more,
the median of what the artifact charges); an arrival within a slot of the last event waits for the
end of that slot, with those behind it; a plan that changes a size is looked at then, but not if a
job ends at that time; and a job counts as late by the end that was planned last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, log2
from typing import Any

from skep_scheduler.policies.chronus import Chronus, rounded
from skep_scheduler.policies.elasticflow import plan_all, share_out
from skep_scheduler.policies.size_plan import ElasticJob, FreeProfile
from skep_scheduler.simulator.elastic import by_speedup, read_speedup, run_elastic
from skep_scheduler.simulator.presets.elasticflow import (
    SLOT_S,
    Elastic,
    Starts,
    elastic_jobs,
    outcome_of,
)
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import Profiles
from skep_scheduler.simulator.workload import TraceJob


class Planned:
    """A job with what the policy plans for it. `event_at` is when the loop looks at its end."""

    def __init__(self, job: Elastic) -> None:
        self.job = job
        deadline = inf if job.deadline_at is None else job.deadline_at
        self.view = ElasticJob(job.id, job.rates, job.levels, deadline, job.left)
        self.end: float = inf
        self.event_at: float = inf

    def progress(self, now: int, overhead: int) -> bool:
        """Make its steps since the last event; return whether it has ended."""
        job, gpus = self.job, self.view.plan.gpus
        passed, job.last = now - job.last, now
        ended = self.event_at <= now
        if gpus and passed > 0:
            rate, before = job.rates[gpus], self.view.left
            useful = max(passed - max(0, now - self.end) - overhead, 0)
            self.view.left -= useful * rate
            job.held += passed
            job.gpu_s += passed * gpus
            if before <= useful * rate and not ended:
                job.ended_at = min(int(now), int(now - passed + ceil(before / rate)))
                return True
        if ended:
            job.ended_at = int(min(self.end, now))
        return ended

    def result(self) -> None:
        """Keep whether the deadline is met: by the end that was planned last."""
        job = self.job
        if job.ended_at is not None and job.deadline_at is not None:
            job.met_planned = self.end <= job.deadline_at


def run_elasticflow(
    jobs: Sequence[TraceJob], gpus: int, profiles: Profiles, report: Any = None
) -> Outcome:
    """Run under ElasticFlow's admission, minimum satisfactory shares and spare GPUs."""
    every = elastic_jobs(jobs, profiles)
    starts = Starts(every)
    overhead = 7 if gpus >= 256 else 2
    active: list[Planned] = []
    now = starts.at()
    first: list[Any] = starts.events.pop()[1]
    new = [Planned(job) for job in first]
    ended = 0
    while True:
        done = [planned for planned in active if planned.progress(now, overhead)]
        for planned in done:
            planned.result()
        active = [planned for planned in active if planned.job.ended_at is None]
        ended += len(done)
        for planned in new:
            planned.job.last = now
        active, profile = _admit(active, new, now, gpus)
        active.sort(key=lambda planned: planned.view.deadline)
        share_out([planned.view for planned in active], profile)
        for planned in active:
            plan = planned.view.plan
            planned.end = plan.ends_at if plan.ends_at == inf else ceil(plan.ends_at)
            planned.event_at = plan.until + (overhead if plan.gpus else 0)
            planned.job.resize(plan.gpus, now)
        if report is not None:
            report(ended)
        step = _next_event(starts, active, now)
        if step is None:
            return outcome_of(every, gpus)
        now, new = step


def _admit(
    active: list[Planned], new: list[Planned], now: int, gpus: int
) -> tuple[list[Planned], FreeProfile]:
    """Plan all jobs; those that arrive are admitted or declined together."""
    if new:
        profile = FreeProfile(now, gpus, SLOT_S)
        if plan_all([planned.view for planned in active + new], profile):
            return active + new, profile
        for planned in new:
            planned.job.refused = planned.view.deadline < inf
        # Jobs without a deadline are never declined.
        active = active + [planned for planned in new if not planned.job.refused]
    profile = FreeProfile(now, gpus, SLOT_S)
    plan_all([planned.view for planned in active], profile)
    return active, profile


def _next_event(
    starts: Starts, active: Sequence[Planned], now: int
) -> tuple[int, list[Planned]] | None:
    """Return the time of the next event, and the jobs that arrive then."""
    limit = now + SLOT_S
    times = {planned.event_at for planned in active} - {inf}
    if starts.events:
        times.add(starts.at())
    changes = min((planned.view.plan.changes_at() for planned in active), default=inf)
    ends = min((planned.view.plan.until for planned in active), default=inf)
    if changes < min(ends, starts.at()):
        times.add(changes)
    ordered = sorted(times, reverse=True)
    new: list[Any] = []

    def take(at: float) -> None:
        if starts.at() == at:
            new.extend(starts.events.pop()[1])
            if starts.events and starts.at() not in times:
                times.add(starts.at())
                ordered.append(starts.at())
                ordered.sort(reverse=True)

    if not ordered:
        return None
    found_at = ordered.pop()
    take(found_at)
    nearest = found_at
    while nearest <= limit and ordered:
        found_at = limit
        if ordered[-1] > limit:
            break
        nearest = ordered.pop()
        take(nearest)
    return int(found_at), [Planned(job) for job in new]


def run_chronus(
    jobs: Sequence[TraceJob], gpus: int, policy: Chronus, report: Any = None
) -> Outcome:
    """Run under Chronus: sizes as asked for, durations of the trace, and 0.1 s to save and
    `0.4 (1 + log2 n)` s to resume on n GPUs. Arrivals are looked at when a term starts."""
    whole = [replace(job, gpus=rounded(job.gpus)) for job in jobs]
    runs = by_speedup(whole, read_speedup("linear"), gpus, 0.0)
    for run in runs:
        run.facts.rescale_s = 0.1 + 0.4 * (1 + log2(run.facts.gpus))
    return run_elastic(runs, policy, gpus, report)
