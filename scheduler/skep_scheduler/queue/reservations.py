"""Preemptors that hold their places while victims leave."""

from __future__ import annotations

from skep_scheduler.answer import Reason
from skep_scheduler.queue.codes import Cancel
from skep_scheduler.world import World, owner_of
from skep_scheduler.world.world import Reserved


def is_cleared(world: World, reserved: Reserved) -> bool:
    """Whether everybody else is gone from the GPUs, and enough CPU and memory is free."""
    return not waited_for(world, reserved)


def waited_for(world: World, reserved: Reserved) -> list[str]:
    """The gangs that have to leave yet."""
    gang_id = reserved.gang.id
    users = {
        owner_of(leaf.user)
        for group in world.holds.groups_of(gang_id)
        for leaf, _ in group.pairs()
        if leaf.user is not None
    }
    for node in {task.node for task in reserved.tasks}:
        room = world.holds.room.nodes[node]
        if not _is_enough(room.free.cpu_millis, room.free.memory_mb):
            users |= {user for user in room.users if _leaves(world, user)}
    return sorted(users - {gang_id})


def broken(world: World, reserved: Reserved) -> Reason | None:
    """Why a reservation cannot be kept."""
    if not world.is_reserved(reserved.gang.id):
        return _broken("Its cells are in use otherwise, or there no more.")
    for node in sorted({task.node for task in reserved.tasks}):
        if not world.holds.room.nodes[node].open:
            return _broken(f"Node {node} is not there to be used.", node=node)
    leaves = [
        leaf for group in world.holds.groups_of(reserved.gang.id) for leaf, _ in group.pairs()
    ]
    for leaf in leaves:
        if leaf.bad:
            return _broken(f"A GPU of {leaf.node} went bad.", node=leaf.node)
        if leaf.user is not None and not _leaves(world, owner_of(leaf.user)):
            return _broken("Its cells are in use otherwise.", by=owner_of(leaf.user))
    return _without_room(world, reserved)


def _without_room(world: World, reserved: Reserved) -> Reason | None:
    for node in {task.node for task in reserved.tasks}:
        room = world.holds.room.nodes[node]
        enough = _is_enough(room.free.cpu_millis, room.free.memory_mb)
        if not enough and not any(_leaves(world, user) for user in room.users):
            return _broken(f"Node {node} has too little CPU or memory now.", node=node)
    return None


def _is_enough(cpu_millis: int, memory_mb: int) -> bool:
    return cpu_millis >= 0 and memory_mb >= 0


def _leaves(world: World, gang_id: str) -> bool:
    holding = world.running.get(gang_id)
    return holding is not None and holding.leaving


def _broken(message: str, **details: object) -> Reason:
    return Reason(Cancel.RESERVATION_BROKEN, f"{message} It waits again.", details)
