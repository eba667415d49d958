"""To which virtual leaf a physical one is to be accounted: that follows from what is bound around
it, and from what its VC has left."""

from __future__ import annotations

from skep_scheduler.cells.groups import Group
from skep_scheduler.cells.request import Gang
from skep_scheduler.cells.shape import LEAF
from skep_scheduler.cells.state import Domain, State
from skep_scheduler.cells.tree import Physical, Virtual


class Misfit(Exception):
    """A place that its VC cannot account for, with the reason."""


def level_of(cell_type: str, leaf: Physical) -> int:
    """The level of a preassigned cell's type; raises `Misfit` where the chain has none such."""
    level = leaf.shape.level_of.get(cell_type)
    if level is None:
        raise Misfit(f"{leaf.shape.chain} has no cell type {cell_type!r}")
    return level


def find_virtual(
    state: State, group: Group, leaf: Physical, level: int
) -> tuple[Virtual, list[Group]]:
    """The virtual leaf, and who must be displaced from its preassigned cell first (then ask again:
    it is the leaf of a cell that is bound elsewhere). Raises `Misfit`."""
    domain = _domain(state, group.gang, leaf.shape.chain)
    path: list[Physical] = []
    cell: Physical | None = leaf
    while cell is not None and cell.virtual is None and cell.level < level:
        path.append(cell)
        cell = cell.up
    if cell is None:
        raise Misfit(f"nothing around {leaf.address} is a cell that {domain.vc} owns")
    virtual = cell.virtual
    displaced: list[Group] = []
    if virtual is None:
        virtual, displaced = _root(state, domain, group, cell)
    elif virtual.vc != domain.vc or virtual.root.pin != group.gang.pin:
        raise Misfit(f"{cell.address} is in use by virtual cluster {virtual.vc}")
    for _ in path:
        virtual = next((v for v in virtual.parts if v.physical is None), virtual.parts[0])
    return virtual, displaced


def users_below(virtual: Virtual) -> list[Group]:
    """The groups to which leaves below a virtual cell are accounted, in order."""
    found: dict[Group, None] = {}
    stack = [virtual]
    while stack:
        cell = stack.pop()
        if cell.used_total and cell.level == LEAF and cell.physical is not None:
            owner = cell.physical.holder or cell.physical.user
            if owner is not None:
                found[owner] = None
        elif cell.used_total:
            stack.extend(reversed(cell.parts))
    return list(found)


def _domain(state: State, gang: Gang, chain: str) -> Domain:
    vc = state.vcs.get(gang.vc)
    if vc is None:
        raise Misfit(f"there is no virtual cluster {gang.vc}")
    domain = vc.pins.get(gang.pin) if gang.pin is not None else vc.chains.get(chain)
    if domain is None:
        what = f"pinned cell {gang.pin}" if gang.pin is not None else f"cells of {chain}"
        raise Misfit(f"virtual cluster {gang.vc} has no {what}")
    return domain


def _root(
    state: State, domain: Domain, group: Group, cell: Physical
) -> tuple[Virtual, list[Group]]:
    """The first preassigned cell that is not bound, or else that of the lowest priority."""
    if not state.chains[cell.shape.chain].is_free(cell):
        raise Misfit(f"{cell.address} is in use by another virtual cluster")
    roots = domain.by_level.get(cell.level, [])
    for root in roots:
        if root.physical is None:
            return root, []
    lower = [root for root in roots if not root.pin and root.top_priority < group.priority]
    if not lower:
        raise Misfit(f"virtual cluster {domain.vc} has no {cell.spec.type} left")
    root = min(lower, key=lambda root: root.top_priority)
    return root, users_below(root)
