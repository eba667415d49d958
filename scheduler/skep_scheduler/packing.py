"""Which nodes a gang gets: all of its tasks or none, on the fewest nodes, leaving the least.

A gang of equal tasks is packed exactly. Unequal tasks are packed greedily, largest first, and if
that fails by an exact search with a budget (`search.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from skep_scheduler.gang import Demand, Demands, gpus_by_model, total_of
from skep_scheduler.resources import Resources
from skep_scheduler.room import Pool, Room
from skep_scheduler.search import Budget, search


class Seat(NamedTuple):
    """`tasks` tasks of `demands[demand]` on the node of this rank."""

    demand: int
    rank: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Packing:
    demands: Demands
    seats: tuple[Seat, ...]  # in order of demand, then rank

    @property
    def ranks(self) -> set[int]:
        return {seat.rank for seat in self.seats}


def pack(room: Room, demands: Demands, budget: Budget) -> Packing | None:
    """A packing of the whole gang into the free room, which is left as it was."""
    seats = _pack_equal(room, demands) if len(demands) == 1 else _pack_mixed(room, demands, budget)
    return None if seats is None else Packing(demands, tuple(sorted(seats)))


def leftover(room: Room, packing: Packing) -> int:
    """Free GPUs, of the models it uses, that a packing would leave on its nodes."""
    needs = gpus_by_model(packing.demands)
    free = sum(
        room.nodes[rank].left.gpus.get(model, 0) for rank in packing.ranks for model, _ in needs
    )
    return free - sum(gpus for _, gpus in needs)


def _pack_equal(room: Room, demands: Demands) -> list[Seat] | None:
    spread = _spread(room, demands[0])
    return None if spread is None else [Seat(0, rank, tasks) for rank, tasks in spread]


def _pack_mixed(room: Room, demands: Demands, budget: Budget) -> list[Seat] | None:
    if any(_spread(room, demand) is None for demand in demands):
        return None
    whole = _one_node(room, demands)
    if whole is not None:
        return [Seat(i, whole, demand.tasks) for i, demand in enumerate(demands)]
    seats = _pack_greedily(room, demands)
    if seats is None:
        found = search(room, demands, budget)
        seats = None if found is None else [Seat(i, rank, n) for i, rank, n in found]
    return seats


def _one_node(room: Room, demands: Demands) -> int | None:
    """The tightest node for the whole gang; a gang of several GPU models is never tried as one."""
    models = [model for model, _ in gpus_by_model(demands)]
    if len(models) > 1:
        return None
    return room.pool(models[0] if models else None).tightest(total_of(demands))


def _pack_greedily(room: Room, demands: Demands) -> list[Seat] | None:
    """Larger tasks first; smaller ones fill the gang's own nodes before they open others."""
    seats: list[Seat] = []

    def take(seat: Seat) -> None:
        room.take(seat.rank, demands[seat.demand], seat.tasks)
        seats.append(seat)

    try:
        for i, demand in enumerate(demands):
            missing = demand.tasks
            for rank in sorted({seat.rank for seat in seats}):
                if tasks := room.copies(rank, demand, missing):
                    take(Seat(i, rank, tasks))
                    missing -= tasks
            spread = _spread(room, demand._replace(tasks=missing)) if missing else []
            if spread is None:
                return None
            for rank, tasks in spread:
                take(Seat(i, rank, tasks))
        return seats
    finally:
        for seat in seats:
            room.take(seat.rank, demands[seat.demand], -seat.tasks)


def _spread(room: Room, demand: Demand) -> list[tuple[int, int]] | None:
    """Node ranks and numbers of tasks for equal tasks, or None if there is no room for all.

    Tasks without GPUs first try the nodes that have no idle GPU, lest they starve GPU tasks of
    CPU and memory.
    """
    pool = room.pool(demand.model)
    if demand.model is None:
        idle_free = _fewest_nodes(pool, demand.need, demand.tasks, most=0)
        if idle_free is not None:
            return idle_free
    return _fewest_nodes(pool, demand.need, demand.tasks)


def _fewest_nodes(
    pool: Pool, need: Resources, count: int, most: int | None = None
) -> list[tuple[int, int]] | None:
    """The roomiest nodes first, among equals the tightest, and the tightest for the last tasks."""
    whole = pool.tightest(need.times(count), most)
    if whole is not None:
        return [(whole, count)]
    kinds = [
        (-copies, left, ranks)
        for left, ranks in pool.kinds(need.gpus, most)
        if (copies := left.copies(need, count))
    ]
    if -sum(copies * len(ranks) for copies, _, ranks in kinds) < count:
        return None
    return _pick(sorted(kinds), count)


def _pick(kinds: list[tuple[int, Resources, list[int]]], count: int) -> list[tuple[int, int]]:
    """From kinds of nodes (minus the tasks a node takes, what it has left, ranks), in order."""
    picked: list[tuple[int, int]] = []
    for position, (minus_copies, _, ranks) in enumerate(kinds):
        for rank in ranks:
            if -minus_copies >= count:
                last = _tightest_for(kinds, position, count)
                return [*picked, (rank if last == position else kinds[last][2][0], count)]
            picked.append((rank, -minus_copies))
            count += minus_copies
    raise AssertionError("kinds of nodes with too little room")


def _tightest_for(kinds: list[tuple[int, Resources, list[int]]], position: int, count: int) -> int:
    """Which kind, from `position` on, takes the last `count` tasks and leaves the least."""
    enough = [k for k in range(position, len(kinds)) if -kinds[k][0] >= count]
    return min(enough, key=lambda k: (-kinds[k][0], kinds[k][1]))
