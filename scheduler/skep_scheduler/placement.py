"""From a packing (how many tasks on which nodes) to a placement (which task, which GPUs)."""

from __future__ import annotations

from collections.abc import Iterator

from skep_scheduler.gang import Demand, member_shape
from skep_scheduler.packing import Packing
from skep_scheduler.plan import Placement, TaskPlacement
from skep_scheduler.resources import Resources
from skep_scheduler.room import Room
from skep_scheduler.state import Gang

Key = tuple[str | None, Resources]  # GPU model and need: tasks of one key are interchangeable
TaskOrder = tuple[int, int]  # position of the role in the gang, index within the role


def place(room: Room, gang: Gang, packing: Packing, model: str | None) -> Placement:
    """Take the room of `packing` for `gang`, whose open members get `model`."""
    unnamed = _tasks_by_key(gang, model)
    placed: list[tuple[TaskOrder, TaskPlacement]] = []
    for seat in packing.seats:
        demand = packing.demands[seat.demand]
        room.take(seat.rank, demand, seat.tasks)
        for _ in range(seat.tasks):
            order = next(unnamed[demand.model, demand.need])
            placed.append((order, _place_task(room, gang, order, seat.rank, demand)))
    return Placement(gang.id, tuple(task for _, task in sorted(placed, key=lambda p: p[0])))


def _place_task(
    room: Room, gang: Gang, order: TaskOrder, rank: int, demand: Demand
) -> TaskPlacement:
    position, index = order
    return TaskPlacement(
        role=gang.members[position].role,
        index=index,
        node_id=room.nodes[rank].node.id,
        gpu_uuids=room.choose(rank, demand),
        gpu_model=demand.model,
    )


def _tasks_by_key(gang: Gang, model: str | None) -> dict[Key, Iterator[TaskOrder]]:
    tasks: dict[Key, list[TaskOrder]] = {}
    for position, member in enumerate(gang.members):
        shape = member_shape(member)
        key = (model if shape.open else shape.gpu_model, shape.need)
        tasks.setdefault(key, []).extend((position, i) for i in range(member.count))
    return {key: iter(orders) for key, orders in tasks.items()}
