"""ElasticFlow (Gu et al., ASPLOS 2023): elastic jobs with deadlines, admitted only if all are met.

Symbols: job j has `left` steps to make by its `deadline`, and `rates` in steps per second by number
of GPUs; its levels are those numbers, powers of two. `F(t)` is how many GPUs are free from t on.

Minimum satisfactory share, section 4.1: `size_plan.fill` finds the least level q with which j makes
its steps on what F leaves, as late as possible: q GPUs from the last change of F on that is early
enough, and the level below before.

Admission, section 4.1: all jobs are planned in the order of their deadlines. Those that arrive are
admitted if every plan meets its deadline; else they are declined, together.

Spare GPUs, section 4.2: as long as GPUs are idle now, the job whose next level has the best return
gets it until F changes; the return is GPU time (new minus old) by added GPUs, and jobs without GPUs
come first. The paper gives GPUs to the job whose GPU time falls most; the sign here is that of the
published code, and the other one changes its figures by a job at most. A return is computed again
only when it is the best of those known.

A job without a deadline has an infinite one: it takes what is idle. A job that has too few GPUs in
the whole pool is planned by no one.

Live a job is admitted when it is submitted (`admission`), so that all that wait are; it is declined
with the earliest deadline that it could have. Sizes change by a restart, see `sized`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import ClassVar

from skep_scheduler.policies.admission import admission_parameter
from skep_scheduler.policies.base import Knows, Needs, parameter
from skep_scheduler.policies.elastic import ASSUMES, ElasticFacts, Sizes
from skep_scheduler.policies.size_plan import ALMOST, ElasticJob, FreeProfile, SizePlan, fill


def plan_all(jobs: Sequence[ElasticJob], profile: FreeProfile) -> bool:
    """Plan all jobs in the order of their deadlines; return whether all meet them."""
    met = True
    for job in sorted(jobs, key=lambda job: job.deadline):
        job.plan = fill(job, profile, profile.now, job.left)
        profile.take(job.plan)
        met = met and (job.plan.met or job.deadline == inf)
    return met


def share_out(jobs: Sequence[ElasticJob], profile: FreeProfile) -> None:
    """Give what is idle now to the jobs with the best return.

    A return is computed again only when it is the best of those known: after each change all of
    them are a little out of date, and to compute them all takes seconds with many jobs."""
    best: list[tuple[float, int, int, SizePlan]] = []  # (-return, job, changes when computed, plan)
    changes = 0

    def propose(number: int) -> None:
        job = jobs[number]
        size, now = job.next_level(), job.plan.gpus
        if not size or size - now > profile.free[0]:
            return
        profile.take(job.plan, -1)
        plan = _grown(job, profile, size)
        profile.take(job.plan)
        if job.plan.met and not plan.met:
            return  # slots that are cut differently could make it late
        gain = (plan.gpu_s - job.plan.gpu_s) / (size - now) if now else inf
        heappush(best, (-gain, number, changes, plan))

    for number in range(len(jobs)):
        propose(number)
    while best and profile.free[0] > 0:
        _, number, computed, plan = heappop(best)
        if computed != changes:
            propose(number)
            continue
        job = jobs[number]
        profile.take(job.plan, -1)
        profile.take(plan)
        job.plan = plan
        changes += 1
        propose(number)


def _grown(job: ElasticJob, profile: FreeProfile, gpus: int) -> SizePlan:
    """Return a plan with so many GPUs until the number of free ones changes."""
    now, rate = profile.now, job.rates[gpus]
    ends_at = now + job.left / rate
    until = profile.next_change()
    if until == inf:
        until = profile.align(job.deadline)
    if profile.align(ends_at) <= until or until <= now:
        end = max(profile.align(ends_at), now + profile.slot)
        return SizePlan([(now, end, gpus)], ends_at, ends_at <= job.deadline * ALMOST)
    # The last slot before the deadline counts up to the deadline itself.
    counted = job.deadline if until == profile.align(job.deadline) else until
    rest = fill(job, profile, until, job.left - rate * (counted - now))
    return SizePlan([(now, until, gpus), *rest.pieces], rest.ends_at, rest.met)


LATE = "its deadline cannot be met"


@dataclass(frozen=True, slots=True)
class ElasticFlow:
    """Admits a job only if its deadline and those of all admitted jobs can be met, gives each as
    few GPUs as its deadline needs, and idle ones where they help most."""

    name: ClassVar[str] = "elasticflow"
    label: ClassVar[str] = "deadlines with as few GPUs as needed, idle ones where they help most"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION, Knows.DEADLINE}), "It gets what is idle.", ASSUMES
    )

    admission: str = admission_parameter()
    slot_s: float = parameter(60.0, "Seconds of a slot.", minimum=1, maximum=86400)

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        known = [self._planned(job, gpus) for job in jobs if job.admitted]
        new = [self._planned(job, gpus) for job in jobs if not job.admitted]
        too_large = [job for job in (*known, *new) if not job.levels]
        known = [job for job in known if job.levels]
        new = [job for job in new if job.levels]
        kept = [(job, _from(job.plan, now)) for job in known]
        profile = FreeProfile(now, gpus, self.slot_s)
        refuse: dict[str, str] = {}
        if not (new and plan_all(known + new, profile)):
            if self.admission == "refuse":
                refuse = {job.id: LATE for job in new if job.deadline < inf}
            known += [job for job in new if job.id not in refuse]
            profile = FreeProfile(now, gpus, self.slot_s)
            late = not plan_all(known, profile)
            if late and all(plan.met or job.deadline == inf for job, plan in kept):
                # What was planned before still holds: slots were cut differently then.
                profile = FreeProfile(now, gpus, self.slot_s)
                for job, plan in kept:
                    job.plan = plan
                    profile.take(plan)
                for job in known[len(kept) :]:
                    job.plan = fill(job, profile, now, job.left)
                    profile.take(job.plan)
        else:
            known += new
        known.sort(key=lambda job: job.deadline)
        share_out(known, profile)
        if self.admission == "refuse":
            refuse |= {job.id: LATE for job in too_large if job.deadline < inf}
        wake_at = min((job.plan.changes_at() for job in known), default=inf)
        return Sizes({job.id: job.plan.gpus for job in known}, refuse, wake_at)

    def _planned(self, job: ElasticFacts, gpus: int) -> ElasticJob:
        if job.memo is None:
            levels = job.levels(gpus)
            rates = {level: job.rate(level) for level in levels}
            job.memo = ElasticJob(job.id, rates, levels, job.deadline_at, job.left)
        planned: ElasticJob = job.memo
        # What a resize costs is paid with the GPUs held: as work at the rate of now.
        cost = job.rescale_s if job.admitted and job.rescaled_at > -inf else 0.0
        planned.left = job.left + cost * planned.rates.get(job.held, 0.0)
        return planned


def _from(plan: SizePlan, now: float) -> SizePlan:
    """Return what is left of a plan."""
    pieces = [(max(start, now), until, gpus) for start, until, gpus in plan.pieces if until > now]
    return SizePlan(pieces, plan.ends_at, plan.met and plan.ends_at > now)
