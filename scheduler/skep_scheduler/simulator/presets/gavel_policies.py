"""The policies of the preset `gavel` by name, their parameters, and how the rounds treat each.

Parameters of all: `lambda_s` (mean gap of arrivals), `window` (the jobs that are measured, such as
4000-5000), `multi_gpu` (1: jobs of up to 8 GPUs), `static` (so many jobs, all there at the start;
its makespan is what counts). Of `cost` and `cost_slo` also `price_v100`, `price_p100` and
`price_k80`, of a GPU for an hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from skep_scheduler.policies.allox import match
from skep_scheduler.policies.gavel import fifo, finish_time, gandiva, max_min, totals
from skep_scheduler.policies.gavel.problem import ShareProblem, Shares
from skep_scheduler.policies.gavel.program import SolverMissing
from skep_scheduler.simulator.presets.gavel import LAMBDA_S, WINDOW, Rule, Sweep, SweepRounds
from skep_scheduler.simulator.presets.gavel_jobs import TYPES
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import read_typed_profiles
from skep_scheduler.simulator.workload import WorkloadError

THROUGHPUTS = "simulation_throughputs.json"
PRICES = {"price_v100": 0.74, "price_p100": 0.43, "price_k80": 0.135}  # GCP, preemptible, in 2020
LAST_JOB = 100_000
MOST_STATIC = 5_000

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Entry:
    """`make` makes the rule of a seed and of the prices; the others are as in `Sweep`."""

    make: Callable[[int, tuple[float, ...]], Rule]
    shuffle: bool = False
    idle_fill: bool = True
    pairs: bool = False
    priced: bool = False
    slos: bool = False
    single: bool = False  # jobs of one GPU only


class AlloX:
    """AlloX (Le et al., EuroSys 2020) as Gavel has it: jobs that hold no GPU are matched to free
    ones by the least sum of completion times, see `policies.allox`; who is first on a GPU gets it,
    and keeps it to its end."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def __call__(self, problem: ShareProblem) -> Shares:
        numbers = {job.number for job in problem.jobs}
        held = {number: at for number, at in self._held.items() if number in numbers}
        at_of = {name: at for at, name in enumerate(problem.types)}
        used = list(held.values())
        free = {name: problem.gpus[at] - used.count(at) for name, at in at_of.items()}
        waiting = [job for job in problem.jobs if job.number not in held]
        times = [
            {name: job.left / max(job.rates[at], 1e-10) for name, at in at_of.items()}
            for job in waiting
        ]
        for row, name in match(times, [job.elapsed for job in waiting], free).items():
            held[waiting[row].number] = at_of[name]
        self._held = held
        types = range(len(problem.types))
        return {(number,): tuple(float(at == own) for at in types) for number, own in held.items()}


def _fifo(seed: int) -> Rule:
    return fifo.FifoForLife(Random(seed))  # noqa: S311 (no secret)


_POLICIES: Mapping[str, Entry] = {
    "allox": Entry(lambda seed, prices: AlloX(), single=True),
    "fifo": Entry(lambda seed, prices: _fifo(seed), shuffle=True, idle_fill=False),
    "fifo_perf": Entry(lambda seed, prices: fifo.fifo_perf, idle_fill=False),
    "fifo_packed": Entry(lambda seed, prices: fifo.fifo_packed, idle_fill=False, pairs=True),
    "gandiva": Entry(lambda seed, prices: gandiva.EqualTime(Random(seed)), pairs=True),  # noqa: S311
    "max_min": Entry(lambda seed, prices: max_min.max_min),
    "max_min_agnostic": Entry(lambda seed, prices: max_min.max_min_agnostic, shuffle=True),
    "max_min_packed": Entry(lambda seed, prices: max_min.max_min_packed, pairs=True),
    "water_filling": Entry(lambda seed, prices: max_min.water_filling),
    "ftf": Entry(lambda seed, prices: finish_time.Ftf()),
    "ftf_agnostic": Entry(lambda seed, prices: finish_time.Ftf(agnostic=True), shuffle=True),
    "min_makespan": Entry(lambda seed, prices: totals.min_makespan),
    "min_makespan_packed": Entry(lambda seed, prices: totals.min_makespan_packed, pairs=True),
    "max_sum": Entry(lambda seed, prices: totals.max_sum),
    "cost": Entry(lambda seed, prices: totals.Cost(prices), priced=True),
    "cost_slo": Entry(lambda seed, prices: totals.Cost(prices, slo=True), priced=True, slos=True),
}
# Names of the paper and of the artifact for the same.
ALIASES = {
    "las": "max_min_agnostic",
    "las_het": "max_min",
    "las_packed": "max_min_packed",
    "max_min_fairness": "max_min_agnostic",
    "max_min_fairness_perf": "max_min",
    "max_min_fairness_packed": "max_min_packed",
    "finish_time_fairness": "ftf_agnostic",
    "finish_time_fairness_perf": "ftf",
    "min_total_duration": "min_makespan",
    "min_total_duration_packed": "min_makespan_packed",
    "mst": "max_sum",
}
POLICIES: Mapping[str, Entry] = {
    **_POLICIES,
    **{alias: _POLICIES[name] for alias, name in ALIASES.items()},
}


def run(
    name: str,
    parameters: Mapping[str, Value],
    throughputs: Path,
    workers: Mapping[str, int],
    seed: int,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run a policy by its name. Raises `WorkloadError`."""
    entry = POLICIES[name]
    sweep = _sweep(name, entry, parameters, seed)
    if set(workers) != set(TYPES):
        raise WorkloadError("preset gavel needs a cluster of v100, p100 and k80", "bad_cluster")
    if sweep.multi_gpu and max(workers.values()) < 8:
        raise WorkloadError("multi_gpu=1 needs 8 GPUs of one type", "bad_cluster")
    prices = sweep.prices or tuple(PRICES.values())
    rounds = SweepRounds(entry.make(seed, prices), read_typed_profiles(throughputs), workers, sweep)
    try:
        return rounds.run(report)
    except SolverMissing as error:
        raise WorkloadError(str(error), "solver_missing") from None


def _sweep(name: str, entry: Entry, parameters: Mapping[str, Value], seed: int) -> Sweep:
    given = dict(parameters)
    lambda_s = _number(name, given, "lambda_s", LAMBDA_S, 60, 1e6)
    static = _number(name, given, "static", 0, 0, MOST_STATIC)
    multi_gpu = _number(name, given, "multi_gpu", 0, 0, 1)
    window = _window(name, str(given.pop("window", f"{WINDOW[0]}-{WINDOW[1]}")))
    prices = None
    if entry.priced:
        prices = tuple(_number(name, given, key, known, 1e-6, 1e6) for key, known in PRICES.items())
    if given:
        known = ["lambda_s", "window", "multi_gpu", "static", *(PRICES if entry.priced else ())]
        raise _bad(name, f"has no parameter {min(given)!r}; it has {', '.join(known)}")
    if static != int(static) or multi_gpu not in (0, 1):
        raise _bad(name, "has static, a whole number of jobs, and multi_gpu, 0 or 1")
    if multi_gpu and entry.single:
        raise _bad(name, "has jobs of one GPU only: leave multi_gpu out")
    return Sweep(
        seed,
        lambda_s,
        window,
        int(static),
        bool(multi_gpu),
        entry.slos,
        entry.shuffle,
        entry.idle_fill,
        entry.pairs,
        prices,
    )


def _number(
    policy: str, given: dict[str, Value], name: str, default: float, low: float, high: float
) -> float:
    value = given.pop(name, default)
    if isinstance(value, str) or not low <= value <= high:
        raise _bad(policy, f"has {name}, a number from {low:g} to {high:g}")
    return float(value)


def _window(policy: str, text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if found is None or not int(found[1]) < int(found[2]) <= LAST_JOB:
        raise _bad(policy, f"has window, such as 4000-5000, up to {LAST_JOB}")
    return int(found[1]), int(found[2])


def _bad(policy: str, text: str) -> WorkloadError:
    return WorkloadError(f"{policy} of preset gavel {text}", "bad_policy_parameter", policy=policy)
