"""Gavel live: Narayanan et al., OSDI 2020, sections 4 and 5, as a policy of rounds.

X[j][m] is the part of its time that job j spends on GPUs of type m, by the linear program of an
objective (`max_min`, `water_filling`, `totals`). Live the rate T[j][m] is the relative speed that
the job declares for the type (`extras.skep.speeds`), else that of the parameter `speeds`, else 1: a
job that names no GPU model may run on any, one that names a model only there. Jobs of a higher
priority are given their parts first, and the others share what is left of the GPUs.

With GPUs of one type the program of `max_min` needs no solver: its lexicographic optimum is the
water-filling of the GPUs over the jobs by weight. All else is solved by HiGHS, once for each set of
kinds of jobs: the answer is remembered by exactly the numbers that the program is made of.

`ftf` (finish-time fairness, section 4.2 after Themis) and `min_makespan` need the work that a job
has left: seconds at speed 1, its probable duration without the time that it has run. That of a job
of unknown duration is as long again as it has run, an hour at least. Times are rounded to a quarter
of an octave, so that jobs are of few kinds and an answer holds for a while.

It differs from the paper: jobs take turns by what is owed since they last started or began to wait
(`policies.rounds`) and not by X / f, so that nothing is stored; a job that runs on an idle GPU of
another type than its own stays there until it is displaced; pairs of jobs are not packed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2
from typing import ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    WEIGHTS,
    Amounts,
    Knows,
    Needs,
    Parts,
    RoundView,
    only_gpus,
    parameter,
    round_parameter,
    weights_of,
)
from skep_scheduler.policies.gandiva_fair import water_fill
from skep_scheduler.policies.gavel.finish_time import Goal, fairest
from skep_scheduler.policies.gavel.max_min import max_min, water_filling
from skep_scheduler.policies.gavel.problem import Job, ShareProblem, Shares, isolated
from skep_scheduler.policies.gavel.program import SolverMissing
from skep_scheduler.policies.gavel.totals import max_sum, min_makespan_of_kinds
from skep_scheduler.policies.gpu_speeds import assumed, speed_on, speeds_parameter


def finish_time_fairness(problem: ShareProblem) -> Shares:
    """Return the shares of jobs whose `due` is how long they would take at speed 1 in all: with
    them the largest ratio of the time to a job's end to that on its own part of the GPUs is
    least."""
    goals: list[Goal] = []
    for kind in problem.kinds():
        rate = isolated(problem, kind[0])
        if rate > 0 and kind[0].due is not None:
            goals.append((kind, kind[0].due / rate))
    return fairest(problem, goals)


OBJECTIVES: Mapping[str, Callable[[ShareProblem], Shares]] = {
    "max_min": max_min,
    "water_filling": water_filling,
    "max_sum": max_sum,
    "ftf": finish_time_fairness,
    "min_makespan": min_makespan_of_kinds,
}
FILLS = ("max_min", "water_filling")  # on one type by water-filling, without a solver
BY_WORK_LEFT = ("ftf", "min_makespan")
Speeds = tuple[tuple[str, float], ...]  # by the name of a GPU model
Kinds = tuple[tuple["JobKind", int], ...]
UNKNOWN_S = 3600.0
SHORTEST_S = 60.0  # shorter times count as this
MOST_KINDS = 256  # rows of a program; with more, speeds are rounded until they are as few
STEPS = (64, 16, 8, 4, 2, 1)  # of the speed of a job on its fastest type
OCTAVE = 4.0  # steps in which a time doubles
OCTAVES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125)  # the same, where speeds are rounded so
NONE_LEFT = 1e-3  # of a GPU: what rounding leaves of it, over all jobs of a higher priority
UNKNOWN_DURATION = (
    "A job of unknown duration is taken for as long again as it has run, for an hour at least."
)
NOT_SOLVED = "all jobs have equal shares, as the program of gavel could not be solved"
NO_SOLVER = "all jobs have equal shares: gavel needs pip install 'skep[policies]' on the server"


@dataclass(frozen=True, slots=True)
class JobKind:
    """What jobs of one kind have in common: GPUs, weight, and the speed on each type; where the
    objective asks for it also the work that is left and that of the whole job (seconds at speed 1),
    and the seconds since it was submitted."""

    gpus: float
    weight: float
    rates: tuple[float, ...]
    left: float = 0.0
    total: float = 0.0
    elapsed: float = 0.0


@dataclass(frozen=True, slots=True)
class Gavel:
    """Jobs get shares of the time on each GPU model, by how fast they are there, so that an
    objective is best. They take turns in rounds, and yield to those to which time is owed."""

    name: ClassVar[str] = "gavel"
    label: ClassVar[str] = "shares of GPU models by speed"
    needs: ClassVar[Needs] = Needs(assumes=assumed(""))

    objective: str = parameter(
        "max_min",
        "What is best: `max_min` the least share, `water_filling` then the next least and so on, "
        "`max_sum` the total speed (slow jobs may get nothing), `ftf` the worst ratio of the time "
        "to a job's end to that on its own part of the GPUs, `min_makespan` the time until all "
        "jobs end. The last two take no weights.",
        choices=tuple(OBJECTIVES),
    )
    speeds: str = speeds_parameter()
    weights: str = parameter(
        "",
        "Weights of the jobs of users such as `ann:2;bob:0.5`; all others have 1.",
        pattern=WEIGHTS,
    )
    round_s: float = round_parameter(360.0)

    def needs_as_chosen(self) -> Needs:
        """Return what it must know with its objective."""
        assumes = assumed(self.speeds)
        if self.objective in BY_WORK_LEFT:
            return Needs(frozenset({Knows.DURATION}), UNKNOWN_DURATION, assumes)
        return Needs(assumes=assumes)

    def shares(self, view: RoundView) -> Mapping[str, float]:
        parts = self.parts(view).by_gang
        return {gang_id: min(sum(own.values()), 1.0) for gang_id, own in parts.items()}

    def parts(self, view: RoundView) -> Parts:
        """Return the parts of each gang by leaf type; of one without GPUs {"": 1}."""
        types = tuple(sorted(only_gpus(view.capacity)))
        left = {leaf: view.capacity[leaf] for leaf in types}
        table, weights = tuple(weights_of(self.speeds).items()), weights_of(self.weights)
        found: dict[str, dict[str, float]] = {}
        tiers: defaultdict[int, list[tuple[Gang, JobKind]]] = defaultdict(list)
        known: dict[tuple[Speeds, str, float], tuple[float, ...]] = {}
        for gang in view.gangs:
            most = view.main_gpus(gang)
            if most is None:
                found[gang.id] = {"": 1.0}
                continue
            at, gpus = most
            anywhere = view.accepts_any(gang) and len(view.gpus(gang)) == 1
            asked = gang.speeds or table, "" if anywhere else at, gpus
            if (rates := known.get(asked)) is None:
                rates = known[asked] = _rates(view.capacity, types, *asked)
            row = self._kind(view, gang, gpus, weights.get(gang.owner, 1.0), rates)
            tiers[gang.priority].append((gang, row))
        warning = ""
        for priority in sorted(tiers, reverse=True):
            parts, problem = self._tier(types, left, tiers[priority])
            warning = warning or problem
            for gang, row in tiers[priority]:
                found[gang.id] = own = parts[gang.id]
                for leaf, part in own.items():
                    left[leaf] = max(left[leaf] - part * row.gpus, 0.0)
        return Parts(found, warning)

    def _kind(
        self, view: RoundView, gang: Gang, gpus: float, weight: float, rates: tuple[float, ...]
    ) -> JobKind:
        if self.objective not in BY_WORK_LEFT:
            return JobKind(gpus, weight, rates)
        ran = view.ran_s(gang)
        expected = gang.expected_s
        left = max(ran, UNKNOWN_S) if expected is None else max(expected - ran, 0.05 * ran)
        left = _coarse_time(max(left, SHORTEST_S), OCTAVE)
        if self.objective == "min_makespan":
            return JobKind(gpus, 1.0, rates, left)
        total = _coarse_time(max(expected or 0.0, ran + left), OCTAVE)
        elapsed = _coarse_time(view.start - gang.submitted_at, OCTAVE)
        return JobKind(gpus, 1.0, rates, left, total, elapsed)

    def _tier(
        self, types: Sequence[str], left: Mapping[str, float], jobs: Sequence[tuple[Gang, JobKind]]
    ) -> tuple[dict[str, dict[str, float]], str]:
        open_types = [at for at, leaf in enumerate(types) if left[leaf] > NONE_LEFT]
        only = {row: _only(row, open_types) for row in dict.fromkeys(row for _, row in jobs)}
        coarse = _rounded(only.values())
        rows = [coarse[only[row]] for _, row in jobs]
        counts = Counter(rows)
        kinds = sorted(counts, key=lambda row: (row.gpus, row.weight, row.rates))
        problem = (
            tuple(types[at] for at in open_types),
            tuple(left[types[at]] for at in open_types),
            tuple((row, counts[row]) for row in kinds),
        )
        warning = ""
        try:
            solved = _solve(self.objective, *problem)
        except SolverMissing:
            solved, warning = _equal(*problem), NO_SOLVER
        except Exception:  # whatever a solver does: the queue goes on
            solved, warning = _equal(*problem), NOT_SOLVED
        by_row = dict(zip(kinds, solved, strict=True))
        parts = {
            gang.id: {types[at]: x for at, x in zip(open_types, by_row[row], strict=True) if x > 0}
            for (gang, _), row in zip(jobs, rows, strict=True)
        }
        return parts, warning


def forget() -> None:
    """Forget the programs that were solved."""
    _solve.cache_clear()


def known_programs() -> tuple[int, int]:
    """Return how many programs were solved, and how often an answer was remembered."""
    info = _solve.cache_info()
    return info.misses, info.hits


def _only(row: JobKind, open_types: Sequence[int]) -> JobKind:
    return replace(row, rates=tuple(row.rates[at] for at in open_types))


def _rates(
    capacity: Amounts, types: Sequence[str], speeds: Speeds, leaf: str, gpus: float
) -> tuple[float, ...]:
    """Return the speeds of a job on each type, 0 where it cannot run: on a type of which there are
    too few GPUs, and but for one leaf, if that is not "", on all others."""
    named = dict(speeds)
    return tuple(
        speed_on(each, named) if leaf in ("", each) and capacity[each] >= gpus else 0.0
        for each in types
    )


def _rounded(rows: Iterable[JobKind]) -> Mapping[JobKind, JobKind]:
    """Round the speeds and times of many different jobs, so that a program stays small. Return each
    as it was and rounded."""
    known = {row: row for row in rows}
    for steps, octave in zip(STEPS, OCTAVES, strict=True):
        if len(set(known.values())) <= MOST_KINDS:
            break
        for row, last in known.items():
            times = (
                _coarse_time(seconds, octave) for seconds in (last.left, last.total, last.elapsed)
            )
            known[row] = JobKind(row.gpus, row.weight, _coarse(last.rates, steps), *times)
    return known


def _coarse_time(seconds: float, steps: float) -> float:
    return 2 ** (round(log2(seconds) * steps) / steps) if seconds >= SHORTEST_S else 0.0


def _coarse(rates: tuple[float, ...], steps: int) -> tuple[float, ...]:
    most = max(rates, default=0.0)
    if most <= 0:
        return rates
    return tuple(max(round(rate / most * steps), 1) / steps if rate > 0 else 0.0 for rate in rates)


Solved = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=256)
def _solve(objective: str, types: tuple[str, ...], gpus: tuple[float, ...], kinds: Kinds) -> Solved:
    """Return the parts of one job of each kind. Raises `SolverMissing`, and what HiGHS raises."""
    if len(types) <= 1 and objective in FILLS:
        return _filled(gpus, kinds)
    jobs: list[Job] = []  # those of one kind are one object, as often as there are jobs
    for number, (row, count) in enumerate(kinds):
        same = Job(number, row, row.gpus, row.rates, row.left, row.elapsed, row.weight, row.total)  # type: ignore[arg-type]
        jobs += [same] * count
    shares = OBJECTIVES[objective](ShareProblem(types, gpus, jobs))  # type: ignore[arg-type]
    if not shares and any(any(row.rates) for row, _ in kinds):
        raise ArithmeticError("the program has no answer")
    none = (0.0,) * len(types)
    return tuple(
        tuple(min(max(x, 0.0), 1.0) for x in shares.get((number,), none))
        for number in range(len(kinds))
    )


def _filled(gpus: tuple[float, ...], kinds: Kinds) -> Solved:
    """Return the parts on one type, by water-filling; a kind is one user that asks for all."""
    asked, weight = {}, {}
    for at, (row, count) in enumerate(kinds):
        if any(row.rates):
            asked[str(at)], weight[str(at)] = row.gpus * count, row.weight * count
    entitled = water_fill(gpus[0], asked, weight) if asked else {}
    return tuple(
        (min(entitled[str(at)] / (row.gpus * count), 1.0),)
        if str(at) in entitled
        else (0.0,)
        if gpus
        else ()
        for at, (row, count) in enumerate(kinds)
    )


def _equal(types: tuple[str, ...], gpus: tuple[float, ...], kinds: Kinds) -> Solved:
    """Return equal parts of each type for all jobs that can run there."""
    able = [sum(n for row, n in kinds if row.rates[at] > 0) for at in range(len(types))]
    found = []
    for row, _ in kinds:
        parts = [
            total / many / row.gpus if rate > 0 else 0.0
            for total, many, rate in zip(gpus, able, row.rates, strict=True)
        ]
        whole = max(sum(parts), 1.0)
        found.append(tuple(part / whole for part in parts))
    return tuple(found)
