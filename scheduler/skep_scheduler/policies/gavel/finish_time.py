"""Finish-time fairness in Gavel (Narayanan et al., OSDI 2020, section 4.2), after Themis.

    min over X of max over jobs j of  (elapsed_j + left_j / thr(j, X)) / T_iso_j

elapsed_j is the time since j came, left_j its steps to go, thr(j, X) its rate under X. T_iso_j is
how long j takes on its own part of the cluster, 1/J of the GPUs of each type: left_j by its rate
there now, and for the steps that are made, by its rate there at the decisions before.

For a given ratio rho this asks for thr(j, X) >= left_j / (rho * T_iso_j - elapsed_j), so that rho
is the root of s(rho) = 1, where s is the factor by which all these rates can be multiplied: a
linear program. It rises with rho, and falls to the root in a few steps of regula falsi.

- `Ftf`: by the rates
- agnostic: all types count as the first one (v100), as in the artifact
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skep_scheduler.policies.gavel.problem import Job, ShareProblem, Shares, isolated
from skep_scheduler.policies.gavel.program import Program, ShareColumns

# Jobs that are equal in all that counts, and the isolated time of each of them.
Goal = tuple[Sequence[Job], float]
ACCURACY = 1e-4
STEPS = 60


class Ftf:
    """It keeps the isolated time of the steps that were made."""

    def __init__(self, *, agnostic: bool = False) -> None:
        self._agnostic = agnostic
        self._isolated: dict[int, float] = {}
        self._before: dict[int, tuple[float, float]] = {}  # job: (left, isolated rate)

    def __call__(self, problem: ShareProblem) -> Shares:
        if self._agnostic:
            types = len(problem.types)
            jobs = [replace(job, rates=job.rates[:1] * types) for job in problem.jobs]
            problem = replace(problem, jobs=jobs)
        goals: list[Goal] = []
        before: dict[int, tuple[float, float]] = {}
        spent: dict[int, float] = {}
        for job in problem.jobs:
            rate = isolated(problem, job)
            if rate <= 0:
                continue
            left, known = self._before.get(job.number, (job.left, rate))
            spent[job.number] = self._isolated.get(job.number, 0.0) + (left - job.left) / known
            before[job.number] = job.left, rate
            goals.append(([job], spent[job.number] + job.left / rate))
        self._isolated, self._before = spent, before
        return fairest(problem, goals)


def fairest(problem: ShareProblem, goals: Sequence[Goal]) -> Shares:
    """Return shares whose largest ratio to the isolated times is least."""
    if not goals:
        return {}
    _, shares = solve(problem, goals)
    return shares


def solve(problem: ShareProblem, goals: Sequence[Goal]) -> tuple[float, Shares]:
    """Return the least ratio and its shares."""
    # Below this no share is enough: each job alone on its fastest type for all its time.
    low = max((job.elapsed + job.left / max(job.rates)) / time for (job, *_), time in goals)
    rates = _Rates(problem, goals)
    low_factor = rates.factor(low, centre=True)
    if low_factor >= 1 - ACCURACY:
        return low, rates.shares()
    high, high_factor = 2 * low, rates.factor(2 * low)
    while high_factor < 1:
        low, low_factor = high, high_factor
        high *= 2
        high_factor = rates.factor(high)
    for _ in range(STEPS):
        if high <= low * (1 + ACCURACY) or high_factor <= 1 + ACCURACY:
            break
        part = (1 - low_factor) / (high_factor - low_factor)
        ratio = low + (high - low) * min(max(part * 1.02, 0.02), 0.98)
        factor = rates.factor(ratio)
        if factor < 1:
            low, low_factor = ratio, factor
        else:
            high, high_factor = ratio, factor
    rates.factor(high, centre=True)
    return high, rates.shares()


class _Rates:
    """The rates that a ratio asks for, and by how much all of them can be multiplied: one program,
    of which a ratio changes some values."""

    def __init__(self, problem: ShareProblem, goals: Sequence[Goal]) -> None:
        self._goals, self._program = goals, Program()
        self._factor = self._program.column(1.0)
        groups = [group for group, _ in goals]
        self._allocation = ShareColumns(self._program, problem, groups)
        self._rows: list[int] = []
        self._values: list[float] | None = None

    def factor(self, ratio: float, *, centre: bool = False) -> float:
        """Return the factor; `centre`: at the centre of all shares with it, see `shares`."""
        rows = [self._row(at, ratio) for at in range(len(self._goals))]
        if not self._rows:
            self._rows = [self._program.row(row, low=0.0) for row in rows]
        else:
            for number, row in zip(self._rows, rows, strict=True):
                self._program.change(number, row)
        self._values = self._program.solve(centre=centre)
        return 0.0 if self._values is None else self._values[self._factor]

    def shares(self) -> Shares:
        """Return the shares of the last factor."""
        return {} if self._values is None else self._allocation.shares(self._values)

    def _row(self, at: int, ratio: float) -> list[tuple[int, float]]:
        (group, time), made = self._goals[at], self._allocation.made[at]
        need = len(group) * group[0].left / max(ratio * time - group[0].elapsed, 1e-9)
        return [*((column, rate / need) for column, rate in made), (self._factor, -1.0)]
