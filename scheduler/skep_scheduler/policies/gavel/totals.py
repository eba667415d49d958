"""Makespan, total throughput and cost in Gavel (Narayanan et al., OSDI 2020, section 4.2).

thr(j, X) is the rate of job j under X, left_j its steps to go.

- `min_makespan`: the least T with thr(j, X) * T >= left_j for all j. With y = X * T this is one
  linear program in (y, T). The artifact halves the interval [100, 10^6] seconds until its ends
  differ by at most 5 %, and X meets the last T that was possible; so does this.
- `min_makespan_packed`: with pairs of jobs. The `MOST_ROWS` longest jobs have a row each, as
  whether one of them may share its GPUs depends on what it has to go. Of the others all of a kind
  are one row, and divide its time by what each has to go.
- `max_sum`: max of the sum over j of thr(j, X), steps per second as they are
- `Cost`: max of the sum of thr(j, X) by the price of X, the sum over m of price_m * n_c * X[c][m].
  With y = X / price(X) this is linear (Charnes and Cooper); of all X with the best ratio the
  largest. `slo`: thr(j, X) >= left_j / (time to the deadline of j); where that cannot be, the rows
  are left out, as in the artifact. The artifact maximises the sum of thr / price instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skep_scheduler.policies.gavel.problem import Job, ShareProblem, Shares
from skep_scheduler.policies.gavel.program import Program, ShareColumns

SHORTEST_S, LONGEST_S = 100.0, 1e6
INTERVAL = 1.05
MOST_ROWS = 64


def min_makespan(problem: ShareProblem) -> Shares:
    """Return shares with which all jobs end soonest."""
    return _soonest(problem, [[job] for job in problem.jobs if max(job.rates) > 0], packed=False)


def min_makespan_of_kinds(problem: ShareProblem) -> Shares:
    """Return the same where all jobs of a kind have as much to go: one row for each kind."""
    able = [kind for kind in problem.kinds() if any(kind[0].rates)]
    return _soonest(problem, able, packed=False)


def min_makespan_packed(problem: ShareProblem) -> Shares:
    """Return the same where two jobs may share their GPUs."""
    able = [job for job in problem.jobs if max(job.rates) > 0]
    able.sort(key=lambda job: -job.left / max(job.rates))
    longest = [[job] for job in able[:MOST_ROWS]]
    others = replace(problem, jobs=sorted(able[MOST_ROWS:], key=lambda job: job.number))
    return _soonest(problem, [*longest, *others.kinds()], packed=True)


def makespan(problem: ShareProblem, groups: Sequence[Sequence[Job]], *, packed: bool) -> float:
    """Return the least T."""
    program = Program()
    least = program.column(-1.0)
    allocation = ShareColumns(program, problem, groups, packed=packed, scale=least, by_left=True)
    for group, made in zip(groups, allocation.made, strict=True):
        program.row(made, low=sum(job.left for job in group))
    values = program.solve(centre=False)
    longest = max(job.left / max(job.rates) for group in groups for job in group)
    return max(values[least] if values else longest, longest)


def halved(least: float) -> float:
    """Return the T on which the artifact's halving of the interval ends."""
    low, high = SHORTEST_S, LONGEST_S
    while high < least:
        low, high = high, high * 10
    while low * INTERVAL < high:
        middle = (low + high) / 2
        if middle >= least:
            high = middle
        else:
            low = middle
    return high


def _soonest(problem: ShareProblem, groups: list[list[Job]], *, packed: bool) -> Shares:
    if not groups:
        return {}
    seconds = halved(makespan(problem, groups, packed=packed))
    program = Program()
    # As much beyond what is needed as can be, the same part for all.
    beyond = program.column(1.0)
    allocation = ShareColumns(program, problem, groups, packed=packed, by_left=True)
    for group, made in zip(groups, allocation.made, strict=True):
        need = sum(job.left for job in group) / seconds
        program.row([*((column, rate / need) for column, rate in made), (beyond, -1.0)], low=0.0)
    values = program.solve()
    return {} if values is None else allocation.shares(values)


def max_sum(problem: ShareProblem) -> Shares:
    """Return shares with the largest total throughput."""
    program = Program()
    total = program.column(1.0)
    groups = problem.kinds()
    allocation = ShareColumns(program, problem, groups)
    every = [entry for made in allocation.made for entry in made]
    program.row([*every, (total, -1.0)], low=0.0)
    values = program.solve()
    return {} if values is None else allocation.shares(values)


class Cost:
    """Throughput by what it costs; `prices` are for one GPU of each type and an hour."""

    def __init__(self, prices: Sequence[float], *, slo: bool = False) -> None:
        self._prices, self._slo = tuple(prices), slo

    def __call__(self, problem: ShareProblem) -> Shares:
        if not problem.jobs:
            return {}
        due = [job for job in problem.jobs if self._slo and job.due is not None and job.due > 0]
        numbers = {job.number for job in due}
        groups = [[job] for job in due]
        for kind in problem.kinds():
            rest = [job for job in kind if job.number not in numbers]
            groups += [rest] if rest else []
        found = self._best(problem, groups, len(due))
        if found is None and due:
            found = self._best(problem, groups, 0)
        return found or {}

    def _best(self, problem: ShareProblem, groups: list[list[Job]], due: int) -> Shares | None:
        """Return the shares with the best ratio, None where the first `due` jobs cannot be met."""
        program = Program()
        scale = program.column()
        allocation = ShareColumns(program, problem, groups, scale=scale)
        total = program.column(1.0)
        made = [entry for own in allocation.made for entry in own]
        program.row([*made, (total, -1.0)], low=0.0)
        priced = [
            (column, gpus * price)
            for used, price in zip(allocation.used, self._prices, strict=True)
            for column, gpus in used
        ]
        program.row(priced, low=1.0, high=1.0)
        for (job, *_), own in zip(groups[:due], allocation.made, strict=False):
            program.row([*own, (scale, -_rate(job))], low=0.0)
        values = program.solve(centre=False)
        if values is None:
            return None
        return self._largest(problem, groups, due, values[total])

    def _largest(
        self, problem: ShareProblem, groups: list[list[Job]], due: int, ratio: float
    ) -> Shares | None:
        program = Program()
        allocation = ShareColumns(program, problem, groups)
        total, price = program.column(1.0), program.column()
        made = [entry for own in allocation.made for entry in own]
        program.row([*made, (total, -1.0)], low=0.0, high=0.0)
        priced = [
            (column, gpus * cost)
            for used, cost in zip(allocation.used, self._prices, strict=True)
            for column, gpus in used
        ]
        program.row([*priced, (price, -1.0)], low=0.0, high=0.0)
        program.row([(total, 1.0), (price, -ratio * (1 - 1e-9))], low=0.0)
        for (job, *_), own in zip(groups[:due], allocation.made, strict=False):
            program.row(own, low=_rate(job))
        values = program.solve()
        return None if values is None else allocation.shares(values)


def _rate(job: Job) -> float:
    assert job.due is not None
    return job.left / job.due
