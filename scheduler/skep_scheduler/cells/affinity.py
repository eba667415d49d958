"""Which cells of a node lie closest together."""

from __future__ import annotations

from collections.abc import Collection

from skep_scheduler.cells.health import children_with_shadows, shadow
from skep_scheduler.cells.shape import FREE, LEAF
from skep_scheduler.cells.tree import Cell, Physical


def closest(cells: list[Cell], number: int) -> list[Cell]:
    """The `number` cells (of one level, in order of preference) below the lowest common ancestor;
    among equals the first ones. There must be enough."""
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
    node: Cell, level: int, priority: int, taken: Collection[Cell] = (), busiest_first: bool = False
) -> list[Cell]:
    """The cells of `level` in a node that are free, then those that may be preempted at
    `priority`. With `busiest_first`, parts of which more is used come first."""
    under = shadow(node)
    sound = under is None or not under.bad
    if sound and level == LEAF and not busiest_first and node.view is not None:
        leaves = node.view.leaves(node)
        idle = [leaf for leaf in leaves if leaf.priority == FREE]
        return idle + [leaf for leaf in leaves if FREE < leaf.priority < priority]
    free: list[Cell] = []
    preemptible: list[Cell] = []
    _collect(node, under, level, priority, taken, busiest_first, free, preemptible)
    return free + preemptible


def _collect(
    cell: Cell,
    under: Physical | None,
    level: int,
    priority: int,
    taken: Collection[Cell],
    busiest_first: bool,
    free: list[Cell],
    preemptible: list[Cell],
) -> None:
    if taken and cell in taken:
        return
    if cell.spec.level == level:
        if under is not None and under.bad:
            return
        used = cell.priority if level == LEAF else cell.top_priority
        if used == FREE:
            free.append(cell)
        elif used < priority:
            preemptible.append(cell)
        return
    if cell.spec.level < level:
        return
    if under is not None and under.bad:
        children = children_with_shadows(cell, under)
    else:
        children = [(child, None) for child in cell.children]
    if busiest_first:
        children = sorted(children, key=lambda pair: -pair[0].used_from(priority))
    for child, behind in children:
        _collect(child, behind, level, priority, taken, busiest_first, free, preemptible)
