"""Max-min fairness: least attained service in Gavel (Narayanan et al., OSDI 2020, section 4.1).

    max over X of min over jobs j of  n_j / w_j * thr(j, X) / thr(j, X_prop)

thr(j, X) is the rate of job j under X: the sum over its combinations c and types m of
T[j,c,m] * X[c][m]. X_prop gives each job its time on the types by their number of GPUs. n_j are the
GPUs of j, so that a job on one GPU gets as much GPU time as one on eight; w_j is its weight.

- `max_min`: by the rates (LAS, heterogeneous)
- `max_min_agnostic`: all T = 1 (LAS); jobs of one size get min(1, N/J) of the time each, spread
  over the types by their GPUs, which is the centre of all optima
- `max_min_packed`: with pairs of jobs as combinations
- `water_filling`: again and again for those jobs whose rate can still rise

Jobs of one kind are one row. Against the artifact: it divides by the reciprocal of the weight where
it has pairs, and by the weight elsewhere; here w_j is the weight everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skep_scheduler.policies.gavel.problem import Job, ShareProblem, Shares, proportional
from skep_scheduler.policies.gavel.program import Program, ShareColumns


def max_min(problem: ShareProblem) -> Shares:
    """Return the shares of least attained service by the rates."""
    return _solve(problem, problem.kinds(), packed=False)


def max_min_packed(problem: ShareProblem) -> Shares:
    """Return the same where two jobs may share their GPUs."""
    return _solve(problem, problem.kinds(), packed=True)


def max_min_agnostic(problem: ShareProblem) -> Shares:
    """Return the shares of least attained service where all rates count as equal."""
    jobs = problem.jobs
    if len({(job.gpus, job.weight) for job in jobs}) > 1:
        ones = (1.0,) * len(problem.types)
        equal = [replace(job, rates=ones, kind=(job.gpus, job.weight)) for job in jobs]
        return max_min(replace(problem, jobs=equal))
    if not jobs:
        return {}
    total = sum(problem.gpus)
    part = min(1.0, total / (len(jobs) * jobs[0].gpus))
    share = tuple(gpus / total * part for gpus in problem.gpus)
    return {(job.number,): share for job in jobs}


def water_filling(problem: ShareProblem) -> Shares:
    """Return the lexicographic optimum: no job can rise but at the cost of one that has no more."""
    groups = _able(problem.kinds())
    fixed: dict[int, float] = {}
    shares: Shares = {}
    while len(fixed) < len(groups):
        program = Program()
        least = program.column(1.0)
        allocation = ShareColumns(program, problem, groups)
        rows = {}
        for at, row in enumerate(_normalised(problem, groups, allocation)):
            if at in fixed:
                program.row(row, low=fixed[at] * (1 - 1e-7))
            else:
                rows[program.row([*row, (least, -1.0)], low=0.0)] = at
        values = program.solve()
        if values is None:
            break
        shares = allocation.shares(values)
        # A row with a price is tight in every optimum: its jobs cannot rise.
        prices = {row: abs(program.duals[row]) for row in rows}
        highest = max(prices.values())
        for tight, at in rows.items():
            if prices[tight] >= highest * 1e-4:
                fixed[at] = values[least]
    return shares


def objective(problem: ShareProblem, shares: Shares) -> float:
    """Return what the rule maximises: the least normalised rate of all jobs."""
    made = dict.fromkeys((job.number for job in problem.jobs), 0.0)
    jobs = {job.number: job for job in problem.jobs}
    for key, parts in shares.items():
        if len(key) == 1:
            rates: Sequence[tuple[float, ...]] = [(rate,) for rate in jobs[key[0]].rates]
        else:
            rates = problem.pair(jobs[key[0]], jobs[key[1]]) or ()
        for part, own in zip(parts, rates, strict=True):
            for number, rate in zip(key, own, strict=True):
                made[number] += part * rate
    return min(
        made[job.number] * job.gpus / job.weight / proportional(problem, job)
        for job in problem.jobs
    )


def _solve(problem: ShareProblem, kinds: list[list[Job]], *, packed: bool) -> Shares:
    groups = _able(kinds)
    if not groups:
        return {}
    program = Program()
    least = program.column(1.0)
    allocation = ShareColumns(program, problem, groups, packed=packed)
    for row in _normalised(problem, groups, allocation):
        program.row([*row, (least, -1.0)], low=0.0)
    values = program.solve()
    return {} if values is None else allocation.shares(values)


def _able(groups: Sequence[list[Job]]) -> list[list[Job]]:
    """Jobs that can run nowhere take no part."""
    return [group for group in groups if max(group[0].rates) > 0]


def _normalised(
    problem: ShareProblem, groups: Sequence[Sequence[Job]], allocation: ShareColumns
) -> list[list[tuple[int, float]]]:
    rows = []
    for group, made in zip(groups, allocation.made, strict=True):
        job = group[0]
        factor = job.gpus / job.weight / proportional(problem, job) / len(group)
        rows.append([(column, rate * factor) for column, rate in made])
    return rows
