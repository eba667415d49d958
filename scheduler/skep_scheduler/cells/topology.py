"""Gangs with topology demands: subgroups that lie within one cell, and requests for whole cells.

Larger tasks first. A topology group tries the cells of its type in the order of packing; what it
contains is placed below the cell that it chose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skep_scheduler.cells.affinity import available, closest
from skep_scheduler.cells.backing import backing_cell
from skep_scheduler.cells.packing import PackingContext, Selection, passes
from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC, Shape
from skep_scheduler.cells.tree import Cell, at_level


@dataclass(slots=True)
class Branch:
    """A topology group, the position of its first member in the gang, and its total need."""

    topology_group: TopologyGroup
    first: int
    devices: int = 0
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """One pass at one priority. `taken` are the cells given out in it with all that is in them,
    `touched` what contains them; a failed try takes its own back."""

    context: PackingContext
    shape: Shape
    priority: int
    taken: set[Cell] = field(default_factory=set)
    touched: set[Cell] = field(default_factory=set)

    def level(self, cell_type: str | None) -> int:
        return LEAF if cell_type is None else self.shape.level_of[cell_type]

    def take(self, cell: Cell) -> None:
        stack = [cell]
        while stack:
            here = stack.pop()
            self.taken.add(here)
            stack.extend(here.children)
        above = cell.parent
        while above is not None:
            self.touched.add(above)
            above = above.parent


def pack(context: PackingContext, gang: GangRequest, shape: Shape) -> Selection | None:
    """None too where the chain lacks a type that is asked for."""
    wanted = {m.cell_type for m in gang.members} | {p.within for p in gang.topology_groups()}
    if any(name is not None and name not in shape.level_of for name in wanted):
        return None
    root = _branches(gang, shape)
    for priority in passes(gang.priority):
        selection = _place(Search(context, shape, priority), root, None)
        if selection is not None:
            return selection
    return None


def _branches(gang: GangRequest, shape: Shape) -> Branch:
    root = Branch(gang.topology_group, 0)
    queue, counted = [root], 0
    for branch in queue:  # grows while it is walked: level by level, as members are counted
        branch.first = counted
        counted += len(branch.topology_group.members)
        branch.children = [Branch(child, 0) for child in branch.topology_group.subgroups]
        queue += branch.children
    for branch in reversed(queue):
        own = sum(m.tasks * _devices(m, shape) for m in branch.topology_group.members)
        branch.devices = own + sum(child.devices for child in branch.children)
        branch.children.sort(key=lambda child: -child.devices)
    return root


def _devices(member: MemberRequest, shape: Shape) -> int:
    level = LEAF if member.cell_type is None else shape.level_of[member.cell_type]
    return member.cells * shape.at(level).leaves


def _place(search: Search, branch: Branch, within: Cell | None) -> Selection | None:
    for cell in _candidates(search, branch.topology_group, within):
        taken, touched = set(search.taken), set(search.touched)
        selection = _place_in(search, branch, cell)
        if selection is not None:
            return selection
        search.taken, search.touched = taken, touched
    return None


def _candidates(
    search: Search, topology_group: TopologyGroup, within: Cell | None
) -> Iterable[Cell | None]:
    if topology_group.within is None:
        return [within]
    level = search.shape.level_of[topology_group.within]
    if within is not None and within.spec.level <= level:
        return [within]
    return _ordered(search, within, level)


def _place_in(search: Search, branch: Branch, cell: Cell | None) -> Selection | None:
    selection = _members(search, branch, cell)
    for child in branch.children:
        more = _place(search, child, cell) if selection is not None else None
        if selection is None or more is None:
            return None
        selection += more
    return selection


def _members(search: Search, branch: Branch, within: Cell | None) -> Selection | None:
    tasks = [
        (index, member)
        for index, member in enumerate(branch.topology_group.members, branch.first)
        for _ in range(member.tasks)
    ]
    tasks.sort(key=lambda task: -_devices(task[1], search.shape))
    selection: Selection = []
    nodes = iter(_nodes(search, within) if tasks else [])
    node = next(nodes, None)
    for index, member in tasks:
        picked = None
        while node is not None and picked is None:
            picked = _task(search, node, search.level(member.cell_type), member.cells)
            if picked is None:
                node = next(nodes, None)
        if picked is None:
            return None
        selection.append((index, [leaf for cell in picked for leaf in at_level(cell, LEAF)]))
    return selection


def _nodes(search: Search, within: Cell | None) -> list[Cell]:
    if within is not None and (within.spec.is_node or within.spec.below_node):
        return [within]
    return _ordered(search, within, search.shape.node_level)


def _task(search: Search, node: Cell, level: int, number: int) -> list[Cell] | None:
    order = search.context.node_order
    cells = available(order, node, level, search.priority, search.taken, busiest_first=True)
    cells = [cell for cell in cells if cell not in search.touched]
    if len(cells) < number:
        return None
    picked = closest(cells, number)
    for cell in picked:
        search.take(cell)
    return picked


def _ordered(search: Search, within: Cell | None, level: int) -> list[Cell]:
    """Return the cells of a level (and smaller ones that a VC owns), in the order to try them."""
    context = search.context
    cells: list[Cell] = []
    for top in [within] if within is not None else context.node_order.roots:
        cells += at_level(top, level) if top.spec.level >= level else [top]
    usable = [cell for cell in cells if not _useless(context, cell)]
    return sorted(usable, key=lambda cell: _key(context, cell))


def _useless(context: PackingContext, cell: Cell) -> bool:
    if cell in context.blocked:
        return True
    under = backing_cell(cell) if context.avoid or context.any_bad else None
    if under is not None and (under.bad == under.spec.leaves or under.node in context.avoid):
        context.met_bad = True
        return True
    return False


def _key(context: PackingContext, cell: Cell) -> tuple[bool, int, int, int, Any]:
    if context.node_order.across:
        same, higher = cell.used_total, 0
    else:
        same = cell.used_at(OPPORTUNISTIC)
        higher = cell.used_total - same
    under = backing_cell(cell) if context.any_bad else None
    unhealthy = under is not None and under.bad > 0
    return (unhealthy, cell.spec.level, -same, higher, context.node_order.tie(cell))
