"""`plan`: one tick, as numbered steps, on the world itself by trial and undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skep_scheduler.answer import Placement, Plan, Preemption, Reason
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.facts import Gang
from skep_scheduler.queue import preemption, reservations
from skep_scheduler.queue.avoiding import Elsewhere
from skep_scheduler.queue.clock import NEVER
from skep_scheduler.queue.codes import Code, Downgrade
from skep_scheduler.queue.find import Found, Task, tasks_of
from skep_scheduler.queue.order import is_starving, ordered
from skep_scheduler.queue.promises import Promise, Promises
from skep_scheduler.queue.reasons import Blocked, Explainer
from skep_scheduler.queue.settings import DEFAULTS, Settings
from skep_scheduler.world import World
from skep_scheduler.world.request import Kind, Request
from skep_scheduler.world.world import Promised, held

BUSY = {Code.VC_BUSY, Code.BAD_HARDWARE}  # time may help
LACKS_ROOM = {
    Code.CPU_BUSY,
    Code.MEMORY_BUSY,
    Code.NEVER_FITS_NODE,
    Code.NEVER_FITS_CLUSTER,
}


def plan(world: World, now: float, settings: Settings = DEFAULTS) -> Plan:
    """What to do at `now` (seconds since the epoch), and why others wait. The world keeps in mind
    what was promised: later plans stand by it."""
    with world.trial():
        tick = Tick(world, now, settings)
        answer, promised = tick.run(), tick.promised()
    world.note_promised(promised)
    return answer


def explain(
    world: World, gang: Gang, now: float, settings: Settings = DEFAULTS
) -> Placement | Preemption | Reason:
    """What a tick would answer if `gang` waited too."""
    with world.trial():
        answer = Tick(world, now, settings, Scope(gang.vc, also=gang)).run()
    for placement in answer.placements:
        if placement.gang == gang.id:
            return placement
    for preempting in answer.preemptions:
        if preempting.gang == gang.id:
            return preempting
    return answer.reasons[gang.id]


@dataclass(frozen=True, slots=True)
class Scope:
    """What somebody asks about: the first `most` gangs that wait in a VC, with at least so many
    promises; or only `also`, as if it waited, too."""

    vc: str
    most: int = 0
    promises: int = 0
    also: Gang | None = None


class Tick:
    """The cells and the room only fill up while it runs, so what was refused once stays refused:
    one answer is for all gangs of a kind. (What gives something back clears `_refused`.)"""

    def __init__(
        self,
        world: World,
        now: float,
        settings: Settings,
        scope: Scope | None = None,
    ) -> None:
        """With a `scope` it does no more than that needs, and `queue` has only that VC's gangs."""
        self.world, self.now, self.settings = world, now, settings
        self._scope = scope
        self.queue: list[Gang] = []
        more = {scope.vc: scope.promises} if scope is not None else {}
        self._promises = Promises(world, now, settings, more)
        self._elsewhere = Elsewhere(world, now, settings)
        self._refused: dict[Kind | Request, Refusal] = {}
        self._refused_tasks: dict[tuple[Kind | Request, int], Refusal] = {}  # of incremental gangs
        self._held_back: dict[Request, tuple[float, Refusal]] = {}  # by the shortest duration
        self._placements: list[Placement] = []
        self._preemptions: list[Preemption] = []
        self._downgrades = {g: world.downgrade_reason(g) for g in world.downgraded()}
        self._cancels: dict[str, Reason] = {}
        self._blocked: list[Blocked] = []

    def run(self) -> Plan:
        restored = tuple(self.world.restored())
        # 1. Reservations: give back those that cannot be kept, start those whose victims are gone.
        self._go_on_with_reservations()
        # 2. The queue, in order.
        self.queue = self._ordered()
        # 3. Each gang starts, makes others leave, or waits.
        for gang in self._considered():
            self._consider(gang)
        # 4. Everyone left is told why.
        reasons = Explainer(self.world, self.now, self.settings).reasons(self._blocked)
        return Plan(
            tuple(self._placements),
            tuple(self._preemptions),
            self._downgrades,
            restored,
            self._cancels,
            reasons,
        )

    def promises_of(self, vc: str) -> list[Promise]:
        return self._promises.line(vc).promises

    def promised(self) -> dict[str, Promised]:
        """The starts that it promises to gangs that wait."""
        return {
            promise.gang.id: Promised(promise.start, tuple(promise.found.tasks))
            for line in self._promises.lines()
            for promise in line.promises
        }

    def _go_on_with_reservations(self) -> None:
        for gang_id in sorted(self.world.reserved):
            reserved = self.world.reserved[gang_id]
            why = reservations.broken(self.world, reserved)
            if why is not None:
                self.world.holds.release(gang_id)
                self._cancels[gang_id] = why
            elif reservations.is_cleared(self.world, reserved):
                self.world.holds.put(reserved.gang, reserved.tasks)
                self._placements.append(reserved.placement)
                self._promises.note_start(reserved.gang, self.now)
            else:
                leaving = list(reservations.waited_for(self.world, reserved))
                self._block(reserved.gang, Refusal(Code.PREEMPTING, "", {"leaving": leaving}))

    def _ordered(self) -> list[Gang]:
        gangs = self._waiting()
        if self._scope is not None:
            gangs = (gang for gang in gangs if gang.vc == self._scope.vc)
        return ordered(gangs, self.now, self.settings)

    def _considered(self) -> list[Gang]:
        """Who comes later changes nothing for who comes first. What others get is nobody's
        business but of opportunistic gangs, which come after them."""
        if self._scope is None:
            return self.queue
        asked = self.queue[: self._scope.most]
        if self._scope.also is not None:
            asked = _up_to(self._scope.also, self.queue)
        if not asked or not asked[-1].opportunistic:
            return asked
        return _up_to(asked[-1], ordered(self._waiting(), self.now, self.settings))

    def _waiting(self) -> Iterator[Gang]:
        yield from (g for g in self.world.waiting.values() if g.id not in self.world.reserved)
        for gang_id in self.world.growing:
            holding = self.world.running[gang_id]
            if not holding.leaving:
                yield holding.gang
        also = self._scope.also if self._scope is not None else None
        if also is not None and also.id not in self.world.waiting:
            yield also

    def _consider(self, gang: Gang) -> None:
        kind = self.world.kind_of(gang)
        if gang.not_before > self.now:
            self._block(gang, Refusal(Code.BACKOFF, "", {"until": gang.not_before}))
        elif gang.vc not in self.world.holds.cells.vcs:
            self._block(gang, Refusal(Code.UNKNOWN_VC, "", {"vc": gang.vc}))
        elif (refusal := self._refused.get(kind.request) or self._refused.get(kind)) is not None:
            self._wait(gang, kind, refusal)
        elif (first := self._promises.closed_by(gang, kind)) is not None:
            self._block(gang, _held_back(first.id, None))
        elif (refusal := self._held_back_before(gang, kind)) is not None:
            self._block(gang, refusal, self._promises.promise(gang, kind))
        elif gang.incremental:
            self._place_one_by_one(gang, kind)
        else:
            self._place_whole(gang, kind)

    def _place_whole(self, gang: Gang, kind: Kind) -> None:
        due = self._promises.due(gang)
        answer = due if due is not None else self._elsewhere.find(gang, kind)
        if isinstance(answer, Refusal) and answer.code == Code.AVOIDING:
            self._block(gang, answer)
        elif isinstance(answer, Refusal):
            self._refused[kind if answer.code in LACKS_ROOM else kind.request] = answer
            self._wait(gang, kind, answer)
        elif due is None and (delayed := self._delayed_by(gang, [answer])) is not None:
            self._hold_back(gang, kind, delayed)
        elif new := self._undoes(answer):
            young = {"at": self.now, "victims": list(new)}
            self._block(gang, Refusal(Code.VICTIMS_TOO_YOUNG, "", young))
        elif answer.victims or answer.borrowers:
            self._preempt(gang, answer)
        else:
            self._start(gang, answer)

    def _undoes(self, found: Found) -> list[str]:
        """Gangs that this very plan gives a place or a reservation. The next plan may undo that."""
        started = [g for g in found.downgrades if g not in self.world.running]
        planned = {preempting.gang for preempting in self._preemptions}
        return started + [g for g in found.cancels if g in planned]

    def _wait(self, gang: Gang, kind: Kind, refusal: Refusal) -> None:
        """It is blocked: perhaps a start can be promised to it, and if it starves, others wait."""
        promise = None
        if refusal.code in BUSY and not (gang.opportunistic or gang.incremental):
            promise = self._promises.promise(gang, kind)
            if promise is None and is_starving(gang, self.now, self.settings):
                refusal = self._hold_the_line(gang, kind, refusal)
        self._block(gang, refusal, promise)

    def _hold_the_line(self, gang: Gang, kind: Kind, refusal: Refusal) -> Refusal:
        """Only for a gang that its VC, were it idle, had a place for."""
        if self._promises.closed_by(gang, kind) is not None:
            return refusal
        if self._promises.could_ever_start(gang, kind):
            self._promises.close(gang, kind)
            return refusal
        never = Refusal(Code.NEVER_FITS_VC, "", refusal.details)
        self._refused[kind.request] = never
        return never

    def _delayed_by(self, gang: Gang, founds: Sequence[Found]) -> Promise | None:
        """The promise to an earlier gang that would not hold."""
        if gang.opportunistic or not self._promises.line(gang.vc).promises:
            return None
        with self.world.holds.trial():
            for found in founds:
                for other in (*found.victims, *found.cancels):
                    self.world.holds.release(other)
            self._put(gang, founds)
            return self._promises.delayed_by(gang)

    def _hold_back(self, gang: Gang, kind: Kind, delayed: Promise) -> None:
        refusal = _held_back(delayed.gang.id, delayed.start)
        self._held_back[kind.request] = _duration(gang), refusal
        self._block(gang, refusal, self._promises.promise(gang, kind))

    def _held_back_before(self, gang: Gang, kind: Kind) -> Refusal | None:
        """As a shorter one with the same request was; perhaps for the sake of this very gang, if it
        was promised a start."""
        least, refusal = self._held_back.get(kind.request, (NEVER, None))
        if refusal is None or gang.id in self.world.promised:
            return None
        return refusal if _duration(gang) >= least else None

    def _place_one_by_one(self, gang: Gang, kind: Kind) -> None:
        """Tasks of an incremental gang, as many as find a place."""
        placed: list[Found] = []
        refusal, due = None, self._unplaced(gang, kind)
        if not due:
            until = min(moment for *_, moment in self.world.running[gang.id].delays)
            refusal = Refusal(Code.BACKOFF, "", {"until": until})
        for task in due:
            answer = self._find_task(gang, kind, task)
            if isinstance(answer, Refusal):
                refusal = answer
                break
            delayed = self._delayed_by(gang, [*placed, answer])
            if delayed is not None:
                refusal = _held_back(delayed.gang.id, delayed.start)
                break
            if self._undoes(answer):
                break
            if answer.victims or answer.borrowers:
                if not placed and gang.id not in self.world.running:
                    self._preempt(gang, answer)
                    return
                break
            self._apply(gang, answer)
            placed.append(answer)
            self._put(gang, placed)
        if placed:
            tasks = tuple(task for found in placed for _, task in found.tasks)
            self._placements.append(Placement(gang.id, tasks))
        elif refusal is not None:
            self._block(gang, refusal)

    def _find_task(self, gang: Gang, kind: Kind, task: Task) -> Found | Refusal:
        """Tasks of one role are alike."""
        role = task[0]
        known = self._refused_tasks.get((kind.request, role)) or self._refused_tasks.get(
            (kind, role)
        )
        if known is not None:
            return known
        answer = self._elsewhere.find(gang, kind, [task])
        if isinstance(answer, Refusal) and answer.code != Code.AVOIDING:
            by_cells = answer.code not in LACKS_ROOM
            self._refused_tasks[kind.request if by_cells else kind, role] = answer
        return answer

    def _unplaced(self, gang: Gang, kind: Kind) -> Sequence[Task]:
        holding = self.world.running.get(gang.id)
        if holding is None:
            return tasks_of(kind)
        positions = {member.role: i for i, member in enumerate(gang.members)}
        later = {(role, index) for role, index, moment in holding.delays if moment > self.now}
        due = (task for task in holding.unplaced if task not in later)
        return sorted((positions[role], index) for role, index in due)

    def _start(self, gang: Gang, found: Found) -> None:
        self._apply(gang, found)
        self._put(gang, [found])
        self._promises.note_start(gang, self.now)
        self._placements.append(Placement(gang.id, tuple(task for _, task in found.tasks)))

    def _put(self, gang: Gang, founds: Sequence[Found]) -> None:
        tasks = tuple(task for found in founds for _, task in found.tasks)
        before = self.world.running.get(gang.id)
        kept = before.tasks if before is not None else ()
        self.world.holds.put(gang, (*kept, *held(gang, Placement(gang.id, tasks))))

    def _preempt(self, gang: Gang, found: Found) -> None:
        """Its places are reserved in any case, so that nobody behind it takes them."""
        placement = Placement(gang.id, tuple(task for _, task in found.tasks))
        refusal = preemption.too_early(self.world, gang, found, self.now, self.settings)
        if refusal is not None and refusal.code == Code.COOLING_DOWN:
            self._block(gang, refusal)
            return
        if refusal is None:
            self._apply(gang, found)
            self._preemptions.append(preemption.of(self.world, placement, found))
            self._promises.note_start(gang, self.now + self.settings.leave_s)
        self.world.holds.reserve(gang, held(gang, placement))
        if refusal is not None:
            self._block(gang, refusal)

    def _apply(self, gang: Gang, found: Found) -> None:
        """What it does to others that go on."""
        for other in found.cancels:
            self.world.holds.release(other)
            if other in self.world.reserved:
                self._cancels[other] = preemption.outranked(gang)
        for other in found.downgrades:
            self.world.holds.downgrade(other, Downgrade.PREEMPTED_LAZILY)
            self._downgrades[other] = preemption.downgraded(gang)
        if found.cancels or found.downgrades:
            self._refused.clear()
            self._refused_tasks.clear()

    def _block(self, gang: Gang, refusal: Refusal, promise: Promise | None = None) -> None:
        if promise is None:
            self._promises.withdraw(gang)
        self._blocked.append(Blocked(gang, self.world.kind_of(gang), refusal, promise))


def _up_to(last: Gang, gangs: Sequence[Gang]) -> list[Gang]:
    position = next((i for i, gang in enumerate(gangs) if gang.id == last.id), len(gangs))
    return list(gangs[: position + 1])


def _held_back(gang_id: str, start: float | None) -> Refusal:
    return Refusal(Code.HELD_BACK, "", {"by": gang_id, "by_start": start})


def _duration(gang: Gang) -> float:
    return NEVER if gang.duration_s is None else gang.duration_s
