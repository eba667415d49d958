"""Puts groups onto cells and takes them off: adopt, reserve, cancel, release, downgrade.

Nothing here raises for what it is told about the world: what does not fit the cells is
opportunistic, and what has no cell runs on unaccounted.
"""

from __future__ import annotations

from collections.abc import Sequence

from skep_scheduler.cells.account import Misfit, find_virtual, level_of
from skep_scheduler.cells.answer import Placement, Spot
from skep_scheduler.cells.groups import Group, Seat
from skep_scheduler.cells.request import Gang
from skep_scheduler.cells.shape import OPPORTUNISTIC
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical, Virtual


def start(state: State, gang: Gang, placement: Placement) -> Group:
    """Commits what `place` answered: downgrades, cancels, and accounts the gang."""
    apply_side_effects(state, gang, placement)
    return adopt(state, gang, placement.chain, placement.spots)


def apply_side_effects(state: State, gang: Gang, placement: Placement) -> None:
    for name in placement.downgrades:
        if name in state.groups:
            downgrade(state, state.groups[name], f"preempted lazily by {gang.name}")
    for name in placement.cancels:
        cancel(state, name)


def adopt(
    state: State,
    gang: Gang,
    chain: str,
    spots: Sequence[Spot],
    downgraded_by: str | None = None,
) -> Group:
    """Accounts a gang that runs as `spots` say, whatever the configuration has become meanwhile.

    If its VC cannot account for it (quota cut, VC gone, cells elsewhere), the gang is downgraded,
    and without a try if it is told `downgraded_by` what it was before. Known groups are left
    alone; a preempting one takes over what it has reserved.
    """
    known = state.groups.get(gang.name)
    if known is not None and known.preempting:
        if _same_places(known, spots):
            _take_over(state, known)
        else:
            cancel(state, known.name)
            known = None
    if known is not None:
        return known
    group = _new_group(state, gang, chain, spots)
    _make_room(state, group)
    reason = downgraded_by or _account_guaranteed(state, group)
    if reason is not None:
        group.downgraded_by = None if gang.opportunistic else reason
        for leaf, _ in group.pairs():
            state.journal.set(leaf, "user", group)
            state.account(leaf, None, OPPORTUNISTIC)
    _add(state, group)
    return group


def reserve(state: State, gang: Gang, placement: Placement) -> Group | None:
    """Makes a preempting group: what it will have is accounted to it while victims still run.

    None, with nothing changed, if the placement does not fit any more.
    """
    try:
        with state.journal.transaction():
            apply_side_effects(state, gang, placement)
            group = _new_group(state, gang, placement.chain, placement.spots)
            group.preempting = True
            for seat in group.seats:
                for i, _ in enumerate(seat.leaves):
                    _hold(state, group, seat, i)
            _check_safety(state, group)
            _add(state, group)
            return group
    except Misfit:
        return None


def cancel(state: State, name: str) -> bool:
    """A preemptor gives everything back: to its victims that still run, or to the pool."""
    group = state.groups.get(name)
    if group is None or not group.preempting:
        return False
    _remove(state, group)
    for leaf, _ in group.pairs():
        state.journal.set(leaf, "holder", None)
        state.release(leaf)
        if leaf.user is not None:
            _give_back(state, leaf, leaf.user)
    return True


def release(state: State, name: str) -> bool:
    """A gang is gone. Cells that a preemptor waits for stay with that one."""
    group = state.groups.get(name)
    if group is None or group.preempting:
        return cancel(state, name)
    _remove(state, group)
    for leaf, _ in group.pairs():
        state.journal.set(leaf, "user", None)
        if leaf.holder is None:
            state.release(leaf)
    return True


def downgrade(state: State, group: Group, reason: str) -> None:
    """Takes a running gang out of its VC: it goes on where it is, as an opportunistic one."""
    if group.preempting or group.opportunistic:
        return
    state.journal.set(group, "downgraded_by", reason)
    _list_downgraded(state, group.name)
    for seat in group.seats:
        for i, leaf in enumerate(seat.leaves):
            if leaf is not None and leaf.holder is None:
                state.release(leaf)
                state.account(leaf, None, OPPORTUNISTIC)
            _set_virtual(state, seat, i, None)


def lose(state: State, leaf: Physical) -> None:
    """A device goes away: who has reserved it has nothing then, who runs on it is unaccounted."""
    if leaf.holder is not None:
        cancel(state, leaf.holder.name)
    if leaf.user is not None:
        state.release(leaf)
        _forget(state, leaf.user, leaf)
        state.journal.set(leaf, "user", None)


def find_again(state: State, leaf: Physical) -> None:
    """A device is there that was not: perhaps a gang runs on it that is to be accounted then."""
    groups = [state.groups[name] for name in state.unaccounted if name in state.groups]
    for group in sorted(groups, key=lambda group: group.order):
        for seat in group.seats:
            if seat.node == leaf.node and leaf.index in seat.indices:
                _rejoin(state, group, seat, seat.indices.index(leaf.index), leaf)
                return


def victims_cleared(group: Group) -> bool:
    """Whether nobody else runs any more on what a preempting group has reserved."""
    return all(leaf.user is None for leaf, _ in group.pairs())


def _new_group(state: State, gang: Gang, chain: str, spots: Sequence[Spot]) -> Group:
    state.arrivals += 1
    return Group(gang, chain, state.arrivals, [_seat(state, spot) for spot in spots])


def _seat(state: State, spot: Spot) -> Seat:
    leaves = [state.leaves.get((spot.node, device)) for device in spot.devices]
    nothing: list[Virtual | None] = [None] * len(leaves)
    return Seat(spot.member, spot.node, spot.devices, leaves, nothing, spot.cell_type)


def _add(state: State, group: Group) -> None:
    state.groups[group.name] = group
    state.journal.note(state.groups.pop, group.name)
    if group.downgraded_by is not None:
        _list_downgraded(state, group.name)
    if any(leaf is None for seat in group.seats for leaf in seat.leaves):
        state.unaccounted.add(group.name)


def _remove(state: State, group: Group) -> None:
    del state.groups[group.name]
    state.journal.note(state.groups.__setitem__, group.name, group)
    if group.name in state.downgraded:
        state.downgraded.remove(group.name)
        state.journal.note(state.downgraded.add, group.name)
    if group.name in state.unaccounted:
        state.unaccounted.remove(group.name)
        state.journal.note(state.unaccounted.add, group.name)


def _list_downgraded(state: State, name: str) -> None:
    state.downgraded.add(name)
    state.journal.note(state.downgraded.discard, name)


def _set_virtual(state: State, seat: Seat, i: int, virtual: Virtual | None) -> None:
    state.journal.note(seat.virtual.__setitem__, i, seat.virtual[i])
    seat.virtual[i] = virtual


def _same_places(group: Group, spots: Sequence[Spot]) -> bool:
    mine = sorted((seat.node, str(i)) for seat in group.seats for i in seat.indices)
    return mine == sorted((spot.node, str(i)) for spot in spots for i in spot.devices)


def _take_over(state: State, group: Group) -> None:
    """What is left of victims goes on unaccounted: the preemptor runs on its cells now."""
    for leaf, _ in group.pairs():
        if leaf.user is not None:
            _forget(state, leaf.user, leaf)
        state.journal.set(leaf, "user", group)
        state.journal.set(leaf, "holder", None)
    state.journal.set(group, "preempting", False)


def _forget(state: State, group: Group, leaf: Physical) -> None:
    for seat in group.seats:
        for i, mine in enumerate(seat.leaves):
            if mine is leaf:
                _set_virtual(state, seat, i, None)
                state.journal.note(seat.leaves.__setitem__, i, leaf)
                seat.leaves[i] = None
                state.unaccounted.add(group.name)


def _make_room(state: State, group: Group) -> None:
    """A running gang is a fact: reservations yield to it, and what another gang runs on is not
    accounted twice."""
    for leaf, _ in group.pairs():
        if leaf.holder is not None:
            cancel(state, leaf.holder.name)
    seen: set[Physical] = set()
    for seat in group.seats:
        for i, mine in enumerate(seat.leaves):
            if mine is None or mine.user is not None or mine in seen:
                seat.leaves[i] = None
            else:
                seen.add(mine)


def _account_guaranteed(state: State, group: Group) -> str | None:
    """The reason why not; nothing has changed then."""
    if group.gang.opportunistic:
        return "opportunistic"
    try:
        with state.journal.transaction():
            for seat in group.seats:
                for i, leaf in enumerate(seat.leaves):
                    if leaf is not None:
                        _account(state, group, seat, i, leaf)
                        state.journal.set(leaf, "user", group)
            _check_safety(state, group)
    except Misfit as misfit:
        return str(misfit)
    return None


def _account(state: State, group: Group, seat: Seat, i: int, leaf: Physical) -> None:
    virtual, displaced = find_virtual(state, group, leaf, level_of(seat.cell_type, leaf))
    for other in displaced:
        if other.preempting:
            cancel(state, other.name)
        else:
            downgrade(state, other, f"its cells went to {group.name}")
    if displaced:
        virtual, _ = find_virtual(state, group, leaf, level_of(seat.cell_type, leaf))
    state.account(leaf, virtual, group.priority)
    _set_virtual(state, seat, i, virtual)


def _hold(state: State, group: Group, seat: Seat, i: int) -> None:
    leaf = seat.leaves[i]
    if leaf is None or leaf.holder is not None:
        raise Misfit("it is not as it was")
    if leaf.user is not None:
        state.release(leaf)
        _note_lost(state, leaf.user, leaf)
    _account(state, group, seat, i, leaf)
    state.journal.set(leaf, "holder", group)


def _rejoin(state: State, group: Group, seat: Seat, i: int, leaf: Physical) -> None:
    try:
        if group.opportunistic:
            raise Misfit("opportunistic")
        with state.journal.transaction():
            _account(state, group, seat, i, leaf)
            _check_safety(state, group)
    except Misfit as misfit:
        downgrade(state, group, str(misfit))
        state.account(leaf, None, OPPORTUNISTIC)
    seat.leaves[i] = leaf
    leaf.user = group


def _note_lost(state: State, group: Group, leaf: Physical) -> None:
    for seat in group.seats:
        for i, mine in enumerate(seat.leaves):
            if mine is leaf:
                _set_virtual(state, seat, i, None)


def _give_back(state: State, leaf: Physical, group: Group) -> None:
    """To a victim that is not to be preempted any more: in its VC if that has the cell still."""
    seat, i = next((s, s.leaves.index(leaf)) for s in group.seats if leaf in s.leaves)
    if not group.opportunistic:
        try:
            with state.journal.transaction():
                _account(state, group, seat, i, leaf)
                _check_safety(state, group)
            return
        except Misfit:
            state.account(leaf, None, OPPORTUNISTIC)
            downgrade(state, group, "its cells are in use otherwise")
    else:
        state.account(leaf, None, OPPORTUNISTIC)


def _check_safety(state: State, group: Group) -> None:
    for chain in {leaf.shape.chain for leaf, _ in group.pairs()}:
        if not state.chains[chain].is_safe():
            raise Misfit(f"its cells in {chain} are owed to other virtual clusters")
