"""Gangs with topology demands: parties that lie within one cell, and requests for whole cells.

Larger tasks first. A party tries the cells of its type in the order of packing; what it contains is
placed below the cell it chose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skep_scheduler.cells.affinity import available, closest
from skep_scheduler.cells.health import shadow
from skep_scheduler.cells.packing import Picks, Scene, passes
from skep_scheduler.cells.request import Gang, Member, Party
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC, Shape
from skep_scheduler.cells.tree import Cell, Physical, at_level


@dataclass(slots=True)
class Branch:
    """A party with the place of its first member among the gang's, and what it needs in all."""

    party: Party
    first: int
    devices: int = 0
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """One pass at one priority. `taken` are the cells given out in it with all that is in them,
    `touched` what contains them; a failed try takes its own back."""

    scene: Scene
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


def pack(scene: Scene, gang: Gang, shape: Shape) -> Picks | None:
    """None too where the chain lacks a type that is asked for."""
    wanted = {m.cell_type for m in gang.members} | {p.within for p in gang.parties()}
    if any(name is not None and name not in shape.level_of for name in wanted):
        return None
    root = _branches(gang, shape)
    for priority in passes(gang.priority):
        picks = _place(Search(scene, shape, priority), root, None)
        if picks is not None:
            return picks
    return None


def _branches(gang: Gang, shape: Shape) -> Branch:
    root = Branch(gang.party, 0)
    queue, counted = [root], 0
    for branch in queue:  # grows while it is walked: level by level, as members are counted
        branch.first = counted
        counted += len(branch.party.members)
        branch.children = [Branch(child, 0) for child in branch.party.parties]
        queue += branch.children
    for branch in reversed(queue):
        own = sum(m.tasks * _devices(m, shape) for m in branch.party.members)
        branch.devices = own + sum(child.devices for child in branch.children)
        branch.children.sort(key=lambda child: -child.devices)
    return root


def _devices(member: Member, shape: Shape) -> int:
    level = LEAF if member.cell_type is None else shape.level_of[member.cell_type]
    return member.cells * shape.at(level).leaves


def _place(search: Search, branch: Branch, within: Cell | None) -> Picks | None:
    for cell in _candidates(search, branch.party, within):
        taken, touched = set(search.taken), set(search.touched)
        picks = _place_in(search, branch, cell)
        if picks is not None:
            return picks
        search.taken, search.touched = taken, touched
    return None


def _candidates(search: Search, party: Party, within: Cell | None) -> Iterable[Cell | None]:
    if party.within is None:
        return [within]
    level = search.shape.level_of[party.within]
    if within is not None and within.spec.level <= level:
        return [within]
    return _ordered(search, within, level)


def _place_in(search: Search, branch: Branch, cell: Cell | None) -> Picks | None:
    picks = _members(search, branch, cell)
    for child in branch.children:
        more = _place(search, child, cell) if picks is not None else None
        if picks is None or more is None:
            return None
        picks += more
    return picks


def _members(search: Search, branch: Branch, within: Cell | None) -> Picks | None:
    tasks = [
        (index, member)
        for index, member in enumerate(branch.party.members, branch.first)
        for _ in range(member.tasks)
    ]
    tasks.sort(key=lambda task: -_devices(task[1], search.shape))
    picks: Picks = []
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
        picks.append((index, [leaf for cell in picked for leaf in at_level(cell, LEAF)]))
    return picks


def _nodes(search: Search, within: Cell | None) -> list[Cell]:
    if within is not None and (within.spec.is_node or within.spec.below_node):
        return [within]
    return _ordered(search, within, search.shape.node_level)


def _task(search: Search, node: Cell, level: int, number: int) -> list[Cell] | None:
    cells = available(node, level, search.priority, search.taken, busiest_first=True)
    cells = [cell for cell in cells if cell not in search.touched]
    if len(cells) < number:
        return None
    picked = closest(cells, number)
    for cell in picked:
        search.take(cell)
    return picked


def _ordered(search: Search, within: Cell | None, level: int) -> list[Cell]:
    """Cells of a level (and smaller ones that a VC owns), in the order to try them."""
    scene = search.scene
    cells: list[Cell] = []
    for top in [within] if within is not None else scene.view.roots:
        cells += at_level(top, level) if top.spec.level >= level else [top]
    usable = [cell for cell in cells if not _useless(scene, cell)]
    return sorted(usable, key=lambda cell: _key(scene, cell))


def _useless(scene: Scene, cell: Cell) -> bool:
    if cell in scene.blocked:
        return True
    under = shadow(cell) if scene.avoid or scene.any_bad else None
    if under is not None and (under.bad == under.spec.leaves or under.node in scene.avoid):
        scene.met_bad = True
        return True
    return False


def _key(scene: Scene, cell: Cell) -> tuple[bool, int, int, int, str, str]:
    if scene.view.across:
        same, higher = cell.used_total, 0
    else:
        same = cell.used_at(OPPORTUNISTIC)
        higher = cell.used_total - same
    under = shadow(cell) if scene.any_bad else None
    behind = cell if isinstance(cell, Physical) else getattr(cell, "physical", None)
    address = behind.address if behind is not None else ""
    unhealthy = under is not None and under.bad > 0
    return (unhealthy, cell.spec.level, -same, higher, address, cell.address)
