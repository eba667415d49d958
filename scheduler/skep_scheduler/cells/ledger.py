"""Puts groups onto cells and takes them off: adopt, reserve, cancel, release, downgrade.

Nothing here raises for a fact: what does not fit the cells is opportunistic, and what has no cell
runs on unaccounted. To which virtual leaf a physical one is accounted follows from what is bound
around it, and from what its VC has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skep_scheduler.cells.answer import CellPlacement, CellTaskPlacement
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import CellState, Domain
from skep_scheduler.cells.tree import Group, Physical, TaskSlot, Virtual


class CannotAccountError(Exception):
    """A place that its VC cannot account for, with the reason."""


def level_of(cell_type: str, leaf: Physical) -> int:
    """Return the level of a preassigned cell's type. Raises `CannotAccountError` where the chain
    has none such."""
    level = leaf.shape.level_of.get(cell_type)
    if level is None:
        raise CannotAccountError(f"{leaf.shape.chain} has no cell type {cell_type!r}")
    return level


def find_virtual(
    state: CellState, group: Group, leaf: Physical, level: int
) -> tuple[Virtual, list[Group]]:
    """Return the virtual leaf, and who must be displaced from its preassigned cell first (then ask
    again: it is the leaf of a cell that is bound elsewhere). Raises `CannotAccountError`."""
    domain = _domain(state, group.gang, leaf.shape.chain)
    path: list[Physical] = []
    cell: Physical | None = leaf
    while cell is not None and cell.virtual is None and cell.level < level:
        path.append(cell)
        cell = cell.up
    if cell is None:
        raise CannotAccountError(f"nothing around {leaf.address} is a cell that {domain.vc} owns")
    virtual = cell.virtual
    displaced: list[Group] = []
    if virtual is None:
        virtual, displaced = _root(state, domain, group, cell)
    elif virtual.vc != domain.vc or virtual.root.pin != group.gang.pin:
        raise CannotAccountError(f"{cell.address} is in use by virtual cluster {virtual.vc}")
    for _ in path:
        virtual = next((v for v in virtual.parts if v.physical is None), virtual.parts[0])
    return virtual, displaced


def users_below(virtual: Virtual) -> list[Group]:
    """Return the groups to which leaves below a virtual cell are accounted, in order."""
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


def _domain(state: CellState, gang: GangRequest, chain: str) -> Domain:
    vc = state.vcs.get(gang.vc)
    if vc is None:
        raise CannotAccountError(f"there is no virtual cluster {gang.vc}")
    domain = vc.pins.get(gang.pin) if gang.pin is not None else vc.chains.get(chain)
    if domain is None:
        what = f"pinned cell {gang.pin}" if gang.pin is not None else f"cells of {chain}"
        raise CannotAccountError(f"virtual cluster {gang.vc} has no {what}")
    return domain


def _root(
    state: CellState, domain: Domain, group: Group, cell: Physical
) -> tuple[Virtual, list[Group]]:
    """The first preassigned cell that is not bound, or else that of the lowest priority."""
    if not state.chains[cell.shape.chain].is_free(cell):
        raise CannotAccountError(f"{cell.address} is in use by another virtual cluster")
    roots = domain.by_level.get(cell.level, [])
    for root in roots:
        if root.physical is None:
            return root, []
    lower = [root for root in roots if not root.pin and root.top_priority < group.priority]
    if not lower:
        raise CannotAccountError(f"virtual cluster {domain.vc} has no {cell.spec.type} left")
    root = min(lower, key=_victim_key)
    return root, users_below(root)


def _victim_key(root: Virtual) -> tuple[int, int]:
    assert root.physical is not None
    return root.top_priority, root.physical.rank


def start(state: CellState, gang: GangRequest, placement: CellPlacement) -> Group:
    """Commits what `place` answered: downgrades, cancels, and accounts the gang."""
    apply_side_effects(state, gang, placement)
    return adopt(state, gang, placement.chain, placement.tasks)


def apply_side_effects(state: CellState, gang: GangRequest, placement: CellPlacement) -> None:
    for name in placement.downgrades:
        if name in state.groups:
            downgrade(state, state.groups[name], f"preempted lazily by {gang.name}")
    for name in placement.cancels:
        cancel(state, name)


def adopt(
    state: CellState,
    gang: GangRequest,
    chain: str,
    placements: Sequence[CellTaskPlacement],
    downgraded_by: str | None = None,
) -> Group:
    """Account for a gang that runs as `placements` say, whatever the configuration is by now.

    If its VC cannot account for it (quota cut, VC gone, cells elsewhere), the gang is downgraded,
    and without a try if `downgraded_by` says what downgraded it before. Known groups are left
    alone; a preempting one takes over what it has reserved.
    """
    known = state.groups.get(gang.name)
    if known is not None and known.preempting:
        if _same_places(known, placements):
            _take_over(state, known)
        else:
            cancel(state, known.name)
            known = None
    if known is not None:
        return known
    group = _new_group(state, gang, chain, placements)
    _clear_devices(state, group)
    reason = downgraded_by or _account_guaranteed(state, group)
    if reason is not None:
        group.downgraded_by = None if gang.opportunistic else reason
        leaves = _leaves(group)
        _set_users(state, leaves, None, group)
        state.use(leaves, OPPORTUNISTIC)
    _add(state, group)
    return group


def reserve(state: CellState, gang: GangRequest, placement: CellPlacement) -> Group | None:
    """Makes a preempting group: what it will have is accounted to it while victims still run.

    None, with nothing changed, if the placement does not fit any more.
    """
    try:
        with state.journal.transaction():
            apply_side_effects(state, gang, placement)
            group = _new_group(state, gang, placement.chain, placement.tasks)
            group.preempting = True
            for slot in group.slots:
                for i, _ in enumerate(slot.leaves):
                    _hold(state, group, slot, i)
            _check_safety(state, group)
            _add(state, group)
            return group
    except CannotAccountError:
        return None


def cancel(state: CellState, name: str) -> bool:
    """A preemptor gives everything back: to its victims that still run, or to the pool."""
    group = state.groups.get(name)
    if group is None or not group.preempting:
        return False
    _remove(state, group)
    for leaf, _ in group.pairs():
        state.journal.set(leaf, "holder", None)
        state.release([leaf])
        if leaf.user is not None:
            _give_back(state, leaf, leaf.user)
    return True


def release(state: CellState, name: str) -> bool:
    """A gang is gone. Cells that a preemptor waits for stay with that one."""
    group = state.groups.get(name)
    if group is None or group.preempting:
        return cancel(state, name)
    _remove(state, group)
    leaves = _leaves(group)
    _set_users(state, leaves, group, None)
    state.release([leaf for leaf in leaves if leaf.holder is None])
    return True


def release_all(state: CellState, names: Iterable[str]) -> None:
    """These gangs are gone. It is as `release` for each, but counts once what they had together."""
    freed: dict[int, list[Physical]] = {}  # by priority
    for name in names:
        group = state.groups.get(name)
        if group is None or group.preempting:
            cancel(state, name)
            continue
        _remove(state, group)
        leaves = _leaves(group)
        _set_users(state, leaves, group, None)
        for leaf in leaves:
            if leaf.holder is None:
                freed.setdefault(leaf.priority, []).append(leaf)
    for leaves in freed.values():
        state.release(leaves)


def downgrade(state: CellState, group: Group, reason: str) -> None:
    """Takes a running gang out of its VC: it goes on where it is, as an opportunistic one."""
    if group.preempting or group.opportunistic:
        return
    state.journal.set(group, "downgraded_by", reason)
    state.note_changed(group)
    _list_downgraded(state, group.name)
    for slot in group.slots:
        for i, leaf in enumerate(slot.leaves):
            if leaf is not None and leaf.holder is None:
                state.release([leaf])
                state.account(leaf, None, OPPORTUNISTIC)
            _set_virtual(state, slot, i, None)


def detach_device(state: CellState, leaf: Physical) -> None:
    """A device goes away: who has reserved it has nothing then, who runs on it is unaccounted."""
    if leaf.holder is not None:
        cancel(state, leaf.holder.name)
    if leaf.user is not None:
        state.release([leaf])
        _forget(state, leaf.user, leaf)
        state.journal.set(leaf, "user", None)


def reattach_device(state: CellState, leaf: Physical) -> None:
    """A device is there that was not: perhaps a gang runs on it that is to be accounted then."""
    groups = [state.groups[name] for name in state.unaccounted if name in state.groups]
    for group in sorted(groups, key=lambda group: group.order):
        for slot in group.slots:
            if slot.node == leaf.node and leaf.index in slot.indices:
                _rejoin(state, group, slot, slot.indices.index(leaf.index), leaf)
                return


def victims_cleared(group: Group) -> bool:
    """Whether no other group runs any more on what a preempting group has reserved."""
    return all(leaf.user is None for leaf, _ in group.pairs())


def _new_group(
    state: CellState, gang: GangRequest, chain: str, placements: Sequence[CellTaskPlacement]
) -> Group:
    state.arrivals += 1
    return Group(gang, chain, state.arrivals, [_slot(state, placed) for placed in placements])


def _slot(state: CellState, placed: CellTaskPlacement) -> TaskSlot:
    leaves = [state.leaves.get((placed.node, device)) for device in placed.devices]
    nothing: list[Virtual | None] = [None] * len(leaves)
    return TaskSlot(placed.member, placed.node, placed.devices, leaves, nothing, placed.cell_type)


def _add(state: CellState, group: Group) -> None:
    state.add_group(group)
    if group.downgraded_by is not None:
        _list_downgraded(state, group.name)
    if any(leaf is None for slot in group.slots for leaf in slot.leaves):
        state.unaccounted.add(group.name)


def _remove(state: CellState, group: Group) -> None:
    state.remove_group(group)
    if group.name in state.downgraded:
        state.downgraded.remove(group.name)
        state.journal.note(state.downgraded.add, group.name)
    if group.name in state.unaccounted:
        state.unaccounted.remove(group.name)
        state.journal.note(state.unaccounted.add, group.name)


def _list_downgraded(state: CellState, name: str) -> None:
    state.downgraded.add(name)
    state.journal.note(state.downgraded.discard, name)


def _leaves(group: Group) -> list[Physical]:
    return [leaf for slot in group.slots for leaf in slot.leaves if leaf is not None]


def _set_users(
    state: CellState, leaves: Sequence[Physical], before: Group | None, after: Group | None
) -> None:
    """All of these leaves have the same user before."""
    _set_user(leaves, after)
    state.journal.note(_set_user, leaves, before)


def _set_user(leaves: Sequence[Physical], user: Group | None) -> None:
    for leaf in leaves:
        leaf.user = user


def _set_virtual(state: CellState, slot: TaskSlot, i: int, virtual: Virtual | None) -> None:
    state.journal.note(slot.virtual.__setitem__, i, slot.virtual[i])
    slot.virtual[i] = virtual


def _same_places(group: Group, placements: Sequence[CellTaskPlacement]) -> bool:
    mine = sorted((slot.node, str(i)) for slot in group.slots for i in slot.indices)
    return mine == sorted((placed.node, str(i)) for placed in placements for i in placed.devices)


def _take_over(state: CellState, group: Group) -> None:
    """What is left of victims goes on unaccounted: the preemptor runs on its cells now."""
    for leaf, _ in group.pairs():
        if leaf.user is not None:
            _forget(state, leaf.user, leaf)
        state.journal.set(leaf, "user", group)
        state.journal.set(leaf, "holder", None)
    state.journal.set(group, "preempting", False)


def _forget(state: CellState, group: Group, leaf: Physical) -> None:
    for slot in group.slots:
        for i, mine in enumerate(slot.leaves):
            if mine is leaf:
                _set_virtual(state, slot, i, None)
                state.journal.note(slot.leaves.__setitem__, i, leaf)
                slot.leaves[i] = None
                state.note_changed(group)
                state.unaccounted.add(group.name)


def _clear_devices(state: CellState, group: Group) -> None:
    """A running gang is a fact: reservations yield to it, and what another gang runs on is not
    accounted twice."""
    for leaf, _ in group.pairs():
        if leaf.holder is not None:
            cancel(state, leaf.holder.name)
    seen: set[Physical] = set()
    for slot in group.slots:
        for i, mine in enumerate(slot.leaves):
            if mine is None or mine.user is not None or mine in seen:
                slot.leaves[i] = None
            else:
                seen.add(mine)


def _account_guaranteed(state: CellState, group: Group) -> str | None:
    """The reason why not; nothing has changed then."""
    if group.gang.opportunistic:
        return "opportunistic"
    try:
        with state.journal.transaction():
            for slot in group.slots:
                _account_slot(state, group, slot)
            _set_users(state, _leaves(group), None, group)
            _check_safety(state, group)
    except CannotAccountError as error:
        return str(error)
    return None


def _account_slot(state: CellState, group: Group, slot: TaskSlot) -> None:
    """A task lies in one node: where that is a part of one preassigned cell, all of its leaves are
    counted at once."""
    pairs = [(i, leaf) for i, leaf in enumerate(slot.leaves) if leaf is not None]
    if not _is_within_root(slot, [leaf for _, leaf in pairs]):
        for i, leaf in pairs:
            _account(state, group, slot, i, leaf)
        return
    virtual = list(slot.virtual)
    for i, leaf in pairs:
        virtual[i] = found = _displace(state, group, slot, leaf)
        state.bind(found, leaf)
    state.use([leaf for _, leaf in pairs], group.priority)
    state.use([found for found in virtual if found is not None], group.priority)
    state.journal.set(slot, "virtual", virtual)


def _is_within_root(slot: TaskSlot, leaves: Sequence[Physical]) -> bool:
    if len(leaves) < 2 or any(leaf.shape is not leaves[0].shape for leaf in leaves):
        return False
    return not leaves[0].shape.at(level_of(slot.cell_type, leaves[0])).below_node


def _account(state: CellState, group: Group, slot: TaskSlot, i: int, leaf: Physical) -> None:
    virtual = _displace(state, group, slot, leaf)
    state.account(leaf, virtual, group.priority)
    _set_virtual(state, slot, i, virtual)


def _displace(state: CellState, group: Group, slot: TaskSlot, leaf: Physical) -> Virtual:
    """Return the virtual leaf for a leaf, after whoever is in the way there has left it."""
    level = level_of(slot.cell_type, leaf)
    virtual, displaced = find_virtual(state, group, leaf, level)
    for other in displaced:
        if other.preempting:
            cancel(state, other.name)
        else:
            downgrade(state, other, f"its cells went to {group.name}")
    if displaced:
        virtual, _ = find_virtual(state, group, leaf, level)
    return virtual


def _hold(state: CellState, group: Group, slot: TaskSlot, i: int) -> None:
    leaf = slot.leaves[i]
    if leaf is None or leaf.holder is not None:
        raise CannotAccountError("it is not as it was")
    if leaf.user is not None:
        state.release([leaf])
        _note_lost(state, leaf.user, leaf)
    _account(state, group, slot, i, leaf)
    state.journal.set(leaf, "holder", group)


def _rejoin(state: CellState, group: Group, slot: TaskSlot, i: int, leaf: Physical) -> None:
    try:
        if group.opportunistic:
            raise CannotAccountError("opportunistic")
        with state.journal.transaction():
            _account(state, group, slot, i, leaf)
            _check_safety(state, group)
    except CannotAccountError as error:
        downgrade(state, group, str(error))
        state.account(leaf, None, OPPORTUNISTIC)
    slot.leaves[i] = leaf
    leaf.user = group
    state.note_changed(group)


def _note_lost(state: CellState, group: Group, leaf: Physical) -> None:
    for slot in group.slots:
        for i, mine in enumerate(slot.leaves):
            if mine is leaf:
                _set_virtual(state, slot, i, None)


def _give_back(state: CellState, leaf: Physical, group: Group) -> None:
    """To a victim that is not to be preempted any more: in its VC if that has the cell still."""
    slot, i = next((s, s.leaves.index(leaf)) for s in group.slots if leaf in s.leaves)
    if not group.opportunistic:
        try:
            with state.journal.transaction():
                _account(state, group, slot, i, leaf)
                _check_safety(state, group)
            return
        except CannotAccountError:
            state.account(leaf, None, OPPORTUNISTIC)
            downgrade(state, group, "its cells are in use otherwise")
    else:
        state.account(leaf, None, OPPORTUNISTIC)


def _check_safety(state: CellState, group: Group) -> None:
    for chain in {leaf.shape.chain for leaf, _ in group.pairs()}:
        if not state.chains[chain].is_safe():
            raise CannotAccountError(f"its cells in {chain} are owed to other virtual clusters")
