"""Training of the learned policies in the simulator: `skep train-policy`.

First the network learns the decisions of the policy that it falls back to, by cross-entropy. Then
it runs each trace several times with choices drawn from its probabilities, and climbs the policy
gradient (REINFORCE): what a run gained from a decision on, less the mean of the runs of the same
trace at the same time. The weights that did best on traces of validation are kept, those after the
first part among them. All is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from skep_scheduler.policies.elastic import ElasticFacts, Sizes
from skep_scheduler.policies.learned import Choose, SizeRule, by_key
from skep_scheduler.policies.network import Adam, Array, Network, probabilities
from skep_scheduler.policies.weights import Weights
from skep_scheduler.simulator.elastic import by_speedup, read_speedup, run_elastic
from skep_scheduler.simulator.workload import TraceJob, WorkloadError, synthetic_trace

ENTROPY = 0.01
VALIDATION_SEED, TRAINING_SEED = 1_000_000, 2_000_000


@dataclass(frozen=True, slots=True)
class Training:
    """How to train.

    traces: the jobs to learn from; without them they are made up for each round, `jobs` of them
    rounds, runs: of the policy gradient, and runs of a trace in each; lessons: traces of the first
        part; checks: traces of validation, looked at every 10 rounds
    """

    gpus: int = 16
    jobs: int = 30
    load: float = 0.9
    speedups: Sequence[str] = ("linear", "amdahl:0.02", "amdahl:0.1")
    rounds: int = 100
    runs: int = 6
    lessons: int = 6
    checks: int = 6
    rate: float = 0.003
    seed: int = 0
    traces: Sequence[Sequence[TraceJob]] = ()


@dataclass(slots=True)
class _Log:
    """The decisions of a run: the choices of each, how many jobs are there, and how many late."""

    at: list[float] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    choices: list[list[tuple[Array, int]]] = field(default_factory=list)


class _Recorded:
    """A rule that decides by `choose`, and keeps what it decided."""

    def __init__(self, rule: SizeRule, choose: Choose) -> None:
        self.name = rule.name
        self._rule, self._choose, self.log = rule, choose, _Log()

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        if not self._rule.is_due(now):
            held = {job.id: job.held for job in jobs}
            return Sizes(held, wake_at=self._rule.next_at(now, waits=True))
        log = self.log
        log.at.append(now)
        log.there.append(len(jobs))
        log.late.append(sum(job.deadline_at < now for job in jobs))
        log.choices.append([])
        sizes = self._rule.sizes(jobs, gpus, now, self._keep)
        return Sizes(sizes, wake_at=self._rule.next_at(now, waits=len(sizes) < len(jobs)))

    def _keep(self, rows: Array, keys: Sequence[float]) -> int:
        taken = self._choose(rows, keys)
        if len(rows) > 1:
            self.log.choices[-1].append((rows.copy(), taken))
        return taken


def train(
    rule: SizeRule, training: Training, report: Callable[[int, int], None] | None = None
) -> Weights:
    """Return trained weights, with a card of what they were trained on. `report` is called with
    (rounds done, rounds). Raises `WorkloadError` where nothing can be learned."""
    random = np.random.default_rng(training.seed)
    start = Network.random(len(rule.features), training.seed)
    network = start.copy()
    checks = [_jobs(training, VALIDATION_SEED + n, -1 - n) for n in range(training.checks)]
    _imitate(rule, training, network)
    best, best_s = network.copy(), mean_jct_s(rule, network.best, training, checks)
    warm_s = best_s
    optimiser = Adam(network, training.rate)
    for number in range(training.rounds):
        jobs = _jobs(training, TRAINING_SEED + training.seed * 10_007 + number, number)
        _improve(rule, training, network, optimiser, jobs, number, random)
        if (number + 1) % 10 == 0 or number + 1 == training.rounds:
            found_s = mean_jct_s(rule, network.best, training, checks)
            if found_s < best_s:
                best, best_s = network.copy(), found_s
        if report is not None:
            report(number + 1, training.rounds)
    known = {key: getattr(training, key) for key in training.__slots__ if key != "traces"}
    known["speedups"] = list(training.speedups)
    card: Mapping[str, Any] = {
        "experimental": True,
        "training": known | {"given_traces": len(training.traces)},
        "mean_jct_s": {
            "learned": round(best_s, 3),
            "after_imitation": round(warm_s, 3),
            "fallback": round(mean_jct_s(rule, by_key, training, checks), 3),
            "untrained": round(mean_jct_s(rule, start.best, training, checks), 3),
        },
    }
    return Weights(rule.name, rule.features, best, card)


def mean_jct_s(
    rule: SizeRule, choose: Choose, training: Training, traces: Sequence[Sequence[TraceJob]]
) -> float:
    """Return the mean completion time of all jobs of the traces under a rule; infinite where some
    do not end."""
    total, count = 0.0, 0
    for number, jobs in enumerate(traces):
        ended, _ = _run(rule, choose, training, jobs, number)
        if len(ended) < len(jobs):
            return inf
        total, count = total + sum(ended), count + len(ended)
    return total / max(count, 1)


def _jobs(training: Training, seed: int, number: int) -> Sequence[TraceJob]:
    """Return the jobs of a round; those of the last traces are for validation."""
    if not training.traces:
        load = training.load * (1 + number % 2)
        made = synthetic_trace(training.jobs, training.gpus, seed, load)
        # Every job has a deadline, from tight to loose, so that deadlines are learned as well.
        return [
            replace(job, deadline_s=job.submit_s + job.duration_s * (1.2 + n % 5))
            for n, job in enumerate(made)
        ]
    held_back = min(training.checks, max(len(training.traces) // 4, 1))
    if number < 0:
        return training.traces[-1 - (-1 - number) % held_back]
    return training.traces[number % max(len(training.traces) - held_back, 1)]


def _run(
    rule: SizeRule, choose: Choose, training: Training, jobs: Sequence[TraceJob], number: int
) -> tuple[list[float], _Log]:
    policy = _Recorded(rule, choose)
    speedup = training.speedups[number % len(training.speedups)]
    runs = by_speedup(jobs, read_speedup(speedup), training.gpus, 0.0)
    outcome = run_elastic(runs, policy, training.gpus)
    ended = [job.jct_s for job in outcome.jobs if job.ended_at is not None]
    return ended, policy.log


def _imitate(rule: SizeRule, training: Training, network: Network) -> None:
    """Let the network learn the choices of the fallback."""
    known: list[tuple[Array, int]] = []
    for n in range(training.lessons):
        jobs = _jobs(training, TRAINING_SEED - 1 - n - training.seed * 101, n)
        known += [
            choice for group in _run(rule, by_key, training, jobs, n)[1].choices for choice in group
        ]
    if not known:
        raise WorkloadError(
            "There is nothing to learn from: in these jobs no choice between two ever comes up. "
            "Give more jobs, or fewer GPUs.",
            "bad_option",
        )
    optimiser, size = Adam(network, 0.005), 256
    order = np.random.default_rng(training.seed + 1)
    for _ in range(6):
        mixed = order.permutation(len(known))
        for begin in range(0, len(known), size):
            part = [known[int(n)] for n in mixed[begin : begin + size]]
            rows, starts, at = _stack(part)
            optimiser.climb(network.gradient(rows, starts, at, np.full(len(part), 1 / len(part))))


def _improve(
    rule: SizeRule,
    training: Training,
    network: Network,
    optimiser: Adam,
    jobs: Sequence[TraceJob],
    number: int,
    random: np.random.Generator,
) -> None:
    """Take one step of the policy gradient, from several runs of one trace."""

    def draw(rows: Array, keys: Sequence[float]) -> int:
        parts = probabilities(network.scores(rows), np.array([0]))
        return min(int(np.searchsorted(np.cumsum(parts), random.random())), len(rows) - 1)

    logs = [_run(rule, draw, training, jobs, number)[1] for _ in range(training.runs)]
    gains = [_gains(rule, log) for log in logs]
    grid = np.unique(np.concatenate([log.at for log in logs]))
    # A run that is over gains nothing more.
    mean = np.mean(
        [np.interp(grid, log.at, gain, right=0.0) for log, gain in zip(logs, gains, strict=True)],
        axis=0,
    )
    choices: list[tuple[Array, int]] = []
    advantages: list[float] = []
    for log, gain in zip(logs, gains, strict=True):
        over = gain - np.interp(log.at, grid, mean)
        for value, group in zip(over, log.choices, strict=True):
            choices += group
            advantages += [float(value)] * len(group)
    if not choices:
        return
    weight = np.array(advantages)
    weight = weight / (weight.std() + 1e-9) / len(weight)
    rows, starts, at = _stack(choices)
    slope = network.gradient(rows, starts, at, weight)
    # Entropy: unlikely choices that were taken count more.
    parts = probabilities(network.scores(rows), starts)[at]
    surprise = -np.log(np.maximum(parts, 1e-12))
    bonus = network.gradient(rows, starts, at, ENTROPY * (surprise - surprise.mean()) / len(weight))
    optimiser.climb([one + more for one, more in zip(slope, bonus, strict=True)])


def _gains(rule: SizeRule, log: _Log) -> Array:
    """Return what is gained from each decision on: for each slot less by one for each job that is
    there, as the sum of completion times grows; with MLF-RL's weights also for each that is late.
    It is the same to work done early, the reward of DL2, but needs no discount."""
    gains = np.zeros(len(log.at))
    present, late = (0.5, 0.55) if rule.name == "mlf_rl" else (1.0, 0.0)
    following = 0.0
    for n in reversed(range(len(log.at) - 1)):
        slots = (log.at[n + 1] - log.at[n]) / rule.slot_s
        following -= slots * (present * log.there[n] + late * log.late[n])
        gains[n] = following
    return gains


def _stack(choices: Sequence[tuple[Array, int]]) -> tuple[Array, Array, Array]:
    """Return all rows, where each group of them begins, and the rows that were taken."""
    sizes = np.array([len(rows) for rows, _ in choices])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    taken = starts + np.array([taken for _, taken in choices])
    return np.concatenate([rows for rows, _ in choices]), starts, taken
