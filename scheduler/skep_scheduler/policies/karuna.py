"""Karuna (Chen et al., SIGCOMM 2016), a rule for network flows, as a policy for GPUs.

Flows become jobs and rates become GPUs. Type 1, with a deadline: it gets the least level k_j with
`left_j <= rate_j(k_j) (deadline - t)`, computed anew at each round: no job with a deadline gets
more while others wait. Type 2, of known size: shortest remaining time first. Type 3, of unknown
size: queues by attained service, first come first served within one. Types 2 and 3 run at the size
that they ask for on what is left. A job of type 1 that cannot meet its deadline any more becomes
one of type 2. What is idle then goes to jobs with a deadline, the earliest first.

The paper chooses the limits of the queues for the least mean completion time; here they are
parameters. It is our reading of the paper, as there is no public code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import ClassVar

from skep_scheduler.policies.base import Needs, parameter
from skep_scheduler.policies.elastic import NEEDS, ElasticFacts, Sizes


@dataclass(frozen=True, slots=True)
class Karuna:
    """Jobs with a deadline get as few GPUs as it needs; the others share the rest, the shortest
    first, or by attained service where durations are unknown."""

    name: ClassVar[str] = "karuna"
    label: ClassVar[str] = "deadlines with as few GPUs as needed"
    needs: ClassVar[Needs] = NEEDS

    round_s: float = parameter(60.0, "Seconds between two decisions.", minimum=1, maximum=86400)
    durations: str = parameter(
        "known", "Whether the durations of jobs without a deadline are known.",
        choices=("known", "unknown"),
    )  # fmt: skip
    first_limit_gpu_s: int = parameter(3250, "GPU-seconds of the first queue.", minimum=1)
    second_limit_gpu_s: int = parameter(7200, "GPU-seconds of the second queue.", minimum=1)

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        given, free = dict[str, int](), gpus
        due: list[ElasticFacts] = []
        others: list[ElasticFacts] = []
        for job in sorted(jobs, key=lambda job: job.deadline_at):
            size = least_share(job, gpus, now)
            if not size:
                others.append(job)
                continue
            due.append(job)
            fitting = [level for level in job.levels(free) if level <= size]
            if fitting:
                given[job.id] = fitting[-1]
                free -= fitting[-1]
        for job in sorted(others, key=self._key):
            size = min(job.gpus, job.largest)
            if size <= free and job.rate(size) > 0:
                given[job.id] = size
                free -= size
        if len(given) == len(jobs) or free:
            for job in due:
                has = given.get(job.id, 0)
                more = [level for level in job.levels(free + has) if level > has]
                if more:
                    given[job.id] = more[-1]
                    free -= more[-1] - has
        rounds = floor(now / self.round_s + 1e-9) + 1
        return Sizes(given, wake_at=rounds * self.round_s if due else inf)

    def _key(self, job: ElasticFacts) -> tuple[float, ...]:
        if self.durations == "known":
            return (job.left_s(min(job.gpus, job.largest)),)
        limits = sorted((self.first_limit_gpu_s, self.second_limit_gpu_s))
        return bisect_right(limits, job.attained_gpu_s), job.submitted_at


def least_share(job: ElasticFacts, gpus: int, now: float) -> int:
    """Return the least level that meets the deadline, 0 where none does or there is none."""
    if job.deadline_at == inf:
        return 0
    for level in job.levels(gpus):
        cost = 0.0 if level == job.held or not job.attained_gpu_s else job.rescale_s
        if job.left <= job.rate(level) * (job.deadline_at - now - cost) * (1 + 1e-12):
            return level
    return 0
