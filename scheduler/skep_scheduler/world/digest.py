"""A world as one value, to compare: facts, and what the cells and the room made of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from skep_scheduler.cells.groups import Group
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import FREE

if TYPE_CHECKING:
    from skep_scheduler.world.world import World


def of(world: World) -> Hashable:
    """Nothing in it depends on the order in which the facts came."""
    return (
        frozenset(world.waiting.values()),
        frozenset(world.running.values()),
        frozenset((r.gang, r.tasks) for r in world.reserved.values()),
        frozenset(_nodes(world)),
        tuple((chain, _pool(pool)) for chain, pool in sorted(world.holds.cells.chains.items())),
        frozenset(_leaves(world)),
    )


def _nodes(world: World) -> Iterator[Hashable]:
    for name, room in world.holds.room.nodes.items():
        if name in world.nodes or room.users:
            yield name, room.total, room.used, room.open, frozenset(room.users.items())


def _pool(pool: Pool) -> Hashable:
    claims = {vc: tuple(levels) for vc, levels in pool.vc_claims.items() if any(levels)}
    free = tuple(len(cells) for cells in pool.free)
    return tuple(pool.left), tuple(pool.bad_left), frozenset(claims.items()), free


def _leaves(world: World) -> Iterator[Hashable]:
    for (node, device), leaf in world.holds.cells.leaves.items():
        if leaf.priority != FREE or leaf.faults:
            vc = leaf.accounted.vc if leaf.accounted is not None else None
            yield node, device, leaf.faults, leaf.priority, vc, _id(leaf.user), _id(leaf.holder)


def _id(group: Group | None) -> str | None:
    return group.name if group is not None else None
