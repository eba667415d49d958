"""Bad hardware as seen from the cells. Nothing is bound for it: what a virtual cell would get is
derived when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skep_scheduler.cells.tree import DEVICE_FAULT, NODE_FAULT, Address, Cell, Physical, Virtual

if TYPE_CHECKING:
    from skep_scheduler.cells.state import State


def shadow(cell: Cell) -> Physical | None:
    """The physical cell behind a cell: itself, the one it is bound to, or the one it would get.

    None for a virtual cell that is open: not bound, and nothing bad under what contains it.
    """
    if isinstance(cell, Physical):
        return cell
    assert isinstance(cell, Virtual)
    if cell.physical is not None or cell.up is None:
        return cell.physical
    under = shadow(cell.up)
    if under is None or not under.bad:
        return None
    return dict(children_with_shadows(cell.up, under))[cell]


def children_with_shadows(cell: Cell, under: Physical | None) -> list[tuple[Cell, Physical | None]]:
    """Each child with its shadow. Children that are not bound get the healthiest parts left."""
    if isinstance(cell, Physical):
        return [(child, child) for child in cell.parts]
    assert isinstance(cell, Virtual)
    if under is None or not under.bad:
        return [(child, child.physical) for child in cell.parts]
    left = iter(sorted((p for p in under.parts if p.virtual is None), key=lambda p: p.bad))
    return [
        (child, child.physical if child.physical is not None else next(left))
        for child in cell.parts
    ]


def set_node(state: State, node: str, healthy: bool) -> bool:
    """A node went bad, or came back. False for a node that has no cells."""
    leaves = state.nodes.get(node)
    for leaf in leaves or ():
        _set_fault(state, leaf, NODE_FAULT, not healthy)
    return leaves is not None


def set_device(state: State, node: str, device: Address, healthy: bool) -> bool:
    """One device went bad, or came back; that its node is bad is another fault."""
    leaf = state.leaves.get((node, device))
    if leaf is not None:
        _set_fault(state, leaf, DEVICE_FAULT, not healthy)
    return leaf is not None


def lost(state: State, vc: str, chain: str, level: int) -> int:
    """How many of the preassigned cells that a VC has free cannot be given to it at present,
    because too few of what is left are wholly healthy."""
    pool = state.chains[chain]
    free = pool.vc_claims.get(vc, [0] * (pool.shape.top + 1))[level]
    return min(free, max(0, free - (pool.left[level] - pool.bad_left[level])))


def _set_fault(state: State, leaf: Physical, fault: int, on: bool) -> None:
    was = bool(leaf.faults)
    leaf.faults = leaf.faults | fault if on else leaf.faults & ~fault
    if bool(leaf.faults) == was:
        return
    change = 1 if on else -1
    pool = state.chains[leaf.shape.chain]
    pool.bad += change
    cell: Physical | None = leaf
    while cell is not None:
        before = cell.bad
        cell.bad += change
        if not before or not cell.bad:
            pool.mark_bad(cell, change)
        if cell.view is not None:
            cell.view.dirty.add(cell)
        cell = cell.up
