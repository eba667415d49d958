"""The cells that a task must lie within (nodes, or what a VC owns below a node), in packing order.

Healthy ones first, then the most used (by the same priority class), then the least used by higher
priorities. Between equals the rank decides, so that the order follows from what is used and bad at
present, and not from what happened before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any

from skep_scheduler.cells.backing import backing_cell, children_with_backing
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.tree import Cell, Physical, Virtual, at_level

_HIGHER = 1 << 20  # more leaves than a node has
UNHEALTHY = 1 << 50
_RANKS = 1 << 32  # more cells than a chain has
_UNBOUND = 1 << 70  # more than the rank of any cell that is bound
_TIES = 1 << 72
Backed = tuple[Cell, Physical | None]  # a cell, and what is behind it
_by_key = attrgetter("key")


class NodeOrder:
    """`across` packs over all priorities (in a VC, where preemption can be avoided everywhere);
    otherwise opportunistic tasks are packed together and kept away from guaranteed ones."""

    def __init__(self, roots: Sequence[Cell], nodes: Sequence[Cell], across: bool) -> None:
        self.roots = list(roots)
        self.nodes = list(nodes)
        self.across = across
        self.changed: set[Cell] = set(nodes)
        self._suspects: set[Cell] = set()
        self._keys: list[int] = []  # of `nodes`; empty when they have to be sorted anew
        self._leaves: dict[Cell, tuple[Cell, ...]] = {}
        self._sizes = Counter(node.spec.leaves for node in nodes)  # devices of a node
        for node in nodes:
            node.changed = self.changed

    def enter(self, node: Cell) -> None:
        self.nodes.append(node)
        self._sizes[node.spec.leaves] += 1
        self.changed.add(node)
        self._keys.clear()
        node.changed = self.changed

    def drop(self, node: Cell) -> None:
        self.nodes.remove(node)
        self._sizes -= Counter([node.spec.leaves])
        self.changed.discard(node)
        self._suspects.discard(node)
        self._keys.clear()
        self._leaves.pop(node, None)
        node.changed = None

    def renew(self) -> None:
        """Compute all positions anew, since cells have other ranks."""
        self.changed.update(self.nodes)
        self._keys.clear()

    def ordered(self, avoid: Collection[str], any_bad: bool) -> Sequence[Cell]:
        """Return the nodes in the order to try them. With `any_bad`, bad hardware is looked for.
        Nodes to `avoid` stay where they are: packing passes over them."""
        stale = self._find_stale(any_bad)
        if len(stale) * 16 > len(self.nodes) or not self._keys:
            self._sort(stale)
        else:
            self._move(stale)
        self.changed.clear()
        return self.nodes

    def with_idle(self, least: int) -> Iterator[Cell]:
        """Yield the nodes with at least so many devices that are not in use, as `ordered` has left
        them. Nodes that are used alike lie together, and those that are too full are passed over at
        once, so that a large full cluster takes no longer than a small one."""
        nodes, keys = self.nodes, self._keys
        alike = len(self._sizes) == 1 and len(keys) == len(nodes)
        at = 0
        while at < len(nodes):
            node = nodes[at]
            if node.spec.leaves - node.used_total >= least:
                yield node
            elif alike:
                at = bisect_left(keys, (node.key // _TIES + 1) * _TIES, at)
                continue
            at += 1

    def leaves(self, node: Cell) -> Sequence[Cell]:
        """Return the devices of a node, in the order to try them."""
        if isinstance(node, Virtual) and node.used_total:
            return list(_leaves_of_used(node))
        return self._static_leaves(node)

    def children(self, cell: Cell, under: Physical | None) -> Sequence[Backed]:
        """Return the children of a cell that `under` is behind, each with its own backing cell, in
        the order to try them."""
        pairs = children_with_backing(cell, under)
        return sorted(pairs, key=_by_tie) if isinstance(cell, Virtual) else pairs

    def tie(self, cell: Cell) -> Any:
        """Return what decides between equally good cells: least first, and no two are equal."""
        return tie(cell)

    def nodes_below(self, root: Cell) -> list[Cell]:
        return nodes_of([root])

    def _static_leaves(self, node: Cell) -> tuple[Cell, ...]:
        leaves = self._leaves.get(node)
        if leaves is None:
            leaves = self._leaves[node] = tuple(at_level(node, LEAF))
        return leaves

    def _find_stale(self, any_bad: bool) -> set[Cell]:
        """Return the nodes whose position has to be computed anew."""
        stale = self.changed | self._suspects
        self._suspects = self._find_suspects() if any_bad and self.across else set()
        return stale | self._suspects

    def _sort(self, stale: set[Cell]) -> None:
        for node in stale:
            node.key = self._position(node)
        self.nodes.sort(key=_by_key)
        self._keys = [node.key for node in self.nodes]

    def _move(self, stale: set[Cell]) -> None:
        """Move few nodes to where they belong now."""
        nodes, keys = self.nodes, self._keys
        moved = []
        for node in stale:
            key = self._position(node)
            if key != node.key:
                at = bisect_left(keys, node.key)
                del nodes[at], keys[at]
                node.key = key
                moved.append(node)
        for node in moved:
            at = bisect_left(keys, node.key)
            nodes.insert(at, node)
            keys.insert(at, node.key)

    def _position(self, node: Cell) -> int:
        return self._key(node) * _TIES + tie(node)

    def _key(self, node: Cell) -> int:
        if self.across:
            key = -node.used_total * _HIGHER
        else:
            same = node.used_at(OPPORTUNISTIC)
            key = -same * _HIGHER + node.used_total - same
        under = backing_cell(node)
        return key + UNHEALTHY if under is not None and under.bad else key

    def _find_suspects(self) -> set[Cell]:
        """Return the virtual nodes below a cell that is bound to partly bad hardware."""
        bad = {root for root in self.roots if isinstance(root, Virtual) and _is_bad(root.physical)}
        return {node for node in self.nodes if isinstance(node, Virtual) and node.root in bad}


def tie(cell: Cell) -> int:
    """Return the rank of a cell among equals. Which of several equal virtual cells is bound depends
    on history, so a virtual cell has the rank of the hardware that it is bound to, or what contains
    it: the smallest such cell first. Those that are not bound at all come last, and are alike."""
    if not isinstance(cell, Virtual):
        return cell.rank
    bound: Virtual | None = cell
    while bound is not None and bound.physical is None:
        bound = bound.up
    if bound is None or bound.physical is None:
        return _UNBOUND + cell.rank
    return (bound.spec.level * _RANKS + bound.physical.rank) * _RANKS + cell.rank


def _by_tie(pair: Backed) -> int:
    """Children that are bound by their hardware, then the others in their own order."""
    cell = pair[0]
    assert isinstance(cell, Virtual)
    return cell.physical.rank if cell.physical is not None else _RANKS + cell.rank


def _leaves_of_used(cell: Virtual) -> Iterator[Cell]:
    if not cell.used_total:
        yield from at_level(cell, LEAF)
    elif cell.spec.level == LEAF:
        yield cell
    else:
        for part in sorted(cell.parts, key=_part_rank):
            yield from _leaves_of_used(part)


def _part_rank(part: Virtual) -> int:
    return part.physical.rank if part.physical is not None else _RANKS + part.rank


def _is_bad(cell: Physical | None) -> bool:
    return cell is not None and cell.bad > 0


def nodes_of(roots: Sequence[Cell]) -> list[Cell]:
    """Return the node-level cells below `roots`, then the roots that are smaller, larger ones
    first."""
    nodes: list[Cell] = []
    small: list[Cell] = []
    for root in roots:
        if root.spec.below_node:
            small.append(root)
        else:
            nodes += nodes_below(root)
    return nodes + sorted(small, key=lambda cell: -cell.level)


def nodes_below(cell: Cell) -> list[Cell]:
    """Return the node-level cells in a cell that is a node or contains some."""
    if cell.spec.is_node:
        return [cell]
    return [node for child in cell.children for node in nodes_below(child)]


def by_level(roots: Sequence[Virtual]) -> list[Virtual]:
    """Return preassigned cells with those of one level together, in the order of the first of each
    level; those below a node last, larger ones first. So it makes no difference to the order of
    nodes which of several equal cells are in use."""
    first: dict[int, int] = {}
    for position, root in enumerate(roots):
        first.setdefault(root.level, position)
    return sorted(
        roots, key=lambda r: (r.spec.below_node, -r.level if r.spec.below_node else first[r.level])
    )
