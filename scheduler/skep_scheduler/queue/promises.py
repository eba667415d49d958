"""Promised starts, and what may start before them: backfill that delays nobody.

The ends of running gangs are played through in a trial. A gang that never says how long it runs
never ends there: what depends on it cannot be promised, and holds nobody back.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skep_scheduler.answer import Placement
from skep_scheduler.cells.tree import Virtual
from skep_scheduler.facts import Gang, HeldTask
from skep_scheduler.queue.find import Found, find
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World, owner_of
from skep_scheduler.world.request import Kind
from skep_scheduler.world.room import NOTHING, Amount
from skep_scheduler.world.world import held

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Promise:
    """The gang starts at `start` at the latest, and needs no more than `cells` of its VC then."""

    gang: Gang
    kind: Kind
    start: float
    tasks: tuple[HeldTask, ...]
    gone: tuple[str, ...]  # who is preempted for it
    cells: frozenset[Virtual] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.node for task in self.tasks))

    @property
    def end(self) -> float:
        return _end(self.gang, self.start)


@dataclass(slots=True)
class Line:
    """The promises of one VC by start, and who holds it closed because it starves."""

    promises: list[Promise] = field(default_factory=list)
    closed_by: list[Gang] = field(default_factory=list)


class Promises:
    """`ends` has the gangs of each VC that run (or start in this tick) and say how long."""

    def __init__(
        self, world: World, now: float, settings: Settings, more: Mapping[str, int]
    ) -> None:
        """`more`: VCs that get more promises than the settings say, if it is more."""
        self._world, self._now, self._settings, self._more = world, now, settings, more
        self._lines: defaultdict[str, Line] = defaultdict(Line)
        self._ends: defaultdict[str, list[tuple[float, str]]] | None = None
        self._started: list[tuple[str, float, str]] = []
        self._rechecks = settings.rechecks

    def line(self, vc: str) -> Line | None:
        return self._lines.get(vc)

    def note_start(self, gang: Gang, at: float) -> None:
        """It starts (or will have started) at `at`."""
        end = _end(gang, at)
        if not gang.opportunistic and end < NEVER:
            self._started.append((gang.vc, end, gang.id))

    def close(self, gang: Gang, kind: Kind) -> None:
        """Nobody behind a starving gang starts on what it could use."""
        self._lines[gang.vc].closed_by.append(gang)

    def could_ever_start(self, gang: Gang, kind: Kind) -> bool:
        """If nothing else ran in its VC, on the hardware as it is now."""
        holds = self._world.holds
        mine = {
            owner_of(group)
            for group in holds.cells.groups.values()
            if group.gang.vc == gang.vc and not group.opportunistic
        }
        with holds.trial():
            for gang_id in mine:
                holds.release(gang_id)
            return isinstance(find(self._world, gang, kind, 1), Found)

    def closed_by(self, gang: Gang, kind: Kind) -> Gang | None:
        """Who holds the line before a gang."""
        line = self._lines.get(gang.vc)
        if line is None or gang.opportunistic or not kind.parts:
            return None
        starving = (first for first in line.closed_by if first.pin == gang.pin)
        return next((s for s in starving if self._share_cells(s, kind)), None)

    def promise(self, gang: Gang, kind: Kind) -> Promise | None:
        """The earliest start that can be promised; None if there is none, or promises enough."""
        line = self._lines[gang.vc]
        if len(line.promises) >= max(self._settings.promises, self._more.get(gang.vc, 0)):
            return None
        found = self._earliest(gang, kind, line)
        if found is not None:
            line.promises = sorted([*line.promises, found], key=lambda promise: promise.start)
        return found

    def delayed_by(self, gang: Gang) -> Promise | None:
        """The promise that does not hold any more with `gang` running from now on, if it was put
        on the cells for a try. A gang that ends in time, or that uses other cells, delays nobody;
        of the rest, some are tried out."""
        line = self._lines.get(gang.vc)
        if line is None or not line.promises or gang.opportunistic:
            return None
        end, cells = _end(gang, self._now), self._cells_of(gang)
        doubtful = [p for p in line.promises if end > p.start and not cells.isdisjoint(p.cells)]
        if not doubtful:
            return None
        if self._rechecks <= 0:
            return doubtful[0]
        self._rechecks -= 1
        broken, promises = self._play_through(gang, line)
        if broken is None:
            line.promises = promises
        return broken

    def _earliest(self, gang: Gang, kind: Kind, line: Line) -> Promise | None:
        """Whether the others hold is tried just as it will be when the time comes: a gang that was
        promised too late a start would start before it, at the cost of those promised after it."""
        with self._world.holds.trial():
            clock, later = _Clock(self._world, self._ends_of(gang.vc)), list(line.promises)
            for _ in range(self._settings.promise_tries):
                time = clock.next()
                if time == NEVER:
                    return None
                while later and later[0].start <= time:
                    first = later.pop(0)
                    clock.go_to(first.start)
                    self._replay(first, clock)
                clock.go_to(time)
                promise = self._start(gang, kind, time)
                if promise is not None and self._fits_before(promise, later, clock):
                    return promise
        return None

    def _fits_before(self, promise: Promise, later: Sequence[Promise], clock: _Clock) -> bool:
        """Whether the promises that start later hold beside it."""
        if not _collides(promise, later):
            return True
        with self._world.holds.trial():
            self._put(promise)
            clock = clock.copy()
            clock.add(promise.end, promise.gang.id)
            return all(self._keeps(other, clock, promise.gang.id) is not None for other in later)

    def _play_through(self, candidate: Gang, line: Line) -> tuple[Promise | None, list[Promise]]:
        """Whether all promises hold with the candidate; if so, with the cells that they use."""
        kept: list[Promise] = []
        with self._world.holds.trial():
            clock = _Clock(self._world, self._ends_of(candidate.vc))
            clock.add(_end(candidate, self._now), candidate.id)
            for promise in line.promises:
                again = self._keeps(promise, clock, candidate.id)
                if again is None:
                    return promise, line.promises
                kept.append(again)
        return None, kept

    def _keeps(self, promise: Promise, clock: _Clock, spare: str) -> Promise | None:
        """The promise as it is kept at its start, without anything taken from `spare`."""
        clock.go_to(promise.start)
        again = self._start(promise.gang, promise.kind, promise.start, spare)
        if again is not None:
            self._put(again)
            clock.add(again.end, promise.gang.id)
        return again

    def _replay(self, promise: Promise, clock: _Clock) -> None:
        again = self._start(promise.gang, promise.kind, promise.start)
        if again is not None:
            self._put(again)
        clock.add(promise.end, promise.gang.id)

    def _start(
        self, gang: Gang, kind: Kind, time: float, spare: str | None = None
    ) -> Promise | None:
        """As of now in the trial. It may preempt whom it may always, but not `spare`; what would
        be borrowed cannot be promised."""
        found = find(self._world, gang, kind, 1)
        if not isinstance(found, Found) or spare in found.victims or found.borrowers:
            return None
        tasks = held(gang, Placement(gang.id, tuple(task for _, task in found.tasks)))
        if self._borrows(tasks):
            return None
        promise = Promise(gang, kind, time, tasks, (*found.victims, *found.cancels))
        with self._world.holds.trial():
            self._put(promise)
            return replace(promise, cells=self._cells_of(gang))

    def _put(self, promise: Promise) -> None:
        for gang_id in promise.gone:
            self._world.holds.release(gang_id)
        self._world.holds.put(promise.gang, promise.tasks)

    def _cells_of(self, gang: Gang) -> frozenset[Virtual]:
        return frozenset(
            cell
            for group in self._world.holds.groups_of(gang.id)
            for seat in group.seats
            for cell in seat.virtual
            if cell is not None
        )

    def _borrows(self, tasks: Sequence[HeldTask]) -> bool:
        needs: dict[str, Amount] = {}
        for task in tasks:
            amount = Amount(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))
            needs[task.node] = needs.get(task.node, NOTHING).plus(amount)
        rooms = self._world.holds.room.nodes
        return any(not rooms[node].share(need.gpus).covers(need) for node, need in needs.items())

    def _share_cells(self, first: Gang, kind: Kind) -> bool:
        mine = {asked.leaf_type for part in kind.parts for asked in part.asked}
        parts = self._world.kind_of(first).parts
        others = {asked.leaf_type for part in parts for asked in part.asked}
        return None in mine or None in others or not mine.isdisjoint(others)

    def _ends_of(self, vc: str) -> list[tuple[float, str]]:
        if self._ends is None:
            self._ends = defaultdict(list)
            for gang_vc, end, gang_id in self._known_ends():
                self._ends[gang_vc].append((end, gang_id))
        return self._ends[vc] + [(end, gang_id) for v, end, gang_id in self._started if v == vc]

    def _known_ends(self) -> Iterator[tuple[str, float, str]]:
        leaves = self._now + self._settings.leave_s
        for gang_id, holding in self._world.running.items():
            gang = holding.gang
            end = leaves if holding.leaving else _end(gang, holding.placed_at)
            if not gang.opportunistic and self._now < end < NEVER:
                yield gang.vc, end, gang_id
        for gang_id, reserved in self._world.reserved.items():
            yield reserved.gang.vc, _end(reserved.gang, leaves), gang_id


class _Clock:
    """Lets gangs end in a trial."""

    def __init__(self, world: World, ends: list[tuple[float, str]]) -> None:
        self._world = world
        self._ends = [end for end in ends if end[0] < NEVER]
        heapq.heapify(self._ends)

    def copy(self) -> _Clock:
        return _Clock(self._world, self._ends)

    def add(self, end: float, gang_id: str) -> None:
        if end < NEVER:
            heapq.heappush(self._ends, (end, gang_id))

    def next(self) -> float:
        return self._ends[0][0] if self._ends else NEVER

    def go_to(self, time: float) -> None:
        while self._ends and self._ends[0][0] <= time:
            self._world.holds.release(heapq.heappop(self._ends)[1])


def _collides(promise: Promise, others: Sequence[Promise]) -> bool:
    """Whether it would run on cells that others, which start later, were promised."""
    return any(
        promise.start < other.start < promise.end and not promise.cells.isdisjoint(other.cells)
        for other in others
    )


def _end(gang: Gang, start: float) -> float:
    return NEVER if gang.duration_s is None else start + gang.duration_s
