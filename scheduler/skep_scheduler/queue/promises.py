"""Promised starts, and what may start before them: backfill that delays nobody.

The ends of running gangs are played through in a trial. A gang that never says how long it runs
never ends there: what depends on it cannot be promised, and holds nobody back.

What one plan promised, the next ones keep: gangs pack otherwise when one ends early or a small one
slips in, and even an older gang that could start sooner by that may not do so at the cost of a
younger one that was told its start. Only who outranks it (a higher priority, or starvation) may,
and what really happens: a gang that ends late, a node that is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skep_scheduler.answer import Placement
from skep_scheduler.cells.shape import FREE
from skep_scheduler.cells.tree import Virtual
from skep_scheduler.facts import Gang, HeldTask
from skep_scheduler.queue.clock import NEVER, Clock
from skep_scheduler.queue.find import Found, find
from skep_scheduler.queue.order import is_starving, ordered
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World, owner_of
from skep_scheduler.world.request import Kind
from skep_scheduler.world.room import NOTHING, Amount
from skep_scheduler.world.world import held


@dataclass(frozen=True, slots=True)
class Promise:
    """The gang starts at `start` at the latest, and needs no more than `cells` of its VC then."""

    gang: Gang
    kind: Kind
    start: float
    found: Found = field(default_factory=Found, compare=False)  # where, as things are
    cells: frozenset[Virtual] = frozenset()

    @property
    def tasks(self) -> tuple[HeldTask, ...]:
        return held(self.gang, Placement(self.gang.id, tuple(task for _, task in self.found.tasks)))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.node for task in self.tasks))

    @property
    def end(self) -> float:
        return _end(self.gang, self.start)


@dataclass(slots=True)
class Line:
    """The promises of one VC by start, and who holds it closed because it starves. `told`: the
    gangs that have theirs from an earlier plan, until it is their turn. `unsure`: whether these
    hold is still to be found out."""

    promises: list[Promise] = field(default_factory=list)
    closed_by: list[Gang] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    unsure: bool = False

    def of(self, gang: Gang) -> Promise | None:
        return next((p for p in self.promises if p.gang.id == gang.id), None)

    def set(self, promises: Sequence[Promise]) -> None:
        self.promises = _by_start(promises)
        self.told &= {p.gang.id for p in promises}


class Promises:
    """`ends` has the gangs of each VC that run (or start in this tick) and say how long."""

    def __init__(
        self, world: World, now: float, settings: Settings, more: Mapping[str, int]
    ) -> None:
        """`more`: VCs that get more promises than the settings say, if it is more."""
        self._world, self._now, self._settings, self._more = world, now, settings, more
        self._lines: dict[str, Line] = {}
        self._ends: defaultdict[str, list[tuple[float, str]]] | None = None
        self._started: list[tuple[str, float, str]] = []
        self._rechecks = settings.rechecks
        self._withdrawn: set[str] = set()

    def lines(self) -> list[Line]:
        return [self.line(vc) for vc in list(self._lines)]

    def line(self, vc: str) -> Line:
        line = self._lines.get(vc)
        if line is None:
            line = self._lines[vc] = self._recall(vc)
        if line.unsure:
            line.unsure = False
            sure = [p for p in line.promises if p.gang.id not in line.told]
            told = [p for p in line.promises if p.gang.id in line.told]
            line.set(self._those_that_hold(vc, sure, told))
        return line

    def note_start(self, gang: Gang, at: float) -> None:
        """It starts (or will have started) at `at`."""
        self.withdraw(gang)
        end = _end(gang, at)
        if not gang.opportunistic and end < NEVER:
            self._started.append((gang.vc, end, gang.id))

    def withdraw(self, gang: Gang) -> None:
        """It is promised nothing (any more)."""
        if gang.id in self._world.promised:
            self._withdrawn.add(gang.id)
            line = self._lines.get(gang.vc)
            if line is not None:
                line.set([p for p in line.promises if p.gang.id != gang.id])

    def close(self, gang: Gang, kind: Kind) -> None:
        """Nobody behind a starving gang starts on what it could use."""
        self.line(gang.vc).closed_by.append(gang)

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
        line = self.line(gang.vc)
        own, first = line.of(gang), sum(p.gang.id not in line.told for p in line.promises)
        line.told.discard(gang.id)
        if first >= max(self._settings.promises, self._more.get(gang.vc, 0)):
            return own
        others, lesser = self._binding(gang, line)
        found = self._earliest(gang, kind, others, own.start if own is not None else NEVER)
        if found is None:
            return own
        line.set([*found, *lesser])
        line.unsure = bool(lesser)
        return line.of(gang)

    def due(self, gang: Gang) -> Found | None:
        """Where a gang that was promised a start by now starts without delaying others. It might
        find another place by itself, as among equal nodes history decides."""
        line = self.line(gang.vc)
        own = line.of(gang)
        if own is None or own.start > self._now or gang.avoids(self._now):
            return None
        others, lesser = self._binding(gang, line)
        line.unsure = bool(lesser)
        broken, kept = self._play_through(gang.vc, [own, *others])
        if broken is not None:
            return None
        line.set([*kept, *lesser])
        return kept[0].found

    def delayed_by(self, gang: Gang) -> Promise | None:
        """The promise that does not hold any more with `gang` running from now on, if it was put
        on the cells for a try. A gang that ends in time, or that uses other cells, delays nobody;
        of the rest, some are tried out."""
        line = self.line(gang.vc)
        others, lesser = self._binding(gang, line)
        line.unsure = bool(lesser)
        end, cells = _end(gang, self._now), self._cells_of(gang)
        doubtful = [p for p in others if end > p.start and not cells.isdisjoint(p.cells)]
        if not doubtful:
            return None
        if self._rechecks <= 0:
            return doubtful[0]
        self._rechecks -= 1
        broken, kept = self._play_through(gang.vc, others, gang)
        if broken is None:
            own = line.of(gang)
            line.set([*kept, *lesser, *([own] if own is not None else [])])
        return broken

    def _recall(self, vc: str) -> Line:
        """What earlier plans promised to gangs that still wait, those of the highest rank first."""
        waiting, promised = self._world.waiting, self._world.promised
        ids = promised.keys() & waiting.keys() - self._world.reserved.keys() - self._withdrawn
        gangs = [waiting[gang_id] for gang_id in ids if waiting[gang_id].vc == vc]
        told = []
        for gang in ordered(gangs, self._now, self._settings):
            known, kind = promised[gang.id], self._world.kind_of(gang)
            found = Found(list(known.tasks))
            told.append(Promise(gang, kind, max(known.start, self._now), found))
        return Line(told, told={gang.id for gang in gangs}, unsure=bool(told))

    def _those_that_hold(
        self, vc: str, sure: Sequence[Promise], told: Sequence[Promise]
    ) -> Sequence[Promise]:
        """All that are sure, and those that were told up to the first gang whose does not hold: it
        starts later, but not behind those that come after it."""
        broken, kept = self._play_through(vc, [*sure, *told])
        for promise in told if broken is not None else ():
            broken, kept = self._play_through(vc, [*sure, promise])
            if broken is not None:
                return sure
            sure = kept
        return kept

    def _binding(self, gang: Gang, line: Line) -> tuple[list[Promise], list[Promise]]:
        """The promises to others that a gang must not delay, and those told to gangs that it
        outranks."""
        others = [p for p in line.promises if p.gang.id != gang.id]
        lesser = [p for p in others if p.gang.id in line.told and self._outranks(gang, p.gang)]
        return [p for p in others if p not in lesser], lesser

    def _outranks(self, gang: Gang, other: Gang) -> bool:
        """Who waits longer, or came first, does not."""
        starves = is_starving(gang, self._now, self._settings)
        other_starves = is_starving(other, self._now, self._settings)
        return (starves, gang.priority) > (other_starves, other.priority)

    def _earliest(
        self, gang: Gang, kind: Kind, others: Sequence[Promise], before: float
    ) -> list[Promise] | None:
        """All promises with the new one. Whether the others hold is tried just as it will be when
        the time comes: who was promised too late a start would start before that, at the cost of
        those promised after it."""
        clock, later, done = Clock(self._world, self._ends_of(gang.vc)), list(others), []
        with self._world.holds.trial():
            for _ in range(self._settings.promise_tries):
                time = min(clock.next(), later[0].start if later else NEVER)
                if time >= before:
                    return None
                clock.go_to(time)
                while later and later[0].start <= time:
                    first = later.pop(0)
                    done.append(self._keeps(first, clock) or first)
                promise = self._start(gang, kind, time)
                kept = self._beside(promise, later, clock) if promise is not None else None
                if kept is not None:
                    return [*done, *kept]
        return None

    def _beside(
        self, promise: Promise, later: Sequence[Promise], clock: Clock
    ) -> list[Promise] | None:
        """It and the promises that start later, if they hold beside it."""
        kept = [promise]
        with self._world.holds.trial():
            self._put(promise)
            clock = clock.copy()
            clock.add(promise.end, promise.gang.id)
            for other in later:
                again = self._keeps(other, clock, promise.gang.id)
                if again is None:
                    return None
                kept.append(again)
        return kept

    def _play_through(
        self, vc: str, promises: Sequence[Promise], candidate: Gang | None = None
    ) -> tuple[Promise | None, list[Promise]]:
        """The first promise that does not hold (with the candidate running from now on), and those
        before it with the cells that they use."""
        kept: list[Promise] = []
        with self._world.holds.trial():
            clock = Clock(self._world, self._ends_of(vc))
            if candidate is not None:
                clock.add(_end(candidate, self._now), candidate.id)
            for promise in _by_start(promises):
                spare = candidate.id if candidate is not None else None
                again = self._keeps(promise, clock, spare)
                if again is None:
                    return promise, kept
                kept.append(again)
        return None, kept

    def _keeps(self, promise: Promise, clock: Clock, spare: str | None = None) -> Promise | None:
        """The promise as it is kept at its start, without anything taken from `spare`."""
        clock.go_to(promise.start)
        again = self._again(promise)
        if again is None:
            again = self._start(promise.gang, promise.kind, promise.start, spare)
        if again is not None:
            self._put(again)
            clock.add(again.end, promise.gang.id)
        return again

    def _again(self, promise: Promise) -> Promise | None:
        """Where it was, if all of that is free: among equal nodes history decides where a gang
        goes, so it might go elsewhere each time, and there perhaps into the way of others."""
        found, holds = promise.found, self._world.holds
        if not found.tasks or found.victims or found.cancels or found.downgrades:
            return None
        if not self._is_free(promise.tasks):
            return None
        with holds.trial():
            self._put(promise)
            if holds.is_downgraded(promise.gang.id):
                return None
            return replace(promise, cells=self._cells_of(promise.gang))

    def _is_free(self, tasks: Sequence[HeldTask]) -> bool:
        cells, rooms = self._world.holds.cells, self._world.holds.room.nodes
        leaves = [cells.leaves.get((t.node, uuid)) for t in tasks for uuid in t.gpu_uuids]
        if any(leaf is None or leaf.priority != FREE or leaf.bad for leaf in leaves):
            return False
        needs = _needs(tasks)
        return all(
            node in rooms and rooms[node].open and rooms[node].free.covers(need)
            for node, need in needs.items()
        )

    def _start(
        self, gang: Gang, kind: Kind, time: float, spare: str | None = None
    ) -> Promise | None:
        """As of now in the trial. It may preempt whom it may always, but not `spare`; what would
        be borrowed cannot be promised."""
        found = find(self._world, gang, kind, 1)
        if not isinstance(found, Found) or spare in found.victims or found.borrowers:
            return None
        promise = Promise(gang, kind, time, found)
        if self._borrows(promise.tasks):
            return None
        with self._world.holds.trial():
            self._put(promise)
            return replace(promise, cells=self._cells_of(gang))

    def _put(self, promise: Promise) -> None:
        for gang_id in (*promise.found.victims, *promise.found.cancels):
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
        rooms = self._world.holds.room.nodes
        return any(
            not rooms[node].share(need.gpus).covers(need) for node, need in _needs(tasks).items()
        )

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
        """Whose time is just over is cleaned up yet: what was promised for after it is not given to
        others meanwhile."""
        leaves = self._now + self._settings.leave_s
        for gang_id, holding in self._world.running.items():
            gang = holding.gang
            end = leaves if holding.leaving else _end(gang, holding.placed_at)
            if end <= self._now:
                end += self._settings.leave_s
            if not gang.opportunistic and self._now < end < NEVER:
                yield gang.vc, end, gang_id
        for gang_id, reserved in self._world.reserved.items():
            yield reserved.gang.vc, _end(reserved.gang, leaves), gang_id


def _by_start(promises: Sequence[Promise]) -> list[Promise]:
    return sorted(promises, key=lambda promise: promise.start)


def _needs(tasks: Sequence[HeldTask]) -> dict[str, Amount]:
    """By node."""
    needs: dict[str, Amount] = {}
    for task in tasks:
        amount = Amount(task.cpu_millis, task.memory_mb, len(task.gpu_uuids))
        needs[task.node] = needs.get(task.node, NOTHING).plus(amount)
    return needs


def _end(gang: Gang, start: float) -> float:
    return NEVER if gang.duration_s is None else start + gang.duration_s
