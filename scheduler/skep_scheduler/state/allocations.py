"""Which gang holds which cells and how much CPU and memory. Every change can be tried and
undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from skep_scheduler.cells import ledger
from skep_scheduler.cells.answer import CellPlacement, CellTaskPlacement
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Group
from skep_scheduler.model import Gang, TaskAllocation
from skep_scheduler.state.node_resources import ClusterResources, Resources
from skep_scheduler.state.request_classes import name_of, owner_of, parts_of, sub_gang_of

PlacementsByGroup = dict[str, list[CellTaskPlacement]]  # by the name of the group
T = TypeVar("T")
NO_CELLS = Config({}, (), {})
Account = tuple[str, str]  # a virtual cluster and an owner
NOTHING_HELD: dict[str, int] = {}


class Users:
    """The gangs that use cells of one virtual cluster. `gpus` has how many, by chain and gang."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.gpus: dict[str, Counter[str]] = {}
        self._ranked: dict[tuple[str, ...], list[tuple[str, int]]] = {}
        for group in groups:
            if group.opportunistic:
                continue
            owner = owner_of(group)
            for slot in group.slots:
                # A task lies in one chain: that of any of its leaves.
                if leaves := [leaf for leaf in slot.leaves if leaf is not None]:
                    chain = leaves[0].shape.chain
                    if chain not in self.gpus:
                        self.gpus[chain] = Counter()
                    self.gpus[chain][owner] += len(leaves)

    def ranked(self, chains: tuple[str, ...]) -> list[tuple[str, int]]:
        """Return the gangs in these chains and their numbers of GPUs, those with the most first."""
        if chains not in self._ranked:
            gpus: Counter[str] = Counter()
            for chain in chains:
                gpus.update(self.gpus.get(chain, {}))
            self._ranked[chains] = sorted(gpus.items(), key=lambda use: (-use[1], use[0]))
        return self._ranked[chains]


class Held(NamedTuple):
    """What an owner has: GPUs in all, and by gang."""

    gpus: int
    gangs: Mapping[str, int]


class Allocations:
    """By gang: the names of its groups in the cells, and all places that it has.

    accounts: by virtual cluster and owner, the GPUs of each gang that has places, reserved ones
        too
    oversubscribed: gangs that once ran where another one ran, too; see `reconcile`.
    """

    def __init__(self) -> None:
        self.cells = CellState(NO_CELLS)
        self.resources = ClusterResources(self.cells.journal)
        self.groups: dict[str, tuple[str, ...]] = {}
        self.tasks: dict[str, tuple[TaskAllocation, ...]] = {}
        self.accounts: dict[Account, dict[str, int]] = {}
        self._account_of: dict[str, Account] = {}  # by gang
        self._gpus_of: dict[Account, int] = {}
        self._oversubscribed: set[str] = set()
        self._users: dict[str, tuple[int, Users]] = {}

    def use(self, cells: CellState) -> None:
        """Use new cells, with all that runs accounted in them."""
        self.cells = cells
        self.resources.journal = cells.journal
        self._users.clear()

    def trial(self) -> AbstractContextManager[None]:
        return self.cells.journal.trial()

    def transaction(self) -> AbstractContextManager[None]:
        return self.cells.journal.transaction()

    def put(
        self, gang: Gang, tasks: Sequence[TaskAllocation], downgraded_by: str | None = None
    ) -> None:
        """The gang runs at exactly these places; what has not changed is left alone."""
        placements = placements_of(gang, tasks)
        for name in self.groups.get(gang.id, ()):
            if name not in placements or not _is_at(self.cells.groups.get(name), placements[name]):
                ledger.release(self.cells, name)
        for name, some in placements.items():
            sub_gang = sub_gang_of(gang, name)
            self._note_others(name)
            ledger.adopt(self.cells, sub_gang, self._chain(some), some, downgraded_by)
            self._oversubscribed.add(gang.id)
        self._note(gang.id, tuple(placements), tuple(tasks), (gang.vc, gang.owner))

    def reserve(self, gang: Gang, tasks: Sequence[TaskAllocation]) -> bool:
        """Reserve all of it, or no cells where they do not fit any more; CPU and memory in any
        case."""
        placements, done = placements_of(gang, tasks), []
        for name, some in placements.items():
            placement = CellPlacement(name, self._chain(some), tuple(some))
            if ledger.reserve(self.cells, sub_gang_of(gang, name), placement) is None:
                break
            done.append(name)
        else:
            self._note(gang.id, tuple(placements), tuple(tasks), (gang.vc, gang.owner))
            return True
        for name in done:
            ledger.cancel(self.cells, name)
        self._note(gang.id, (), tuple(tasks), (gang.vc, gang.owner))
        return False

    def release(self, gang_id: str) -> None:
        """It holds nothing any more; a preemptor gives back what it has reserved."""
        self.release_all([gang_id])

    def release_all(self, gang_ids: Sequence[str]) -> None:
        """Release what each of these gangs holds."""
        names = [name for gang_id in gang_ids for name in self.groups.get(gang_id, ())]
        ledger.release_all(self.cells, names)
        for gang_id in gang_ids:
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

    def oversubscribed(self) -> set[str]:
        """Gangs with devices that the cells have, but do not account to them."""
        self._oversubscribed = {
            gang_id for gang_id in self._oversubscribed if self._is_oversubscribed(gang_id)
        }
        return set(self._oversubscribed)

    def _is_oversubscribed(self, gang_id: str) -> bool:
        return any(
            leaf is None and (slot.node, index) in self.cells.leaves
            for group in self.groups_of(gang_id)
            for slot in group.slots
            for index, leaf in zip(slot.indices, slot.leaves, strict=True)
        )

    def _note_others(self, name: str) -> None:
        """Take the devices from any group that still runs where a preemptor starts."""
        group = self.cells.groups.get(name)
        if group is not None and group.preempting:
            users = {leaf.user for leaf, _ in group.pairs() if leaf.user is not None}
            self._oversubscribed |= {owner_of(user) for user in users}

    def users(self, vc: str) -> Users:
        """Return who uses the cells of a virtual cluster now, reserved ones too. It is counted
        again only after a change."""
        revision, known = self.cells.revisions[vc], self._users.get(vc)
        if known is None or known[0] != revision:
            known = self._users[vc] = revision, Users(self.cells.groups_of[vc].values())
        return known[1]

    def held_by(self, vc: str, owner: str) -> Held:
        """Return what the gangs of an owner have in a virtual cluster now. It is kept with every
        change, so that asking costs the same however many there are."""
        account = vc, owner
        return Held(self._gpus_of.get(account, 0), self.accounts.get(account, NOTHING_HELD))

    def nodes_of(self, gang_id: str) -> set[str]:
        return {task.node for task in self.tasks.get(gang_id, ())}

    def _chain(self, placements: Sequence[CellTaskPlacement]) -> str:
        leaf = self.cells.leaves.get((placements[0].node, placements[0].devices[0]))
        return leaf.shape.chain if leaf is not None else ""

    def _note(
        self,
        gang_id: str,
        groups: tuple[str, ...],
        tasks: tuple[TaskAllocation, ...],
        account: Account | None = None,
    ) -> None:
        for task in self.tasks.get(gang_id, ()):
            self.resources.give(task.node, gang_id, _amount(task))
        for task in tasks:
            self.resources.take(task.node, gang_id, _amount(task))
        self._charge(gang_id, account, sum(len(task.gpu_uuids) for task in tasks) if tasks else -1)
        self._set(self.groups, gang_id, groups)
        self._set(self.tasks, gang_id, tasks)

    def _charge(self, gang_id: str, account: Account | None, gpus: int) -> None:
        """The gang has so many GPUs on an account now; fewer than none: no places at all."""
        before = self._account_of.get(gang_id)
        held = self.accounts[before][gang_id] if before is not None else -1
        account = account if gpus >= 0 else None
        if (before, held) != (account, gpus):
            self.cells.journal.note(self._book, gang_id, before, held)
            self._book(gang_id, account, gpus)

    def _book(self, gang_id: str, account: Account | None, gpus: int) -> None:
        before = self._account_of.pop(gang_id, None)
        if before is not None:
            self._gpus_of[before] -= self.accounts[before].pop(gang_id)
            if not self.accounts[before]:
                del self.accounts[before], self._gpus_of[before]
        if account is not None:
            self._account_of[gang_id] = account
            self.accounts.setdefault(account, {})[gang_id] = gpus
            self._gpus_of[account] = self._gpus_of.get(account, 0) + gpus

    def _set(self, table: dict[str, T], gang_id: str, value: T) -> None:
        before = table.get(gang_id)
        self.cells.journal.note(_put_back, table, gang_id, before)
        _put_back(table, gang_id, value or None)


def placements_of(gang: Gang, tasks: Iterable[TaskAllocation]) -> PlacementsByGroup:
    """Return the places of tasks with GPUs, by group."""
    labels = {
        gang.members[position].role: label
        for label, positions in parts_of(gang).items()
        for position in positions
    }
    placements: PlacementsByGroup = {}
    for task in tasks:
        if task.gpu_uuids:
            label = labels.get(task.role) or next(iter(labels.values()), "")
            placed = CellTaskPlacement(0, task.node, task.gpu_uuids, task.cell_type)
            placements.setdefault(name_of(gang, label, task.index), []).append(placed)
    return placements


def _is_at(group: Group | None, placements: Sequence[CellTaskPlacement]) -> bool:
    if group is None:
        return False
    mine = sorted((slot.node, slot.indices) for slot in group.slots)
    return mine == sorted((placed.node, placed.devices) for placed in placements)


def _amount(task: TaskAllocation) -> Resources:
    return Resources(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))


def _put_back(table: dict[str, T], gang_id: str, value: T | None) -> None:
    if value is None:
        table.pop(gang_id, None)
    else:
        table[gang_id] = value
