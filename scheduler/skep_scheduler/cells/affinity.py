"""Which cells of a node lie closest together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from skep_scheduler.cells.backing import backing_cell
from skep_scheduler.cells.node_order import NodeOrder
from skep_scheduler.cells.shape import FREE, LEAF
from skep_scheduler.cells.tree import Cell, Physical


def closest(cells: list[Cell], number: int) -> list[Cell]:
    """Return the `number` cells (of one level, in order of preference) below the lowest common
    ancestor; among equals the first ones. There must be enough."""
    if number in (1, len(cells)):
        return cells[:number]
    groups: dict[Cell, list[Cell]] = {cell: [cell] for cell in cells}
    while True:
        above: dict[Cell, list[Cell]] = {}
        for ancestor, members in groups.items():
            if ancestor.parent is None:
                return cells[:number]
            above.setdefault(ancestor.parent, []).extend(members)
        rank = {cell: i for i, cell in enumerate(cells)}
        fits = [members for members in above.values() if len(members) >= number]
        if fits:
            ordered = [sorted(members, key=rank.__getitem__) for members in fits]
            return min(ordered, key=lambda members: rank[members[0]])[:number]
        groups = above


def available(
    order: NodeOrder,
    node: Cell,
    level: int,
    priority: int,
    taken: Collection[Cell] = (),
    busiest_first: bool = False,
) -> list[Cell]:
    """Return the cells of `level` in a node that are free, then those that may be preempted at
    `priority`. With `busiest_first`, parts of which more is used come first."""
    under = backing_cell(node)
    sound = under is None or not under.bad
    if sound and level == LEAF and not busiest_first and node.changed is not None:
        leaves = order.leaves(node)
        idle = [leaf for leaf in leaves if leaf.priority == FREE]
        return idle + [leaf for leaf in leaves if FREE < leaf.priority < priority]
    search = _Search(order, level, priority, taken, busiest_first)
    search.collect(node, under)
    return search.free + search.preemptible


@dataclass(slots=True)
class _Search:
    order: NodeOrder
    level: int
    priority: int
    taken: Collection[Cell]
    busiest_first: bool
    free: list[Cell] = field(default_factory=list)
    preemptible: list[Cell] = field(default_factory=list)

    def collect(self, cell: Cell, under: Physical | None) -> None:
        """Collect what is available of a cell, and what may be preempted."""
        if cell.spec.level < self.level or (self.taken and cell in self.taken):
            return
        if cell.spec.level == self.level:
            self._collect_one(cell, under)
            return
        children = self.order.children(cell, under)
        if self.busiest_first:
            children = sorted(children, key=lambda pair: -pair[0].used_from(self.priority))
        for child, behind in children:
            self.collect(child, behind)

    def _collect_one(self, cell: Cell, under: Physical | None) -> None:
        if under is not None and under.bad:
            return
        used = cell.priority if self.level == LEAF else cell.top_priority
        if used == FREE:
            self.free.append(cell)
        elif used < self.priority:
            self.preemptible.append(cell)
