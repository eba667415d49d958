"""A state as one value, to compare: facts, and what the cells and the resources made of them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator

from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import FREE
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Group
from skep_scheduler.model import Allocation, Gang, TaskAllocation
from skep_scheduler.state.allocations import Allocations
from skep_scheduler.state.node_resources import ClusterResources


def digest_of(
    waiting: Iterable[Gang],
    running: Iterable[Allocation],
    nominated: Iterable[tuple[Gang, tuple[TaskAllocation, ...]]],
    nodes: Container[str],
    allocations: Allocations,
    reservations: Iterable[Hashable],
    cooldowns: Iterable[Hashable],
) -> Hashable:
    """Return the value. Nothing in it depends on the order in which the facts came. `nodes` are the
    names of the nodes that the inventory has."""
    return (
        frozenset(waiting),
        frozenset(running),
        frozenset(nominated),
        frozenset(_nodes(nodes, allocations.resources)),
        tuple((chain, _pool(pool)) for chain, pool in sorted(allocations.cells.chains.items())),
        frozenset(_leaves(allocations.cells)),
        frozenset(reservations),
        frozenset(cooldowns),
    )


def _nodes(nodes: Container[str], resources: ClusterResources) -> Iterator[Hashable]:
    for name, node in resources.nodes.items():
        if name in nodes or node.users:
            yield name, node.total, node.used, node.open, frozenset(node.users.items())


def _pool(pool: Pool) -> Hashable:
    claims = {vc: tuple(levels) for vc, levels in pool.vc_claims.items() if any(levels)}
    free = tuple(len(cells) for cells in pool.free)
    return tuple(pool.left), tuple(pool.bad_left), frozenset(claims.items()), free


def _leaves(cells: CellState) -> Iterator[Hashable]:
    for (node, device), leaf in cells.leaves.items():
        if leaf.priority != FREE or leaf.faults:
            vc = leaf.accounted.vc if leaf.accounted is not None else None
            yield node, device, leaf.faults, leaf.priority, vc, _id(leaf.user), _id(leaf.holder)


def _id(group: Group | None) -> str | None:
    return group.name if group is not None else None
