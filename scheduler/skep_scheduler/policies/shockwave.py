"""Shockwave (Zheng et al., NSDI 2023): fair and efficient rounds for jobs whose speed changes.

Section 5: who runs in each of the next F rounds is planned at once, as a market in which each job
j buys progress. With `p_j` the part of its epochs that is done after the window, J jobs, `r_j` what
remains of its run time behind the window and `c_j` the number of its rounds within it:

    maximise  sum_j w_j log(p_j) / (J F)  -  k max_j r_j
    subject to  sum_j n_j c_j <= N F,  0 <= c_j <= F,
                t_end + r_j / min(1, N / J) <= rhomax * fair_j

`fair_j` is the running mean of when j would end with an equal part of the cluster. With `w_j = 1`
the first term is Nash's social welfare, the second the makespan. Where the last line cannot hold it
is dropped, and `w_j = ratio_j ^ lambda` for jobs whose projected ratio to `fair_j` exceeds rhomax.
The logarithm is linear between `bases`. `remaining_s` predicts `r_j` before the window: the batch
sizes of the epochs to come are a Dirichlet posterior, its prior equal for all of the job's regimes.

It differs from the artifact in form, not in meaning: rounds of a window are alike, so that the
integer program has one count for each job instead of a variable for each job and round, which
HiGHS solves in a fraction of a second; and `in_rounds` deals the counts to rounds by weight for
each GPU round, instead of by a second program. Weights are at most 10^6, for the solver's sake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

MOST_WEIGHT = 1e6


@dataclass(frozen=True, slots=True)
class Settings:
    """`future_rounds` F; `k` weighs the makespan; `lam` and `rhomax` as above; `bases` of log."""

    future_rounds: int = 20
    k: float = 10.0
    lam: float = 5.0
    rhomax: float = 1.0
    bases: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    rel_gap: float = 1e-3
    timeout_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Wish:
    """A job at the start of a window: its GPUs, its epochs in all and those done, the seconds of an
    epoch so far, what remains of its run time, and when it would end in fairness (seconds)."""

    gpus: int
    epochs: int
    done: int
    epoch_s: float
    remaining_s: float
    fair_s: float


def remaining_s(batches: Sequence[int], epochs_s: Sequence[float], done: int) -> float:
    """Return the predicted run time behind `done` epochs. `batches` and `epochs_s` are the batch
    size and the seconds of each epoch; of those to come only their means are used."""
    epochs = len(batches)
    if done >= epochs:
        return 1.0
    seen = Counter(batches[: done + 1])
    regimes = Counter(batches)
    total = epochs + seen.total()
    expected = 0.0
    by_regime = {}
    for batch in regimes:
        share = epochs * (epochs / len(regimes) + seen[batch]) / total
        by_regime[batch] = max(share - seen[batch], share % 1.0 if share >= 1 else share)
        expected += by_regime[batch]
    left = epochs - done
    time = sum(
        by_regime[batch] * fmean(s for b, s in zip(batches, epochs_s, strict=True) if b == batch)
        for batch in regimes
    )
    return time * left / max(int(expected + 1), left)


def running_mean(series: Sequence[tuple[int, float]], now: int, momentum: float = 0.9) -> float:
    """Return the mean of values by the rounds for which each held, drawn a little to the last."""
    ends = [moment for moment, _ in series[1:]] + [now]
    spans = [end - moment for end, (moment, _) in zip(ends, series, strict=True)]
    whole = sum(spans)
    mean = (
        sum(span * value for span, (_, value) in zip(spans, series, strict=True)) / whole
        if whole
        else series[-1][1]
    )
    return momentum * mean + (1 - momentum) * series[-1][1]


def weights(
    wishes: Sequence[Wish], now: float, round_s: float, gpus: int, s: Settings
) -> list[float]:
    """Return the weight of each job where not all can end in fairness."""
    share, found = min(1.0, gpus / len(wishes)), []
    for wish in wishes:
        ratio = (now + wish.remaining_s / share) / wish.fair_s
        power = 100.0 if wish.remaining_s < round_s else s.lam
        found.append(
            min(exp(min(power * log(ratio), 700.0)), MOST_WEIGHT) if ratio > s.rhomax else 1.0
        )
    return found


def plan(
    wishes: Sequence[Wish], now: float, round_s: float, gpus: int, s: Settings
) -> list[list[int]]:
    """Return the positions of the jobs that run in each of the next rounds, those that fill idle
    GPUs included. `now` is the start of the window in seconds."""
    equal = [1.0] * len(wishes)
    chosen, by = counts(wishes, equal, now, round_s, gpus, s, fair=True), equal
    if chosen is None:
        by = weights(wishes, now, round_s, gpus, s)
        chosen = counts(wishes, by, now, round_s, gpus, s, fair=False)
    rounds = in_rounds(wishes, chosen or [0] * len(wishes), by, gpus, s.future_rounds)
    longest = sorted(range(len(wishes)), key=lambda j: -wishes[j].remaining_s)
    for members in rounds:
        free = gpus - sum(wishes[j].gpus for j in members)
        for j in longest:
            if wishes[j].gpus <= free and j not in members:
                members.append(j)
                free -= wishes[j].gpus
    return rounds


def counts(
    wishes: Sequence[Wish],
    by: Sequence[float],
    now: float,
    round_s: float,
    gpus: int,
    s: Settings,
    *,
    fair: bool,
) -> list[int] | None:
    """Solve the program: return how many rounds each job gets, or None if there is no answer."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    J, F = len(wishes), s.future_rounds
    # Variables: J counts, J planned run times, J utilities, J remaining times, and by how much the
    # longest of them exceeds what can be had: so that the gap of the solver is one of utilities.
    least_longest = _least_longest(wishes, round_s, gpus, F)
    cost = np.zeros(4 * J + 1)
    cost[2 * J : 3 * J] = [-weight / (J * F) for weight in by]
    cost[4 * J] = s.k
    logs = [log(base or 1e-6) for base in s.bases]
    rows: list[tuple[dict[int, float], float]] = []  # sum of parts <= value
    rows.append(({j: float(wish.gpus) for j, wish in enumerate(wishes)}, float(gpus * F)))
    share = min(1.0, gpus / J)
    most = np.full(4 * J + 1, np.inf)
    for j, wish in enumerate(wishes):
        planned, utility, rest = J + j, 2 * J + j, 3 * J + j
        most[j] = F
        most[planned] = (wish.epochs - wish.done) * wish.epoch_s
        rows.append(({planned: 1.0, j: -round_s}, 0.0))
        for left, right, low, high in zip(s.bases, s.bases[1:], logs, logs[1:], strict=False):
            slope = (high - low) / (right - left)
            part = slope / (wish.epoch_s * wish.epochs)
            rows.append(
                ({utility: 1.0, planned: -part}, low + slope * (wish.done / wish.epochs - left))
            )
        rows.append(({planned: -1.0, rest: -1.0}, -wish.remaining_s))
        rows.append(({rest: 1.0, 4 * J: -1.0}, least_longest))
        if fair:
            most[rest] = (s.rhomax * wish.fair_s - now - F * round_s) * share
            if most[rest] < 0:
                return None
    least = np.zeros(4 * J + 1)
    least[2 * J : 3 * J] = -np.inf
    cells = [(i, column, value) for i, (row, _) in enumerate(rows) for column, value in row.items()]
    table = coo_array(
        ([c[2] for c in cells], ([c[0] for c in cells], [c[1] for c in cells])),
        shape=(len(rows), 4 * J + 1),
    )
    whole = np.zeros(4 * J + 1)
    whole[:J] = 1
    answer = milp(
        cost,
        integrality=whole,
        bounds=Bounds(least, most),
        constraints=LinearConstraint(table.tocsr(), ub=[value for _, value in rows]),
        options={"mip_rel_gap": s.rel_gap, "time_limit": s.timeout_s},
    )
    return None if answer.x is None else [round(value) for value in answer.x[:J]]


def _least_longest(wishes: Sequence[Wish], round_s: float, gpus: int, rounds: int) -> float:
    """Return the least `max_j r_j` that parts of rounds allow."""
    window = rounds * round_s
    low = max(0.0, max(wish.remaining_s for wish in wishes) - window)
    high = max(low, max(wish.remaining_s for wish in wishes))
    for _ in range(60):
        between = (low + high) / 2
        used = sum(wish.gpus * max(wish.remaining_s - between, 0.0) for wish in wishes)
        low, high = (low, between) if used <= gpus * window else (between, high)
    return low


def in_rounds(
    wishes: Sequence[Wish], chosen: Sequence[int], by: Sequence[float], gpus: int, rounds: int
) -> list[list[int]]:
    """Return the jobs of each round; those of the largest weight for each GPU round come first."""
    free, members = [gpus] * rounds, [list[int]() for _ in range(rounds)]
    jobs = [j for j in range(len(wishes)) if chosen[j] > 0]
    for j in sorted(jobs, key=lambda j: -by[j] / (chosen[j] * wishes[j].gpus)):
        for index in [i for i in range(rounds) if free[i] >= wishes[j].gpus][: chosen[j]]:
            members[index].append(j)
            free[index] -= wishes[j].gpus
    return members
