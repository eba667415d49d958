"""Who holds which cells and how much room: every change can be tried and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from skep_scheduler.cells import answer, ledger
from skep_scheduler.cells.groups import Group
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import State
from skep_scheduler.facts import Gang, HeldTask
from skep_scheduler.world.request import name_of, owner_of, parts_of, piece_of
from skep_scheduler.world.room import Amount, Room

Spots = dict[str, list[answer.Spot]]  # by the name of the group
T = TypeVar("T")
NO_CELLS = Config({}, (), {})


class Holds:
    """By gang: the names of its groups in the cells, and all places that it has.

    squeezed: gangs that once ran where another one ran, too; see `settle`.
    """

    def __init__(self) -> None:
        self.cells = State(NO_CELLS)
        self.room = Room(self.cells.journal)
        self.groups: dict[str, tuple[str, ...]] = {}
        self.tasks: dict[str, tuple[HeldTask, ...]] = {}
        self._squeezed: set[str] = set()

    def use(self, cells: State) -> None:
        """New cells, with all that runs accounted in them."""
        self.cells = cells
        self.room.journal = cells.journal

    def trial(self) -> AbstractContextManager[None]:
        return self.cells.journal.trial()

    def transaction(self) -> AbstractContextManager[None]:
        return self.cells.journal.transaction()

    def put(self, gang: Gang, tasks: Sequence[HeldTask], downgraded_by: str | None = None) -> None:
        """The gang runs at exactly these places; what has not changed is left alone."""
        spots = spots_of(gang, tasks)
        for name in self.groups.get(gang.id, ()):
            if name not in spots or not _is_at(self.cells.groups.get(name), spots[name]):
                ledger.release(self.cells, name)
        for name, some in spots.items():
            piece = piece_of(gang, name)
            self._note_others(name)
            ledger.adopt(self.cells, piece, self._chain(some), some, downgraded_by)
            self._squeezed.add(gang.id)
        self._note(gang.id, tuple(spots), tuple(tasks))

    def reserve(self, gang: Gang, tasks: Sequence[HeldTask]) -> bool:
        """All of it, or nothing where it does not fit any more; the room is reserved anyway."""
        spots, done = spots_of(gang, tasks), []
        for name, some in spots.items():
            placement = answer.Placement(name, self._chain(some), tuple(some))
            if ledger.reserve(self.cells, piece_of(gang, name), placement) is None:
                break
            done.append(name)
        else:
            self._note(gang.id, tuple(spots), tuple(tasks))
            return True
        for name in done:
            ledger.cancel(self.cells, name)
        self._note(gang.id, (), tuple(tasks))
        return False

    def release(self, gang_id: str) -> None:
        """It holds nothing any more; a preemptor gives back what it has reserved."""
        for name in self.groups.get(gang_id, ()):
            ledger.release(self.cells, name)
        self._note(gang_id, (), ())

    def downgrade(self, gang_id: str, reason: str) -> None:
        for group in self.groups_of(gang_id):
            if group.downgraded_by is None:
                ledger.downgrade(self.cells, group, reason)

    def groups_of(self, gang_id: str) -> Iterator[Group]:
        known = self.cells.groups
        return (known[name] for name in self.groups.get(gang_id, ()) if name in known)

    def is_downgraded(self, gang_id: str) -> bool:
        return any(group.downgraded_by is not None for group in self.groups_of(gang_id))

    def squeezed(self) -> set[str]:
        """Gangs with devices that the cells have, but do not account to them."""
        self._squeezed = {gang_id for gang_id in self._squeezed if self._is_squeezed(gang_id)}
        return set(self._squeezed)

    def _is_squeezed(self, gang_id: str) -> bool:
        return any(
            leaf is None and (seat.node, index) in self.cells.leaves
            for group in self.groups_of(gang_id)
            for seat in group.seats
            for index, leaf in zip(seat.indices, seat.leaves, strict=True)
        )

    def _note_others(self, name: str) -> None:
        """Whoever still runs where a preemptor starts loses its devices to it."""
        group = self.cells.groups.get(name)
        if group is not None and group.preempting:
            users = {leaf.user for leaf, _ in group.pairs() if leaf.user is not None}
            self._squeezed |= {owner_of(user) for user in users}

    def nodes_of(self, gang_id: str) -> set[str]:
        return {task.node for task in self.tasks.get(gang_id, ())}

    def _chain(self, spots: Sequence[answer.Spot]) -> str:
        leaf = self.cells.leaves.get((spots[0].node, spots[0].devices[0]))
        return leaf.shape.chain if leaf is not None else ""

    def _note(self, gang_id: str, groups: tuple[str, ...], tasks: tuple[HeldTask, ...]) -> None:
        for task in self.tasks.get(gang_id, ()):
            self.room.give(task.node, gang_id, _amount(task))
        for task in tasks:
            self.room.take(task.node, gang_id, _amount(task))
        self._set(self.groups, gang_id, groups)
        self._set(self.tasks, gang_id, tasks)

    def _set(self, table: dict[str, T], gang_id: str, value: T) -> None:
        before = table.get(gang_id)
        self.cells.journal.note(_put_back, table, gang_id, before)
        _put_back(table, gang_id, value or None)


def spots_of(gang: Gang, tasks: Iterable[HeldTask]) -> Spots:
    """The places of tasks with GPUs, by group."""
    labels = {
        gang.members[position].role: label
        for label, positions in parts_of(gang).items()
        for position in positions
    }
    spots: Spots = {}
    for task in tasks:
        if task.gpu_uuids:
            label = labels.get(task.role) or next(iter(labels.values()), "")
            spot = answer.Spot(0, task.node, task.gpu_uuids, task.cell_type)
            spots.setdefault(name_of(gang, label, task.index), []).append(spot)
    return spots


def _is_at(group: Group | None, spots: Sequence[answer.Spot]) -> bool:
    if group is None:
        return False
    mine = sorted((seat.node, seat.indices) for seat in group.seats)
    return mine == sorted((spot.node, spot.devices) for spot in spots)


def _amount(task: HeldTask) -> Amount:
    return Amount(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))


def _put_back(table: dict[str, T], gang_id: str, value: T | None) -> None:
    if value is None:
        table.pop(gang_id, None)
    else:
        table[gang_id] = value
