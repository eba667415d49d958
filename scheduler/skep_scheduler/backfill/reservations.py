"""Reserved starts, and which gangs may start before them: backfill that delays no reservation.

The ends of running gangs are played through in a trial. A gang that never says how long it runs
never ends there: a start that depends on it cannot be reserved.

A reservation of an earlier plan is carried over to the next ones. When a gang ends early, an older
gang could often start sooner than reserved; it does so only if no reservation of a younger gang is
delayed by that. Only a gang of higher priority, or a starving one, may delay a reservation, and so
may events: a gang that ends late, a node that is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skep_scheduler.backfill.timeline import NEVER, Timeline
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.cells.shape import FREE
from skep_scheduler.cells.tree import Virtual
from skep_scheduler.model import Code, Gang, Options, Placement, TaskAllocation
from skep_scheduler.placement.base import Found
from skep_scheduler.placement.cells_placer import find, meets_maintenance
from skep_scheduler.policies.base import Decision
from skep_scheduler.policies.ordered import ordered
from skep_scheduler.state import ClusterState, owner_of
from skep_scheduler.state.cluster import held
from skep_scheduler.state.node_resources import NOTHING, Resources
from skep_scheduler.state.request_classes import Kind, Request

# Refusals that may come from what gangs of other virtual clusters use.
SHARED = {Code.CPU_BUSY, Code.MEMORY_BUSY, Code.BAD_HARDWARE}


@dataclass(frozen=True, slots=True)
class Reservation:
    """The gang starts at `start` at the latest, and needs no more than `cells` of its VC then."""

    gang: Gang
    kind: Kind
    start: float
    found: Found = field(default_factory=Found, compare=False)  # where, as things are
    cells: frozenset[Virtual] = frozenset()

    @property
    def tasks(self) -> tuple[TaskAllocation, ...]:
        return held(self.gang, Placement(self.gang.id, tuple(task for _, task in self.found.tasks)))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.node for task in self.tasks))

    @property
    def end(self) -> float:
        return _end(self.gang, self.start)


class _DowngradedError(Exception):
    """The virtual cluster cannot account for a gang at these places."""


@dataclass(slots=True)
class VcReservations:
    """The reservations of one VC.

    starts: the reservations, sorted by start
    closed_by: starving gangs, behind which no gang starts on what they could use
    behind: by request and pinned cell, how many of them were compared, and the first that is in the
        way
    carried_over: ids of the gangs whose reservation is from an earlier plan and was not renewed yet
    unverified: it is not known yet whether the carried over ones can still be kept
    """

    starts: list[Reservation] = field(default_factory=list)
    closed_by: list[Gang] = field(default_factory=list)
    behind: dict[tuple[Request, str | None], tuple[int, Gang | None]] = field(default_factory=dict)
    carried_over: set[str] = field(default_factory=set)
    unverified: bool = False

    def of(self, gang: Gang) -> Reservation | None:
        return next((p for p in self.starts if p.gang.id == gang.id), None)

    def set(self, reservations: Sequence[Reservation]) -> None:
        self.starts = _by_start(reservations)
        self.carried_over &= {p.gang.id for p in reservations}


class Reservations:
    """The reservations of all virtual clusters during one plan."""

    def __init__(
        self,
        state: ClusterState,
        now: float,
        options: Options,
        more: Mapping[str, int],
        decision_of: Callable[[str], Decision],
    ) -> None:
        """`more`: VCs that get more reservations than the options say, if it is more.
        `decision_of`: the order of each VC."""
        self._decision_of = decision_of
        self._state, self._now, self._options, self._more = state, now, options, more
        self._vcs: dict[str, VcReservations] = {}
        self._ends: dict[str, list[tuple[float, str]]] = {}
        self.met_shortage: set[str] = set()  # VCs whose reservations depend on what others use
        self._started: list[tuple[str, float, str]] = []
        self._rechecks = options.rechecks
        self.withdrawn: set[str] = set()

    def vcs(self) -> list[VcReservations]:
        return [self.of_vc(vc) for vc in list(self._vcs)]

    def of_vc(self, vc: str) -> VcReservations:
        reserved = self._vcs.get(vc)
        if reserved is None:
            reserved = self._vcs[vc] = self._recall(vc)
        if reserved.unverified:
            reserved.unverified = False
            sure = [p for p in reserved.starts if p.gang.id not in reserved.carried_over]
            carried_over = [p for p in reserved.starts if p.gang.id in reserved.carried_over]
            reserved.set(self._those_that_hold(vc, sure, carried_over))
        return reserved

    def note_start(self, gang: Gang, at: float) -> None:
        """It starts (or will have started) at `at`."""
        self.withdraw(gang)
        end = _end(gang, at)
        if not gang.opportunistic and end < NEVER:
            self._started.append((gang.vc, end, gang.id))

    def withdraw(self, gang: Gang) -> None:
        """Drop the reservation of a gang, if it has one."""
        if gang.id in self._state.reservations:
            self.withdrawn.add(gang.id)
            reserved = self._vcs.get(gang.vc)
            if reserved is not None:
                reserved.set([p for p in reserved.starts if p.gang.id != gang.id])

    def close(self, gang: Gang) -> None:
        """Let no gang behind this one start on what it could use."""
        self.of_vc(gang.vc).closed_by.append(gang)

    def could_ever_start(self, gang: Gang, kind: Kind) -> bool:
        """Return whether the gang could start if nothing else ran in its VC, on the hardware as it
        is now. Another gang that runs there with the same request shows that it could."""
        allocations, state = self._state.allocations, self._state
        for gang_id in state.running_of[gang.vc]:
            other = state.running[gang_id].gang
            if state.kind_of(other).request == kind.request and self._is_sound(gang_id):
                return True
        users = {
            owner_of(group)
            for group in allocations.cells.groups_of[gang.vc].values()
            if not group.opportunistic
        }
        # The largest first: a place is mostly found long before all are released.
        held = {
            name: sum(len(t.gpu_uuids) for t in allocations.tasks.get(name, ())) for name in users
        }
        mine = sorted(users, key=lambda name: (-held[name], name))
        done, more = 0, 1
        with allocations.trial():
            while done < len(mine):
                for gang_id in mine[done : done + more]:
                    allocations.release(gang_id)
                done, more = done + more, more * 4
                if isinstance(find(state, gang, kind, 1), Found):
                    return True
            return not mine and isinstance(find(state, gang, kind, 1), Found)

    def _is_sound(self, gang_id: str) -> bool:
        """Return whether a gang runs guaranteed, on GPUs and nodes that are all in order."""
        nodes = self._state.allocations.resources.nodes
        groups = list(self._state.allocations.groups_of(gang_id))
        return (
            bool(groups)
            and self._state.is_guaranteed(gang_id)
            and not any(leaf.bad for group in groups for leaf, _ in group.pairs())
            and all(nodes[node].open for node in self._state.allocations.nodes_of(gang_id))
        )

    def closed_by(self, gang: Gang, kind: Kind) -> Gang | None:
        """Return the starving gang behind which this one may not start, or None."""
        reserved = self._vcs.get(gang.vc)
        if reserved is None or not reserved.closed_by or gang.opportunistic or not kind.parts:
            return None
        asked = kind.request, gang.pin
        seen, first = reserved.behind.get(asked, (0, None))
        if first is None and seen < len(reserved.closed_by):
            starving = (s for s in reserved.closed_by[seen:] if s.pin == gang.pin)
            first = next((s for s in starving if self._share_cells(s, kind)), None)
            reserved.behind[asked] = len(reserved.closed_by), first
        return first

    def reserve(self, gang: Gang, kind: Kind) -> Reservation | None:
        """Reserve the earliest start that delays no other reservation. Return None if there is no
        such start, or the VC has reservations enough."""
        reserved = self.of_vc(gang.vc)
        own, full = reserved.of(gang), self.is_full(gang.vc)
        reserved.carried_over.discard(gang.id)
        if full:
            return own
        others, lesser = self._binding(gang, reserved)
        found = self._earliest(gang, kind, others, own.start if own is not None else NEVER)
        if found is None:
            return own
        reserved.set([*found, *lesser])
        reserved.unverified = bool(lesser)
        return reserved.of(gang)

    def is_full(self, vc: str) -> bool:
        """Return whether no further gang of a VC gets a reservation."""
        reserved = self.of_vc(vc)
        renewed = sum(p.gang.id not in reserved.carried_over for p in reserved.starts)
        return renewed >= max(self._options.reservations, self._more.get(vc, 0))

    def due(self, gang: Gang) -> Found | None:
        """Return the reserved places of a gang whose reserved start has come, if they can be had
        without delaying other reservations; else None."""
        if gang.opportunistic:
            return None
        reserved = self.of_vc(gang.vc)
        own = reserved.of(gang)
        if own is None or own.start > self._now or gang.avoids(self._now):
            return None
        if meets_maintenance(self._state, gang, own.found, self._now):
            return None
        others, lesser = self._binding(gang, reserved)
        reserved.unverified = bool(lesser)
        broken, kept = self._play_through(gang.vc, [own, *others])
        if broken is not None:
            return None
        reserved.set([*kept, *lesser])
        return kept[0].found

    def delayed_by(self, gang: Gang) -> Reservation | None:
        """Return the first reservation that would be delayed if `gang`, which is on its cells in a
        trial, ran from now on. A gang that ends in time, or uses other cells, delays none; for up
        to `options.rechecks` others, the VC is played through."""
        reserved = self.of_vc(gang.vc)
        others, lesser = self._binding(gang, reserved)
        reserved.unverified = bool(lesser)
        end, cells = _end(gang, self._now), self._cells_of(gang)
        doubtful = [p for p in others if end > p.start and not cells.isdisjoint(p.cells)]
        if not doubtful:
            return None
        if self._rechecks <= 0:
            return doubtful[0]
        self._rechecks -= 1
        broken, kept = self._play_through(gang.vc, others, gang)
        if broken is None:
            own = reserved.of(gang)
            reserved.set([*kept, *lesser, *([own] if own is not None else [])])
        return broken

    def _recall(self, vc: str) -> VcReservations:
        """Return the reservations of earlier plans for gangs that still wait, by rank."""
        waiting, reserved = self._state.waiting, self._state.reservations
        gone = self._state.nominated.keys() | self.withdrawn
        gangs = [
            waiting[gang_id]
            for gang_id in reserved
            if gang_id in waiting and waiting[gang_id].vc == vc and gang_id not in gone
        ]
        carried_over = []
        for gang in ordered(gangs, self._decision_of(vc)):
            known, kind = reserved[gang.id], self._state.kind_of(gang)
            found = Found(list(known.tasks))
            carried_over.append(Reservation(gang, kind, max(known.start, self._now), found))
        return VcReservations(
            carried_over, carried_over={gang.id for gang in gangs}, unverified=bool(carried_over)
        )

    def _those_that_hold(
        self, vc: str, sure: Sequence[Reservation], carried_over: Sequence[Reservation]
    ) -> Sequence[Reservation]:
        """Return the sure reservations, and the carried over ones up to the first that cannot be
        kept: its gang starts later, but not behind those that come after it."""
        broken, kept = self._play_through(vc, [*sure, *carried_over])
        for reservation in carried_over if broken is not None else ():
            broken, kept = self._play_through(vc, [*sure, reservation])
            if broken is not None:
                return sure
            sure = kept
        return kept

    def _binding(
        self, gang: Gang, reserved: VcReservations
    ) -> tuple[list[Reservation], list[Reservation]]:
        """Return the reservations of other gangs that this one must not delay, and the carried over
        ones of gangs that it outranks."""
        others = [p for p in reserved.starts if p.gang.id != gang.id]
        outranks = self._decision_of(gang.vc).outranks
        lesser = [
            p for p in others if p.gang.id in reserved.carried_over and outranks(gang, p.gang)
        ]
        return [p for p in others if p not in lesser], lesser

    def _earliest(
        self, gang: Gang, kind: Kind, others: Sequence[Reservation], before: float
    ) -> list[Reservation] | None:
        """Return all reservations with the earliest new one for `gang`. Whether the others can be
        kept is tried exactly as later plans will try it."""
        clock, later, done = Timeline(self._state, self._ends_of(gang.vc)), list(others), []
        with self._state.allocations.trial():
            for _ in range(self._options.reservation_tries):
                time = min(clock.next(), later[0].start if later else NEVER)
                if time >= before:
                    return None
                clock.go_to(time)
                clock.release_all()
                while later and later[0].start <= time:
                    first = later.pop(0)
                    done.append(self._keeps(first, clock) or first)
                reservation = self._start(gang, kind, time)
                kept = self._beside(reservation, later, clock) if reservation is not None else None
                if kept is not None:
                    return [*done, *kept]
        return None

    def _beside(
        self, reservation: Reservation, later: Sequence[Reservation], clock: Timeline
    ) -> list[Reservation] | None:
        """Return the reservation and those that start later, if they hold beside it."""
        kept = [reservation]
        with self._state.allocations.trial():
            self._put(reservation)
            clock = clock.copy()
            clock.add(reservation.end, reservation.gang.id)
            for other in later:
                again = self._keeps(other, clock, reservation.gang.id)
                if again is None:
                    return None
                kept.append(again)
        return kept

    def _play_through(
        self, vc: str, reservations: Sequence[Reservation], candidate: Gang | None = None
    ) -> tuple[Reservation | None, list[Reservation]]:
        """Return the first reservation that cannot be kept (if the candidate runs from now on), and
        those before it with the cells that they use."""
        kept: list[Reservation] = []
        with self._state.allocations.trial():
            clock = Timeline(self._state, self._ends_of(vc))
            if candidate is not None:
                clock.add(_end(candidate, self._now), candidate.id)
            for reservation in _by_start(reservations):
                spare = candidate.id if candidate is not None else None
                again = self._keeps(reservation, clock, spare)
                if again is None:
                    return reservation, kept
                kept.append(again)
        return None, kept

    def _keeps(
        self, reservation: Reservation, clock: Timeline, spare: str | None = None
    ) -> Reservation | None:
        """The reservation as it is kept at its start, without anything taken from `spare`."""
        clock.go_to(reservation.start)
        clock.release_on({task.node for _, task in reservation.found.tasks})
        again = self._put_again(reservation)
        if again is None:
            clock.release_all()
            again = self._put_again(reservation)
        if again is None:
            again = self._start(reservation.gang, reservation.kind, reservation.start, spare)
            if again is not None:
                self._put(again)
        if again is not None:
            clock.add(again.end, reservation.gang.id)
        return again

    def _put_again(self, reservation: Reservation) -> Reservation | None:
        """Put the gang where it was, if all of that is free: a search might find other places each
        time, and there perhaps in the way of other gangs."""
        found, allocations = reservation.found, self._state.allocations
        if not found.tasks or found.victims or found.cancels or found.downgrades:
            return None
        if not self._is_free(reservation.tasks):
            return None
        try:
            with allocations.transaction():
                self._put(reservation)
                if allocations.is_downgraded(reservation.gang.id):
                    raise _DowngradedError
        except _DowngradedError:
            return None
        return replace(reservation, cells=self._cells_of(reservation.gang))

    def _is_free(self, tasks: Sequence[TaskAllocation]) -> bool:
        cells = self._state.allocations.cells
        nodes = self._state.allocations.resources.nodes
        leaves = [cells.leaves.get((t.node, uuid)) for t in tasks for uuid in t.gpu_uuids]
        if any(leaf is None or leaf.priority != FREE or leaf.bad for leaf in leaves):
            return False
        needs = _needs(tasks)
        return all(
            node in nodes and nodes[node].open and nodes[node].free.covers(need)
            for node, need in needs.items()
        )

    def _start(
        self, gang: Gang, kind: Kind, time: float, spare: str | None = None
    ) -> Reservation | None:
        """Find a start as of now in the trial. It may preempt whom it may always, but not `spare`;
        what would be overcommitted cannot be reserved."""
        found = find(self._state, gang, kind, 1)
        if isinstance(found, Refusal) and found.code in SHARED:
            self.met_shortage.add(gang.vc)
        if not isinstance(found, Found) or spare in found.victims or found.overcommitters:
            return None
        reservation = Reservation(gang, kind, time, found)
        if self._overcommits(reservation.tasks):
            return None
        with self._state.allocations.trial():
            self._put(reservation)
            return replace(reservation, cells=self._cells_of(gang))

    def _put(self, reservation: Reservation) -> None:
        for gang_id in (*reservation.found.victims, *reservation.found.cancels):
            self._state.allocations.release(gang_id)
        self._state.allocations.put(reservation.gang, reservation.tasks)

    def _cells_of(self, gang: Gang) -> frozenset[Virtual]:
        return frozenset(
            cell
            for group in self._state.allocations.groups_of(gang.id)
            for slot in group.slots
            for cell in slot.virtual
            if cell is not None
        )

    def _overcommits(self, tasks: Sequence[TaskAllocation]) -> bool:
        nodes = self._state.allocations.resources.nodes
        return any(
            not nodes[node].fair_share(need.gpus).covers(need)
            for node, need in _needs(tasks).items()
        )

    def _share_cells(self, first: Gang, kind: Kind) -> bool:
        mine = {asked.leaf_type for part in kind.parts for asked in part.asked}
        parts = self._state.kind_of(first).parts
        others = {asked.leaf_type for part in parts for asked in part.asked}
        return None in mine or None in others or not mine.isdisjoint(others)

    def _ends_of(self, vc: str) -> list[tuple[float, str]]:
        if vc not in self._ends:
            self._ends[vc] = list(self._known_ends(vc))
        return self._ends[vc] + [(end, gang_id) for v, end, gang_id in self._started if v == vc]

    def _known_ends(self, vc: str) -> Iterator[tuple[float, str]]:
        """Whose time is just over is cleaned up yet: what was reserved for after it is not given to
        others meanwhile."""
        leaves = self._now + self._options.leave_s
        for gang_id in self._state.running_of[vc]:
            allocation = self._state.running[gang_id]
            gang = allocation.gang
            end = leaves if allocation.leaving else _end(gang, allocation.placed_at)
            if end <= self._now:
                end += self._options.leave_s
            if not gang.opportunistic and self._now < end < NEVER:
                yield end, gang_id
        for gang_id, nomination in self._state.nominated.items():
            if nomination.gang.vc == vc:
                yield _end(nomination.gang, leaves), gang_id


def _by_start(reservations: Sequence[Reservation]) -> list[Reservation]:
    return sorted(reservations, key=lambda reservation: reservation.start)


def _needs(tasks: Sequence[TaskAllocation]) -> dict[str, Resources]:
    """Return what the tasks need, by node."""
    needs: dict[str, Resources] = {}
    for task in tasks:
        amount = Resources(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))
        needs[task.node] = needs.get(task.node, NOTHING).plus(amount)
    return needs


def _end(gang: Gang, start: float) -> float:
    return NEVER if gang.duration_s is None else start + gang.duration_s
