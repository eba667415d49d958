"""Carbyne: Grandl et al., "Altruistic Scheduling in Multi-Resource Clusters", OSDI 2016. Our
reading of the paper; it has no public code.

Section 3: a fair policy says what each job gets; a job gives away what it does not need to end as
early as under the fair policy alone, and the leftover goes to the job with the shortest remaining
time first. Here job j has r_j of its work left (GPU-seconds), would have s_j left if the fair
policy ran alone, gets f_j GPUs of it, and can use n_j. A job that is ahead (`r_j < s_j`) keeps
`(1 - p) f_j` and gives away the rest; one that is not keeps f_j. Leftover goes by r_j, up to n_j.
Since no job ever falls behind `s_j`, none ends later than under the fair policy (isolation), for
any arrivals and any `p`.

What differs: the paper lets a job give away before it is ahead, where the rest of its graph of
tasks allows it; a job of Skep is one stage, so that there is no such slack in it. The gain is
smaller than the 1.26 times that the paper prints. It needs right durations and GPUs in fractions
of time, so it is simulated only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AHEAD = 1e-6  # GPU-seconds below which a job is not ahead


@dataclass(frozen=True, slots=True)
class Claimant:
    """A job: what it has left, what it would have left under the fair policy alone, the GPUs that
    the fair policy gives it, and those that it can use."""

    id: str
    left: float
    fair_left: float
    fair_gpus: float
    most_gpus: float


def allocate(jobs: Sequence[Claimant], gpus: float, altruism: float = 1.0) -> dict[str, float]:
    """Return the GPUs of each job by id. `altruism` is p, the part of the slack given away."""
    given: dict[str, float] = {}
    for job in jobs:
        ahead = job.fair_left - job.left > AHEAD
        given[job.id] = min(job.fair_gpus, job.most_gpus) * (1 - altruism if ahead else 1.0)
    left = gpus - sum(given.values())
    for job in sorted(jobs, key=lambda job: (job.left, job.id)):
        more = min(max(left, 0.0), job.most_gpus - given[job.id])
        given[job.id] += more
        left -= more
    return given
