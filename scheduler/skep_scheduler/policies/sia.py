"""Sia (Jayaram Subramanya et al., SOSP 2023): sizes and GPU types by goodput, every round.

Rule, section 3: a configuration c is a number of GPUs of one type. `G_jc` is the goodput of job j
in it, divided by the least that the job has in any allowed one. A job that would have to restart
keeps only a part of it, `r_j = max(age - restarts * S, 0) / (age + S)`, with S the seconds that a
restart takes. Then

    minimise  sum A_jc X_jc + lambda * (jobs that wait),  A_jc = (r_j G_jc) ** p,  p < 0

with at most one configuration for each job, and no more GPUs of a type than there are. Defaults:
p = -0.5, lambda = 1.1, rounds of 60 s. As `G >= 1`, a job that waits costs more than one that runs
anywhere without a restart.

Configurations are powers of two within a node, and whole nodes beyond, so that a placement on whole
nodes always exists. A new job starts with one GPU and at most doubles in a round. Costs are rounded
to two digits and at most 3000, as the artifact has them; with p > 0 the paper maximises, which is
not offered. So many answers cost the same: of these the one in which most jobs keep what they hold
is taken. The paper solves the program with GLPK, its artifact with CBC; see `multiple_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skep_scheduler.policies.base import Keep, Needs, parameter
from skep_scheduler.policies.multiple_choice import WAITS, Choices, solve

Array = np.ndarray[Any, Any]
LEAST_GOODPUT = 1e-4
MOST_COST = 3000.0
DIGIT = 0.01  # costs are whole multiples of it
KEEP = 1e-4  # what a job gains by keeping what it holds; all of them together less than a digit


@dataclass(frozen=True, slots=True)
class Sia:
    """Jobs change their size and GPU type every minute to where they make the best progress."""

    power: float = parameter(-0.5, "p: how much a large gain counts", minimum=-5, maximum=-0.01)
    waiting_cost: float = parameter(1.1, "lambda: cost of a job that waits", minimum=1, maximum=100)
    round_s: int = parameter(60, "Seconds between decisions", minimum=10, maximum=3600)
    solver: str = parameter(
        "auto", "How the program is solved", choices=("auto", "exact", "milp", "prices")
    )

    name: ClassVar[str] = "sia"
    label: ClassVar[str] = "goodput"
    needs: ClassVar[Needs] = Needs(otherwise="It runs at the size that it asks for.")
    keep: ClassVar[Keep] = Keep.DISPLACE


@dataclass(frozen=True, slots=True)
class Configuration:
    """`gpus` GPUs of a type on `nodes` nodes."""

    gpu_type: str
    gpus: int
    nodes: int


def configurations(
    gpu_types: Mapping[str, tuple[int, int]], most_nodes: Mapping[str, int]
) -> list[Configuration]:
    """Return the configurations of GPU types, each with (nodes, GPUs of a node); `most_nodes` are
    the nodes up to which a type was profiled."""
    made = []
    for gpu_type, (nodes, gpus) in gpu_types.items():
        size = 1
        while size < gpus:
            made.append(Configuration(gpu_type, size, 1))
            size *= 2
        for count in range(1, min(nodes, most_nodes.get(gpu_type, nodes)) + 1):
            made.append(Configuration(gpu_type, count * gpus, count))
    return made


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one job gets of each configuration: `goodputs` by configuration, 0 where it must not
    be. It holds `present`; `pinned`: it keeps that, as it is in a restart."""

    goodputs: Array
    present: int | None = None
    restart_factor: float = 1.0
    pinned: bool = False


def restart_factor(age_s: float, restarts: int, restart_s: float) -> float:
    """Return r_j, the part of the goodput that is left to a job that restarts."""
    if age_s < restart_s:
        return 1.0
    return max(age_s - restarts * restart_s, 0.0) / (age_s + restart_s)


def costs(job: Candidate, power: float) -> Array:
    """Return A_jc; infinite where the goodput is 0."""
    good = np.asarray(job.goodputs, dtype=float)
    allowed = good > 0
    if not allowed.any():
        return np.full(len(good), np.inf)
    good = np.where(allowed, np.maximum(good, LEAST_GOODPUT), np.inf)
    good = good / good.min()
    if job.present is not None:
        factors = np.full(len(good), job.restart_factor)
        factors[job.present] = 1.0
        good = good * factors
    with np.errstate(divide="ignore"):
        made = np.minimum(np.round(np.power(good, power), 2), MOST_COST)
    return np.where(allowed, made, np.inf)


def decide(
    policy: Sia,
    jobs: Sequence[Candidate],
    columns: Sequence[Configuration],
    capacity: Mapping[str, int],
) -> list[int | None]:
    """Return the configuration of each job, None for one that waits."""
    names = list(capacity)
    left = dict(capacity)
    answer: list[int | None] = [None] * len(jobs)
    free = []
    for number, job in enumerate(jobs):
        if job.pinned and job.present is not None:
            answer[number] = job.present
            left[columns[job.present].gpu_type] -= columns[job.present].gpus
        else:
            free.append(number)
    if not free:
        return answer
    made = np.array([costs(jobs[number], policy.power) for number in free])
    for row, number in enumerate(free):
        if (present := jobs[number].present) is not None:
            made[row, present] -= min(KEEP, DIGIT / 2 / len(free))
    program = Choices(
        made,
        np.array([column.gpus for column in columns]),
        np.array([names.index(column.gpu_type) for column in columns]),
        [left[name] for name in names],
        policy.waiting_cost,
    )
    for number, column in zip(free, solve(program, policy.solver).taken, strict=True):
        answer[number] = None if column == WAITS else column
    return answer
