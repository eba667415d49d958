"""Reports healthy and bad hardware to the cells."""

from __future__ import annotations

from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import DEVICE_FAULT, NODE_FAULT, Address, Physical


def set_node(state: CellState, node: str, healthy: bool) -> bool:
    """Record that a node went bad, or came back. Returns False for a node that has no cells."""
    leaves = state.nodes.get(node)
    for leaf in leaves or ():
        _set_fault(state, leaf, NODE_FAULT, not healthy)
    return leaves is not None


def set_device(state: CellState, node: str, device: Address, healthy: bool) -> bool:
    """Record that a device went bad, or came back; that its node is bad is another fault."""
    leaf = state.leaves.get((node, device))
    if leaf is not None:
        _set_fault(state, leaf, DEVICE_FAULT, not healthy)
    return leaf is not None


def lost(state: CellState, vc: str, chain: str, level: int) -> int:
    """How many of the preassigned cells that a VC has free cannot be given to it at present,
    because too few of what is left are wholly healthy."""
    pool = state.chains[chain]
    free = pool.vc_claims.get(vc, [0] * (pool.shape.top + 1))[level]
    return min(free, max(0, free - (pool.left[level] - pool.bad_left[level])))


def _set_fault(state: CellState, leaf: Physical, fault: int, on: bool) -> None:
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
        if cell.changed is not None:
            cell.changed.add(cell)
        cell = cell.up
