"""One choice for each job, or none, at the least cost, within a capacity for each GPU type.

The program behind Sia and alike (a multiple-choice knapsack): job j takes choice c at the cost
`a_jc`, or waits at the cost `wait`; choice c uses `gpus_c` GPUs of the type `type_c`, of which
there are `N_type`. Three ways to solve it:

- `exact`: dynamic programming over what is left of each type; for small clusters, no gap
- `milp`: HiGHS, to a relative gap
- `prices`: Lagrangian relaxation: with a price for a GPU of each type every job takes what is
  cheapest for it; subgradient steps move the prices towards what balances demand and capacity. The
  best sum of the relaxed program is a bound of the optimum, so that the gap is certified. What
  exceeds the capacity is then repaired greedily, and improved job by job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
WAITS = -1
EXACT_STATES = 40_000
PRICE_STEPS = 400


@dataclass(frozen=True, slots=True)
class Choices:
    """The program. `costs` has a row for each job and a column for each choice, infinite where it
    is not allowed; `gpus` and `types` are those of the columns; `capacity` is by type."""

    costs: Array
    gpus: Array
    types: Array
    capacity: Sequence[int]
    wait: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The column that each job takes, `WAITS` for none; the cost in all; no answer costs less than
    `bound`."""

    taken: list[int]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How far above the optimum it may be, as a part of the bound."""
        return max(self.cost - self.bound, 0.0) / max(abs(self.bound), 1e-12)


def solve(program: Choices, solver: str = "auto", gap: float = 1e-4) -> Answer:
    """Return the answer of `exact`, `milp` or `prices`. `auto` is exact where that is cheap, and
    prices elsewhere."""
    if solver == "auto":
        states = int(np.prod([n + 1 for n in program.capacity]))
        solver = "exact" if states <= EXACT_STATES else "prices"
    if solver == "exact":
        return exact(program)
    return milp(program, gap) if solver == "milp" else prices(program)


def exact(program: Choices) -> Answer:
    """Return the optimum by dynamic programming: jobs in order; a state is the number of GPUs of
    each type."""
    shape = tuple(n + 1 for n in program.capacity)
    value = np.zeros(shape)
    decided: list[Array] = []
    for row in program.costs:
        best = value + program.wait
        chosen = np.full(shape, WAITS, dtype=np.int32)
        for column in np.flatnonzero(row < program.wait):
            axis, gpus = int(program.types[column]), int(program.gpus[column])
            if gpus > program.capacity[axis]:
                continue
            into = tuple(slice(gpus if i == axis else 0, None) for i in range(len(shape)))
            out = tuple(slice(0, n - gpus if i == axis else n) for i, n in enumerate(shape))
            offered = value[out] + row[column]
            better = offered < best[into]
            best[into][better] = offered[better]
            chosen[into][better] = column
        value = best
        decided.append(chosen)
    left = list(program.capacity)
    taken = []
    for chosen in reversed(decided):
        choice = int(chosen[tuple(left)])
        taken.append(choice)
        if choice != WAITS:
            left[int(program.types[choice])] -= int(program.gpus[choice])
    cost = float(value[tuple(program.capacity)])
    return Answer(taken[::-1], cost, cost)


def milp(program: Choices, gap: float = 1e-4, limit_s: float = 60.0) -> Answer:
    """Return the answer of HiGHS to the mixed-integer program, within a relative gap."""
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.optimize import milp as solve_milp
    from scipy.sparse import coo_array, vstack

    n = len(program.costs)
    jobs, columns = np.nonzero(program.costs < program.wait)
    if not len(jobs):
        return Answer([WAITS] * n, n * program.wait, n * program.wait)
    places = np.arange(len(jobs))
    ones = np.ones(len(jobs))
    of_job = coo_array((ones, (jobs, places)), shape=(n, len(jobs)))
    shape = (len(program.capacity), len(jobs))
    of_type = coo_array((program.gpus[columns], (program.types[columns], places)), shape=shape)
    limits = np.concatenate([np.ones(n), np.asarray(program.capacity, dtype=float)])
    found = solve_milp(
        program.costs[jobs, columns] - program.wait,
        integrality=ones,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(vstack([of_job, of_type]).tocsr(), ub=limits),
        options={"mip_rel_gap": gap, "time_limit": limit_s},
    )
    taken = [WAITS] * n
    for place in np.flatnonzero(found.x > 0.5) if found.x is not None else ():
        taken[jobs[place]] = int(columns[place])
    bound = found.mip_dual_bound if found.mip_dual_bound is not None else -n * program.wait
    return Answer(taken, _cost(program, taken), float(bound) + n * program.wait)


def prices(program: Choices, steps: int = PRICE_STEPS) -> Answer:
    """Return an answer by prices, after about `steps * jobs * choices` operations."""
    n, kinds = len(program.costs), len(program.capacity)
    capacity = np.asarray(program.capacity, dtype=float)
    rows = np.arange(n)
    # Waiting is one more column, without GPUs.
    costs = np.column_stack([program.costs, np.full(n, program.wait)])
    gpus = np.append(program.gpus, 0)
    types = np.append(program.types, 0)
    use = np.zeros((kinds, len(gpus)))
    use[types, np.arange(len(gpus))] = gpus
    price = np.zeros(kinds)
    bound, best_price = -np.inf, price
    incumbent, least = [WAITS] * n, n * program.wait
    for step in range(steps):
        reduced = costs + price @ use
        chosen = reduced.argmin(axis=1)
        dual = float(reduced[rows, chosen].sum() - price @ capacity)
        if dual > bound:
            bound, best_price = dual, price
        over = (use[:, chosen].sum(axis=1) - capacity) / np.maximum(capacity, 1)
        if (over <= 0).all():
            value = float(costs[rows, chosen].sum())
            if value < least:
                least, incumbent = value, [int(c) if c < len(gpus) - 1 else WAITS for c in chosen]
        price = np.maximum(price + 0.3 / (1 + 0.1 * step) * np.clip(over, -1, 1), 0)
    repaired = _repair(costs, use, capacity, best_price)
    value = float(costs[rows, repaired].sum())
    if value < least:
        incumbent = [int(c) if c < len(gpus) - 1 else WAITS for c in repaired]
    cost = _cost(program, incumbent)
    return Answer(incumbent, cost, min(bound, cost))


def _repair(costs: Array, use: Array, capacity: Array, price: Array) -> Array:
    """Return choices within the capacity: those of the prices first, the largest gain first; then
    each job in turn takes what is best for it on what is left, three times."""
    waits = costs.shape[1] - 1
    reduced = costs + price @ use
    chosen = np.full(len(costs), waits)
    left = capacity.copy()
    order = np.argsort((reduced.min(axis=1) - costs[:, waits]), kind="stable")
    for keys in (reduced, costs, costs, costs):
        moved = False
        for job in order:
            left += use[:, chosen[job]]
            fits = (use <= left[:, None]).all(axis=0)
            best = int(np.where(fits, keys[job], np.inf).argmin())
            moved |= best != chosen[job]
            chosen[job] = best
            left -= use[:, best]
        if not moved:
            break
    return chosen


def _cost(program: Choices, taken: Sequence[int]) -> float:
    return sum(
        program.wait if column == WAITS else float(program.costs[job, column])
        for job, column in enumerate(taken)
    )
