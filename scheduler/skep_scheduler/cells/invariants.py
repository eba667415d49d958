"""What must hold of every state, checked from the leaves up without trusting any counter.

`violations` walks the whole cluster: for tests, and for a production that wants to be sure.
`violations_around` looks at some devices and at what contains them, at the cost of a few paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import FREE, LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import CellState, Domain
from skep_scheduler.cells.tree import Cell, Group, Physical, Virtual, is_whole
from skep_scheduler.model import InvariantError


def validate(state: CellState) -> None:
    """Raises `InvariantError` with one sentence per violation."""
    found = list(violations(state))
    if found:
        raise InvariantError(found)


def violations(state: CellState) -> Iterator[str]:
    for chain, pool in state.chains.items():
        for top in pool.tops:
            yield from _physical(top)
        yield from _free_lists(pool)
        yield from _counters(state, chain, pool)
    for domain in _domains(state):
        for root in domain.roots:
            yield from _virtual(root)
    for group in state.groups.values():
        yield from _group(group)
        if state.groups_of[group.gang.vc].get(group.name) is not group:
            yield f"{group.name} is not listed for {group.gang.vc}."
    if sum(map(len, state.groups_of.values())) != len(state.groups):
        yield "Groups that are gone are listed for virtual clusters."
    yield from _leaves(state)


def violations_around(
    state: CellState, groups: Iterable[Group], leaves: Iterable[Physical]
) -> Iterator[str]:
    """Check groups, devices, all cells that contain these devices, and that every virtual cluster
    can still get all that it owns: what a change of these groups could break."""
    for group in groups:
        yield from _group(group)
    seen: set[Cell] = set()
    for leaf in leaves:
        yield from _owners(state, leaf)
        physical: Physical | None = leaf
        while physical is not None and physical not in seen:
            seen.add(physical)
            yield from _physical_cell(physical)
            physical = physical.up
        virtual = leaf.virtual
        while virtual is not None and virtual not in seen:
            seen.add(virtual)
            yield from _virtual_cell(virtual)
            virtual = virtual.up
    for chain, pool in state.chains.items():
        yield from _safety(chain, pool)


def _owners(state: CellState, leaf: Physical) -> Iterator[str]:
    for owner in (leaf.user, leaf.holder):
        if owner is None:
            continue
        if state.groups.get(owner.name) is not owner:
            yield f"{leaf.address} belongs to {owner.name}, which is gone."
        elif not any(mine is leaf for mine, _ in owner.pairs()):
            yield f"{leaf.address} belongs to {owner.name}, which does not list it."
    if (leaf.priority == FREE) != (leaf.user is None and leaf.holder is None):
        owner = leaf.holder or leaf.user
        yield f"{leaf.address} has priority {leaf.priority}, but {owner} has it."


def _domains(state: CellState) -> Iterator[Domain]:
    for vc in state.vcs.values():
        yield from vc.chains.values()
        yield from vc.pins.values()


def _physical(cell: Physical) -> Iterator[str]:
    yield from _physical_cell(cell)
    for part in cell.parts:
        yield from _physical(part)


def _physical_cell(cell: Physical) -> Iterator[str]:
    yield from _use(cell)
    bound = cell.virtual
    if bound is not None and bound.physical is not cell:
        yield f"{cell.address} is bound to {bound.address}, but not the other way round."
    if cell.level == LEAF:
        if cell.bad != int(bool(cell.faults)):
            yield f"{cell.address} counts {cell.bad} bad leaves with faults {cell.faults}."
    elif cell.bad != sum(part.bad for part in cell.parts):
        yield f"{cell.address} counts {cell.bad} bad leaves, its parts have others."
    if cell.whole != is_whole(cell):
        yield f"{cell.address} says whole is {cell.whole}, its parts say otherwise."


def _use(cell: Cell) -> Iterator[str]:
    """Counts are sums over the children, and so is the priority their maximum."""
    if cell.level == LEAF:
        if cell.used_total != int(cell.priority != FREE):
            yield f"{cell.address} has priority {cell.priority} and counts {cell.used_total} used."
        return
    used: Counter[int] = Counter()
    for child in cell.children:
        if child.level == LEAF:
            used.update([child.priority] if child.used_total else [])
        else:
            used.update(child.used or {})
    if dict(used) != (cell.used or {}):
        yield f"{cell.address} counts {cell.used} used, but its children have {dict(used)}."
    if cell.used_total != used.total():
        yield f"{cell.address} counts {cell.used_total} used in all, its children {used.total()}."


def _virtual(cell: Virtual) -> Iterator[str]:
    yield from _virtual_cell(cell)
    for part in cell.parts:
        yield from _virtual(part)


def _virtual_cell(cell: Virtual) -> Iterator[str]:
    yield from _use(cell)
    there = cell.physical
    pinned = cell.pin is not None and cell.up is None
    if (there is not None) != (pinned or cell.used_total > 0):
        yield f"{cell.address} is bound to {there}, with {cell.used_total} leaves used."
    if there is not None:
        if there.virtual is not cell:
            yield f"{cell.address} is bound to {there.address}, but not the other way round."
        if (there.shape.chain, there.level) != (cell.shape.chain, cell.level):
            yield f"{cell.address} is bound to {there.address} of another chain or level."
        if cell.up is not None and cell.up.physical is not there.up:
            yield f"{cell.address} is bound to {there.address}, but what contains them is not."
        if cell.level == LEAF and cell.used_total and cell.priority != there.priority:
            yield f"{cell.address} has priority {cell.priority}, its device {there.priority}."


def _free_lists(pool: Pool) -> Iterator[str]:
    for level, cells in enumerate(pool.free):
        for cell in cells.cells:
            if not cell.listed or cell.level != level or cell.split:
                yield f"{cell.address} is in the free list of level {level}, but not as it says."
            if cell.virtual is not None:
                yield f"{cell.address} is in a free list, and bound to {cell.virtual.address}."
    for top in pool.tops:
        yield from _partition(top, listed=False)


def _partition(cell: Physical, listed: bool) -> Iterator[str]:
    """Every cell that is not split is free or given out as a whole."""
    given = cell.virtual is not None and cell.virtual.up is None
    if cell.listed and listed:
        yield f"{cell.address} is in a free list, and so is what contains it."
    if cell.split:
        if cell.listed or given or listed:
            yield f"{cell.address} is split, but free or given out as a whole."
        for part in cell.parts:
            yield from _partition(part, listed=False)
    elif not cell.whole:
        yield f"{cell.address} lacks parts, but is not split."
    elif not listed and not cell.listed and not given:
        yield f"{cell.address} is neither split nor free nor given out."
    else:
        for part in cell.parts:
            yield from _partition(part, listed=True)


def _counters(state: CellState, chain: str, pool: Pool) -> Iterator[str]:
    left, bad = [0] * (pool.shape.top + 1), [0] * (pool.shape.top + 1)
    stack = [cell for cells in pool.free for cell in cells.cells]
    while stack:
        cell = stack.pop()
        left[cell.level] += 1
        bad[cell.level] += int(cell.bad > 0)
        stack.extend(cell.parts)
    total = Counter(cell.level for top in pool.tops for cell in _walk(top) if cell.whole)
    if [total[level] for level in range(pool.shape.top + 1)] != pool.total:
        yield f"{chain}: {pool.total} cells are said to be there, but it is {dict(total)}."
    if left != pool.left:
        yield f"{chain}: {pool.left} cells are said to be left, but it is {left}."
    if bad != pool.bad_left:
        yield f"{chain}: {pool.bad_left} bad cells are said to be left, but it is {bad}."
    if pool.bad != sum(top.bad for top in pool.tops):
        yield f"{chain}: {pool.bad} bad devices are counted wrongly."
    yield from _claims(state, chain, pool)


def _walk(cell: Physical) -> Iterator[Physical]:
    yield cell
    for part in cell.parts:
        yield from _walk(part)


def _claims(state: CellState, chain: str, pool: Pool) -> Iterator[str]:
    total = [0] * (pool.shape.top + 1)
    for name, vc in state.vcs.items():
        claims = [0] * (pool.shape.top + 1)
        for root in vc.chains[chain].roots if chain in vc.chains else ():
            claims[root.level] += int(root.physical is None)
        said = pool.vc_claims.get(name, [0] * len(claims))
        if claims != said:
            yield f"{chain}: {name} is said to have {said} cells to claim, but it is {claims}."
        total = [a + b for a, b in zip(total, claims, strict=True)]
    if total != pool.claims:
        yield f"{chain}: {pool.claims} cells are claimed by all VCs, but it is {total}."
    yield from _safety(chain, pool)


def _safety(chain: str, pool: Pool) -> Iterator[str]:
    """HiveD's safety: whatever is claimed later fits, of all virtual clusters at once."""
    for level in range(1, pool.shape.top + 1):
        if pool.left[level] < pool.claims[level]:
            yield f"{chain}, level {level}: {pool.claims[level]} claimed, {pool.left[level]} left."
    if not pool.is_safe():
        yield f"{chain}: not all claims {pool.claims} fit into the free cells: {pool.spare()}."


def _group(group: Group) -> Iterator[str]:
    for leaf, virtual in group.pairs():
        owner = leaf.holder if group.preempting else leaf.user
        if owner is not group:
            yield f"{group.name} has {leaf.address}, which belongs to {owner}."
        if leaf.holder not in (None, group):
            continue  # accounted to its preemptor
        if leaf.accounted is not virtual:
            yield f"{group.name} has {leaf.address} at {virtual}, but it is bound elsewhere."
        if leaf.priority != group.priority:
            yield f"{leaf.address} has priority {leaf.priority}, its group {group.priority}."
        if group.opportunistic != (virtual is None):
            yield f"{group.name} of priority {group.priority} has {leaf.address} at {virtual}."
        if virtual is not None and virtual.vc != group.gang.vc:
            yield f"{group.name} of {group.gang.vc} is accounted to {virtual.vc}."
    if group.preempting and any(leaf is None for slot in group.slots for leaf in slot.leaves):
        yield f"{group.name} has reserved only a part of its cells."


def _leaves(state: CellState) -> Iterator[str]:
    """Check that a leaf has at most one user and one holder, and that both groups list it."""
    users: Counter[Physical] = Counter()
    holders: Counter[Physical] = Counter()
    for group in state.groups.values():
        (holders if group.preempting else users).update(leaf for leaf, _ in group.pairs())
    for leaf in state.leaves.values():
        if users[leaf] != int(leaf.user is not None) or holders[leaf] != int(
            leaf.holder is not None
        ):
            yield f"{leaf.address}: {users[leaf]} users and {holders[leaf]} holders claim it."
        expected = leaf.holder or leaf.user
        if (leaf.priority == FREE) != (expected is None):
            yield f"{leaf.address} has priority {leaf.priority}, but {expected} has it."
        if leaf.priority == OPPORTUNISTIC and leaf.accounted is not None:
            yield f"{leaf.address} is used opportunistically, and as {leaf.accounted.address}."
