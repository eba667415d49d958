"""What a rule of Gavel is given: jobs with their rates on each GPU type, and GPUs.

Gavel (Narayanan et al., OSDI 2020), section 3: X[c][m] is the part of the time that the combination
c (a job, or two jobs of one size that share their GPUs) spends on GPUs of type m. For all rules

    X >= 0;  for each job: the sum over its combinations and all types is at most 1;
    for each type m: sum over c of n_c * X[c][m] <= N_m,  n_c the GPUs of c, N_m those of the type

Jobs of one kind (equal rates, size and weight) are interchangeable, so that a program has one row
for a kind and not for a job: its columns do not grow with the number of jobs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

Combination = tuple[int, ...]  # the numbers of one job, or of two in ascending order
Shares = dict[Combination, tuple[float, ...]]  # by GPU type; who gets none is absent
Kind = Hashable


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `rates` are its steps per second by GPU type, 0 where it cannot run; `left` its
    steps to go, `elapsed` the seconds since it came.

    kind: jobs of one kind have equal rates, GPUs and weight
    due: seconds until its deadline; None: it has none
    """

    number: int
    kind: Kind
    gpus: int
    rates: tuple[float, ...]
    left: float = 0.0
    elapsed: float = 0.0
    weight: float = 1.0
    due: float | None = None


@dataclass(frozen=True, slots=True)
class ShareProblem:
    """Jobs in the order of their arrival, and the GPUs of each type. `beside` has the rates of both
    jobs of a pair of kinds, one entry for each type, and mirrored those of the kinds the other way
    round; a pair that is absent cannot be packed."""

    types: tuple[str, ...]
    gpus: tuple[int, ...]
    jobs: Sequence[Job]
    beside: Mapping[tuple[Kind, Kind], Sequence[tuple[float, float]]] = field(default_factory=dict)

    def kinds(self) -> list[list[Job]]:
        """Return the jobs by kind, in the order of the first of each."""
        found: dict[Kind, list[Job]] = {}
        for job in self.jobs:
            found.setdefault(job.kind, []).append(job)
        return list(found.values())

    def pair(self, first: Job, second: Job) -> tuple[tuple[float, float], ...] | None:
        """Return the rates of two jobs on one set of GPUs by type, those of `first` in front;
        (0, 0) where one of them makes no progress. None: they cannot be packed."""
        if first.gpus != second.gpus:
            return None
        rates = self.beside.get((first.kind, second.kind))
        if rates is None:
            return None
        return tuple((a, b) if a > 0 and b > 0 else (0.0, 0.0) for a, b in rates)


def proportional(problem: ShareProblem, job: Job) -> float:
    """Return the rate of a job that spends its whole time on the types by their number of GPUs."""
    total = sum(problem.gpus)
    return sum(r * n for r, n in zip(job.rates, problem.gpus, strict=True)) / total


def isolated(problem: ShareProblem, job: Job) -> float:
    """Return the rate of a job on its own part of the cluster: 1/J of the GPUs of each type."""
    parts = [gpus / (len(problem.jobs) * job.gpus) for gpus in problem.gpus]
    whole = max(sum(parts), 1.0)
    return sum(rate * part / whole for rate, part in zip(job.rates, parts, strict=True))
