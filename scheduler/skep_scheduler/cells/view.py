"""The cells that a task must lie within (nodes, or what a VC owns below a node), in packing order.

Healthy ones first, then the most used (by the same priority class), then the least used by higher
priorities. The sort is stable and works on its last result, as in the reference: among equals,
history decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from skep_scheduler.cells.health import shadow
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.tree import Cell, Physical, Virtual, at_level

_HIGHER = 1 << 20  # more leaves than a node has
_UNHEALTHY = 1 << 50
_by_key = attrgetter("key")


class View:
    """`across` packs over all priorities (in a VC, where preemption can be avoided everywhere);
    otherwise opportunistic tasks are packed together and kept away from guaranteed ones."""

    def __init__(self, roots: Sequence[Cell], nodes: Sequence[Cell], across: bool) -> None:
        self.roots = list(roots)
        self.nodes = list(nodes)
        self.across = across
        self.dirty: set[Cell] = set(nodes)
        self._suspects: set[Cell] = set()
        self._whole = False
        self._leaves: dict[Cell, tuple[Cell, ...]] = {}
        for node in nodes:
            node.view = self

    def enter(self, node: Cell) -> None:
        self.nodes.append(node)
        self.dirty.add(node)
        node.view = self

    def drop(self, node: Cell) -> None:
        self.nodes.remove(node)
        self.dirty.discard(node)
        self._suspects.discard(node)
        self._leaves.pop(node, None)
        node.view = None

    def ordered(self, avoid: Collection[str], any_bad: bool) -> list[Cell]:
        """The nodes in the order to try them. With `any_bad`, bad hardware is looked for."""
        stale = self.dirty | self._suspects
        self._suspects = self._find_suspects() if any_bad and self.across else set()
        stale |= self._suspects
        if avoid or self._whole:
            stale = set(self.nodes)
        self._whole = bool(avoid)
        if stale:
            for node in stale:
                node.key = self._key(node, avoid)
            self.nodes.sort(key=_by_key)
            self.dirty.clear()
        return self.nodes

    def leaves(self, node: Cell) -> tuple[Cell, ...]:
        """The devices of a node, in order."""
        leaves = self._leaves.get(node)
        if leaves is None:
            leaves = self._leaves[node] = tuple(at_level(node, LEAF))
        return leaves

    def nodes_below(self, root: Cell) -> list[Cell]:
        return nodes_of([root])

    def _key(self, node: Cell, avoid: Collection[str]) -> int:
        if self.across:
            key = -node.used_total * _HIGHER
        else:
            same = node.used_at(OPPORTUNISTIC)
            key = -same * _HIGHER + node.used_total - same
        under = shadow(node)
        if under is not None and (under.bad or under.node in avoid):
            key += _UNHEALTHY
        return key

    def _find_suspects(self) -> set[Cell]:
        """Virtual nodes below a cell that is bound to partly bad hardware."""
        bad = {root for root in self.roots if isinstance(root, Virtual) and _is_bad(root.physical)}
        return {node for node in self.nodes if isinstance(node, Virtual) and node.root in bad}


def _is_bad(cell: Physical | None) -> bool:
    return cell is not None and cell.bad > 0


def nodes_of(roots: Sequence[Cell]) -> list[Cell]:
    """Node-level cells below `roots`, then the roots that are smaller, larger ones first."""
    nodes: list[Cell] = []
    small: list[Cell] = []
    for root in roots:
        if root.spec.below_node:
            small.append(root)
        else:
            nodes += _nodes_below(root)
    return nodes + sorted(small, key=lambda cell: -cell.level)


def _nodes_below(cell: Cell) -> list[Cell]:
    if cell.spec.is_node:
        return [cell]
    return [node for child in cell.children for node in _nodes_below(child)]
