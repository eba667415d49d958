"""How many cells of each type a virtual cluster has in a chain, and how many of them it could use
at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skep_scheduler.cells.health import lost
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import OPPORTUNISTIC
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical, Virtual


@dataclass(frozen=True, slots=True)
class Owned:
    """Cells of one level. `bad`: free ones for which there is no healthy place; `lent`: free ones
    that opportunistic jobs must leave first."""

    total: int
    used: int
    bad: int
    lent: int

    @property
    def free(self) -> int:
        return self.total - self.used - self.bad - self.lent


def count(state: State, vc: str, chain: str, roots: Sequence[Virtual]) -> dict[int, Owned]:
    """By level, the largest cells first."""
    pool = state.chains[chain]
    clean = _clean(pool)
    levels = sorted({root.level for root in roots}, reverse=True)
    return {level: _count(state, vc, pool, level, roots, clean[level]) for level in levels}


def open_states(owned: Owned, roots: Sequence[Virtual]) -> dict[Virtual, str]:
    """What a free root of one level that has no place yet would meet: free, lent or bad. Which of
    them stands for which is nobody's choice: the last ones are the bad ones."""
    unbound = [root for root in roots if root.physical is None]
    pinned = [root for root in roots if root.physical is not None and not root.used_total]
    bad = owned.bad - sum(state_of_place(root.physical) == "bad" for root in pinned)
    lent = owned.lent - sum(state_of_place(root.physical) == "lent" for root in pinned)
    free = len(unbound) - bad - lent
    states = ["free"] * free + ["lent"] * lent + ["bad"] * bad
    return dict(zip(unbound, states, strict=True))


def state_of_place(cell: Physical | None) -> str:
    """Of a physical cell that its owner does not use."""
    if cell is None:
        return "free"
    if cell.bad:
        return "bad"
    return "lent" if cell.used_at(OPPORTUNISTIC) else "free"


def _count(
    state: State, vc: str, pool: Pool, level: int, roots: Sequence[Virtual], clean: int
) -> Owned:
    mine = [root for root in roots if root.level == level]
    used = sum(root.used_total > 0 for root in mine)
    places = Counter(
        state_of_place(root.physical)
        for root in mine
        if root.physical is not None and not root.used_total
    )
    unbound = sum(root.physical is None for root in mine)
    bad = lost(state, vc, pool.shape.chain, level) if unbound else 0
    lent = max(unbound - bad - clean, 0)
    return Owned(len(mine), used, bad + places["bad"], lent + places["lent"])


def _clean(pool: Pool) -> list[int]:
    """By level, the free cells, also parts of larger ones, that are wholly healthy and idle."""
    clean = [0] * (pool.shape.top + 1)
    stack: list[Physical] = [cell for free in pool.free for cell in free.cells]
    while stack:
        cell = stack.pop()
        if cell.bad or cell.used_total:
            stack.extend(cell.parts)
        else:
            for lower in range(1, cell.level + 1):
                clean[lower] += cell.shape.cells_in(cell.level, lower)
    return clean
