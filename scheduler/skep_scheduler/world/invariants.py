"""What must hold of a world: of its cells, of its room, and between them and the facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from skep_scheduler.cells import invariants as cells
from skep_scheduler.invariants import InvariantError
from skep_scheduler.world.holds import spots_of
from skep_scheduler.world.room import NOTHING, Amount

if TYPE_CHECKING:
    from skep_scheduler.world.world import World


def validate(world: World) -> None:
    """Raises `InvariantError` with one sentence per violation."""
    stories = [
        *cells.violations(world.holds.cells),
        *_gangs(world),
        *_groups(world),
        *_room(world),
    ]
    if stories:
        raise InvariantError(stories)


def _gangs(world: World) -> Iterator[str]:
    for gang_id in world.running:
        if gang_id in world.waiting or gang_id in world.reserved:
            yield f"{gang_id} runs and waits at the same time."
    known = world.running.keys() | world.reserved.keys()
    for gang_id in world.holds.tasks.keys() | world.holds.groups.keys():
        if gang_id not in known:
            yield f"{gang_id} holds places, but nobody said that it may."


def _groups(world: World) -> Iterator[str]:
    for gang_id, holding in world.running.items():
        names = world.holds.groups.get(gang_id, ())
        if set(names) != set(spots_of(holding.gang, holding.tasks)):
            yield f"{gang_id} runs with the groups {names}, which are not those of its tasks."
        for name in names:
            group = world.holds.cells.groups.get(name)
            if group is None or group.preempting:
                yield f"{name} runs, but the cells do not know it to."
            elif world.holds.is_downgraded(gang_id) and not group.opportunistic:
                yield f"{name} is guaranteed, while other parts of {gang_id} are not."
    owners = {name for names in world.holds.groups.values() for name in names}
    for name in world.holds.cells.groups.keys() - owners:
        yield f"{name} holds cells, but is nobody's."


def _room(world: World) -> Iterator[str]:
    expected: dict[str, Amount] = {}
    for tasks in world.holds.tasks.values():
        for task in tasks:
            amount = Amount(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))
            expected[task.node] = expected.get(task.node, NOTHING).plus(amount)
    for name, room in world.holds.room.nodes.items():
        if room.used != expected.pop(name, NOTHING):
            yield f"{name} counts {room.used} as used, which its tasks do not."
        total = NOTHING
        for amount in room.users.values():
            total = total.plus(amount)
        if total != room.used:
            yield f"{name} counts {room.used} as used, its users have {total}."
    for name in expected:
        yield f"{name} is in use, but has no room."
