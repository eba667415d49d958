"""Exact packing of unequal tasks, for the gangs that greedy packing cannot seat.

Node by node, the search keeps every non-dominated vector "tasks placed so far, per demand", so for
a fixed number of demands its work is polynomial. It ends when its budget of steps is spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, ge, sub

from skep_scheduler.gang import Demands
from skep_scheduler.room import Left, Room

STEPS_PER_TICK = 100_000  # a few tenths of a second

Counts = tuple[int, ...]  # tasks per demand
# How a vector came about: the vector before, the node that was added, what it took.
Trail = tuple["Trail", int, Counts] | None


@dataclass
class Budget:
    """Steps that the searches of one tick may spend together."""

    steps: int = STEPS_PER_TICK

    def spend(self, steps: int) -> bool:
        """False once more was asked for than there was."""
        self.steps -= steps
        return self.steps >= 0


def search(room: Room, demands: Demands, budget: Budget) -> list[tuple[int, int, int]] | None:
    """Seats as (demand, rank, tasks); None if there are none or the budget is spent."""
    wanted = tuple(demand.tasks for demand in demands)
    reached: dict[Counts, Trail] = {tuple(0 for _ in demands): None}
    for rank in _candidates(room, demands):
        longer: dict[Counts, Trail] = {}
        for placed, trail in reached.items():
            missing = tuple(map(sub, wanted, placed))
            fillings = _fillings(room.nodes[rank].left, demands, missing)
            for counts in fillings:
                longer.setdefault(tuple(map(add, placed, counts)), (trail, rank, counts))
            if not budget.spend(len(fillings)):
                return None
        if wanted in longer:
            return _seats(longer[wanted])
        reached = _undominated(longer, budget)
    return None


def _candidates(room: Room, demands: Demands) -> list[int]:
    """Ranks of nodes with room for any task, most idle GPUs first."""
    ranks = [
        rank
        for rank in range(len(room.nodes))
        if any(room.copies(rank, demand, 1) for demand in demands)
    ]
    return sorted(ranks, key=lambda rank: (-room.nodes[rank].left.of(None).gpus, rank))


def _fillings(left: Left, demands: Demands, missing: Counts) -> list[Counts]:
    """Ways to fill one node with missing tasks; the last demand always takes all it can."""
    if not demands:
        return [()]
    most = left.of(demands[0].model).copies(demands[0].need, missing[0])
    return [
        (tasks, *others)
        for tasks in ([most] if len(demands) == 1 else range(most, -1, -1))
        for others in _fillings(left.minus(demands[0], tasks), demands[1:], missing[1:])
    ]


def _undominated(reached: dict[Counts, Trail], budget: Budget) -> dict[Counts, Trail]:
    kept: dict[Counts, Trail] = {}
    for counts in sorted(reached, reverse=True):
        if not any(all(map(ge, other, counts)) for other in kept):
            kept[counts] = reached[counts]
        budget.spend(len(kept) // 8)
    return kept


def _seats(trail: Trail) -> list[tuple[int, int, int]]:
    seats = []
    while trail is not None:
        trail, rank, counts = trail
        seats += [(i, rank, tasks) for i, tasks in enumerate(counts) if tasks]
    return seats
