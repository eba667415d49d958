"""Chronus (Gao et al., SoCC 2021): deadlines by terms, with a program that chooses what to admit.

GPUs are lent for terms (the paper: leases) of `term_s`. Job j asks for `n_j` GPUs, needs `left_j`
seconds (the estimate times 1.1), and is worth `value` if it ends by its deadline. With term l of
`len_l` seconds, X_jl = 1 if j runs in l, and S_j = 1 if its deadline is met, section 4.1:

    maximise sum value_j S_j - small * sum_j X_j0    (run later where nothing is lost)
    sum over terms l that end by the deadline of len_l X_jl >= left_j S_j    for each j
    sum_j n_j X_jl <= N    for each l;    S_j = 1 for admitted jobs

A greedy check comes first: by deadline, each job takes its latest terms. Only if it fails the
program is solved (`select`; HiGHS, at most `NODES` nodes, so that a plan does not depend on the
speed of the machine). GPUs that the plan leaves idle in the first term go to other admitted jobs by
deadline, then to those that were not admitted, and at last to best effort, both by attained service
(2D-LAS) or by remaining time; best effort that waited for `patience_s` goes first.

It differs from the paper in the horizon: `TERMS` terms, the first 16 of `term_s` and each further
one 12 % longer. A soft deadline is one of one step. Sizes of 3, 5, 6 and 7 GPUs become 4 and 8.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.elastic import ElasticFacts, Sizes
from skep_scheduler.policies.tiresias import LIMITS

TERMS, EQUAL, GROWTH = 64, 16, 1.12
NODES = 200
SAFETY = 1.1  # of an estimate


@dataclass(frozen=True, slots=True)
class Demand:
    """A job with a deadline. `left_s` is what it needs, `last` the number of terms that end by its
    deadline; an admitted one has to be met."""

    id: str
    gpus: int
    left_s: float
    last: int
    value: float = 1.0
    admitted: bool = False


Schedule = dict[str, set[int]]  # the terms of each job that is to be met


def greedy(demands: Sequence[Demand], gpus: int, lengths: Sequence[float]) -> Schedule | None:
    """Return terms for all jobs, the latest ones first, None where one does not fit."""
    found = as_many(demands, gpus, lengths)
    return found if len(found) == len(demands) else None


def as_many(demands: Sequence[Demand], gpus: int, lengths: Sequence[float]) -> Schedule:
    """Return terms for jobs by deadline, the latest ones of each first, without those that do not
    fit."""
    free, found = [gpus] * len(lengths), Schedule()
    for demand in sorted(demands, key=lambda one: one.last):
        left, terms = demand.left_s, set[int]()
        for term in range(demand.last - 1, -1, -1):
            if left <= 0:
                break
            if free[term] >= demand.gpus:
                terms.add(term)
                left -= lengths[term]
        if left > 0:
            continue
        for term in terms:
            free[term] -= demand.gpus
        found[demand.id] = terms
    return found


def select(demands: Sequence[Demand], gpus: int, lengths: Sequence[float]) -> Schedule:
    """Return the terms of the jobs that are worth most together. Where the admitted ones cannot all
    be met any more, they count ten thousand times as much as others instead.

    Raises `ModuleNotFoundError` without numpy and scipy (the extra `policies`).
    """
    import numpy
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_matrix

    columns = [(n, term) for n, one in enumerate(demands) for term in range(one.last)]
    jobs, size = len(demands), len(demands) + len(columns)
    cost = numpy.zeros(size)
    rows = lil_matrix((jobs + len(lengths), size))
    low = numpy.full(jobs + len(lengths), -numpy.inf)
    high = numpy.full(jobs + len(lengths), float(gpus))
    least = numpy.zeros(size)
    for n, one in enumerate(demands):
        cost[n] = -one.value * (10_000 if one.admitted else 1)
        rows[n, n] = -one.left_s
        low[n], high[n] = 0.0, numpy.inf
    for at, (n, term) in enumerate(columns, jobs):
        rows[n, at] = lengths[term]
        rows[jobs + term, at] = demands[n].gpus
        cost[at] = 1e-4 if term == 0 else 1e-5
    least[:jobs] = [one.admitted for one in demands]
    for lower in (least, numpy.zeros(size)):
        solved = milp(
            cost,
            integrality=numpy.ones(size),
            bounds=Bounds(lower, 1.0),
            constraints=LinearConstraint(rows.tocsr(), low, high),
            options={"node_limit": NODES, "mip_rel_gap": 1e-4},
        )
        if solved.x is not None:
            break
    else:
        return {}
    chosen = solved.x > 0.5
    found = Schedule({one.id: set() for n, one in enumerate(demands) if chosen[n]})
    for at, (n, term) in enumerate(columns, jobs):
        if chosen[at] and demands[n].id in found:
            found[demands[n].id].add(term)
    return found


@dataclass(frozen=True, slots=True)
class Chronus:
    """Admits jobs whose deadlines can be met, lends GPUs for terms so that they are, and fills the
    rest with jobs without a deadline."""

    name: ClassVar[str] = "chronus"

    term_s: float = parameter(60.0, "Seconds of a term.", minimum=1, maximum=86_400)
    patience_s: float = parameter(
        3600.0, "Wait after which best effort goes before admitted jobs.", minimum=0
    )
    fill: str = parameter(
        "las", "The order of jobs that are not admitted: las or srtf.", choices=("las", "srtf")
    )

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        """Decide at the start of each term. Between them ends change nothing; arrivals wait."""
        passed = floor(now / self.term_s + 1e-9) * self.term_s
        wake_at = passed + self.term_s
        if now - passed > 1e-6:
            return Sizes({job.id: job.held for job in jobs}, wake_at=wake_at)
        plan = self._plan(jobs, gpus, now)
        for job in jobs:
            job.memo = job.id in plan
        first = [job for job in jobs if 0 in plan.get(job.id, ())]
        given, free = dict[str, int](), gpus
        for job in (*first, *sorted(jobs, key=lambda job: self.rank(job, now))):
            size = rounded(job.gpus)
            if job.id not in given and size <= free:
                given[job.id] = size
                free -= size
        return Sizes(given, wake_at=wake_at)

    def _plan(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Schedule:
        lengths = [self.term_s * GROWTH ** max(term - EQUAL + 1, 0) for term in range(TERMS)]
        ends, end = list[float](), now
        for length in lengths:
            end += length
            ends.append(end)
        demands = []
        for job in jobs:
            if job.deadline_at == inf or job.memo is False:
                continue  # memo: False once it was not admitted
            left = job.left_s(rounded(job.gpus)) * SAFETY + (0.0 if job.held else job.rescale_s)
            last = sum(end <= job.deadline_at + 1e-6 for end in ends)
            admitted = job.memo is True
            if last and sum(lengths[:last]) >= left and rounded(job.gpus) <= gpus:
                demands.append(Demand(job.id, rounded(job.gpus), left, last, admitted=admitted))
        plan = greedy(demands, gpus, lengths)
        if plan is not None:
            return plan
        return select(demands, gpus, lengths)

    def rank(self, job: ElasticFacts, now: float) -> tuple[float, ...]:
        """Return the key of a job that the plan does not run now: the least first."""
        if job.memo is True and job.deadline_at < inf:
            return 1, job.deadline_at
        best_effort = job.deadline_at == inf
        if best_effort and not job.held and now - job.submitted_at > self.patience_s:
            return 0, job.submitted_at
        key = job.left_s(rounded(job.gpus))
        if self.fill == "las":
            key = bisect_right(LIMITS, job.attained_gpu_s)
        return 3 if best_effort else 2, key, job.submitted_at


def rounded(gpus: int) -> int:
    """Return the GPUs that a job holds: a power of two within a node of 8."""
    return 1 << (gpus - 1).bit_length() if gpus < 8 else gpus
