"""Gandiva as Gavel has it as a baseline (Narayanan et al., OSDI 2020, section 7).

All combinations get equal time: X[c][m] = N_m / (C * n_c) for C combinations, the sum over the
types at most 1. Jobs that ask for more GPUs together than there are get companions: pairs of equal
size are drawn at random from those without, as many times as there are such jobs. A pair stays as
long as the sum over the types of both normalised rates is at least 1.

Gandiva itself (Xiao et al., OSDI 2018) tries a companion for a while and measures; here the rates
are known. Jobs whose companion ended are drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skep_scheduler.policies.gavel.problem import Combination, Job, ShareProblem, Shares


class Samples(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def sample(self, _population: Sequence[Job], _k: int, /) -> list[Job]: ...


class EqualTime:
    """Equal time for combinations; it keeps who is packed with whom."""

    def __init__(self, random: Samples) -> None:
        self._random = random
        self._companion: dict[int, int] = {}

    def __call__(self, problem: ShareProblem) -> Shares:
        jobs = {job.number: job for job in problem.jobs}
        for one, two in list(self._companion.items()):
            if one not in jobs or two not in jobs or _gain(problem, jobs[one], jobs[two]) < 1.0:
                self._companion.pop(one, None)
                self._companion.pop(two, None)
        if sum(job.gpus for job in problem.jobs) <= sum(problem.gpus):
            combinations: list[Combination] = [(number,) for number in jobs]
        else:
            self._pack([job for job in problem.jobs if job.number not in self._companion])
            combinations = [(number,) for number in jobs if number not in self._companion]
            combinations += [(a, b) for a, b in self._companion.items() if a < b]
        shares: Shares = {}
        for combination in combinations:
            gpus = jobs[combination[0]].gpus
            parts = [number / len(combinations) / gpus for number in problem.gpus]
            whole = max(sum(parts), 1.0)
            shares[combination] = tuple(part / whole for part in parts)
        return shares

    def _pack(self, free: list[Job]) -> None:
        for _ in range(len(free)):
            if len(free) < 2:
                return
            one, two = self._random.sample(free, 2)
            if one.gpus == two.gpus:
                free.remove(one)
                free.remove(two)
                self._companion[one.number], self._companion[two.number] = two.number, one.number


def _gain(problem: ShareProblem, one: Job, two: Job) -> float:
    """Return the sum of normalised rates over all types, 0 where one of them stands still."""
    first, second = (one, two) if one.number < two.number else (two, one)
    total = 0.0
    for at, (mine, other) in enumerate(problem.pair(first, second) or ((0.0, 0.0),)):
        if mine <= 0 or other <= 0:
            return 0.0
        total += mine / first.rates[at] + other / second.rates[at]
    return total
