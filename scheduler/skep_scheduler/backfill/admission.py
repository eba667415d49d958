"""Backfill as one stage of a plan: may a gang start now, or does it wait, and for what.

The engine asks once per gang: `admit` takes what the gang was refused before, or how to find places
for it, and answers `Start` or `HeldBack`. Reserved starts, lines closed by starving gangs and what
earlier gangs of the plan were held back with stay inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skep_scheduler.backfill.reservations import Reservation, Reservations
from skep_scheduler.backfill.timeline import NEVER
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.model import Code, Gang, Options, Placement
from skep_scheduler.placement.base import Answer, Found
from skep_scheduler.placement.cells_placer import OWN_REFUSALS
from skep_scheduler.policies.base import BackfillMode, Decision
from skep_scheduler.policies.ordered import is_starving
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import ReservedStart, held
from skep_scheduler.state.queues import Lane
from skep_scheduler.state.request_classes import Kind, Request

BUSY = {Code.VC_BUSY, Code.BAD_HARDWARE}  # a reserved start may help
SHORT = {Code.CPU_BUSY, Code.MEMORY_BUSY}  # time may help, but what is shared cannot be reserved


@dataclass(frozen=True, slots=True)
class Start:
    """The gang may take these places now."""

    found: Found


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The gang waits: why, and the start that is reserved for it, if there is one."""

    refusal: Refusal
    reservation: Reservation | None = None


class Backfill:
    """The stage of one plan."""

    def __init__(
        self,
        state: ClusterState,
        now: float,
        options: Options,
        more: Mapping[str, int],
        decision_of: Callable[[str], Decision],
        remembered: Callable[[Kind, Callable[[], bool]], bool],
    ) -> None:
        """`more`: virtual clusters that get more reservations than the options say, if it is more.
        `decision_of`: the order of each domain. `remembered` returns whether gangs of a kind could
        ever start: as an earlier plan found it, or else by asking."""
        self._state, self._now, self._options = state, now, options
        self._decision_of, self._remembered = decision_of, remembered
        self._reservations = Reservations(state, now, options, more, decision_of)
        self._no_start: set[tuple[Kind, float | None]] = set()  # no start can be reserved for such
        # By request: the shortest duration that was held back, and why.
        self._held_back: dict[Request, tuple[float, Refusal]] = {}
        self._closed: dict[str, Refusal] = {}  # by the starving gang that closed the line

    def admit(
        self, gang: Gang, kind: Kind, refused: Refusal | None, find: Callable[[], Answer]
    ) -> Start | HeldBack:
        """Decide about a gang that starts whole. `refused`: what all gangs of its kind are refused
        with, if that is known; `find` searches places for it."""
        held_back = self.check(gang, kind, refused)
        if held_back is not None:
            return held_back
        due = self._reservations.due(gang)
        answer = due if due is not None else find()
        if isinstance(answer, Refusal):
            own = answer.code in OWN_REFUSALS  # of this gang alone
            return HeldBack(answer) if own else self._wait(gang, kind, answer)
        if due is None and (delayed := self._delayed_by(gang, [answer])) is not None:
            refusal = _held_back(delayed.gang.id, delayed.start)
            self._held_back[kind.request] = _lasts(gang.duration_s), refusal
            return HeldBack(refusal, self._reserve(gang, kind))
        return Start(answer)

    def check(self, gang: Gang, kind: Kind, refused: Refusal | None) -> HeldBack | None:
        """Decide what needs no search: whether the gang waits with others of its kind, behind a
        closed line, or as a shorter one with the same request did."""
        if refused is not None:
            return self._wait(gang, kind, refused)
        first = self._reservations.closed_by(gang, kind)
        if first is not None:
            return HeldBack(self._behind(first))
        least, refusal = self._held_back.get(kind.request, (NEVER, None))
        # That may have been for the sake of this very gang, if a start is reserved for it.
        if refusal is None or gang.id in self._state.reservations:
            return None
        if _lasts(gang.duration_s) < least:
            return None
        return HeldBack(refusal, self._reserve(gang, kind))

    def delay(self, gang: Gang, founds: Sequence[Found]) -> Refusal | None:
        """Return why an incremental gang may not start the last of these tasks now, or None."""
        delayed = self._delayed_by(gang, founds)
        return _held_back(delayed.gang.id, delayed.start) if delayed is not None else None

    def refusal_of_rest(self, lane: Lane, refused: Refusal | None) -> Refusal | None:
        """Return what all further gangs of a lane wait for; None: ask for the next one. `refused`:
        what gangs of their kind are refused with, if that is known."""
        kind, vc = lane.kind, lane.kind.vc
        if kind.opportunistic:
            return refused
        backfill_mode = self._decision_of(vc).backfill_mode
        closed = self._reservations.closed_by(lane.gangs[0], kind)
        if refused is not None:
            if refused.code not in (BUSY | SHORT if backfill_mode is BackfillMode.BLOCK else BUSY):
                return refused
            wants_reservation = backfill_mode is not BackfillMode.SKIP and refused.code in BUSY
            if wants_reservation and not self._cannot_reserve(vc, lane):
                return None
            may_close = closed is None and (lane.starving or backfill_mode is BackfillMode.BLOCK)
            return None if may_close else refused
        if closed is not None:
            return self._behind(closed)
        least, held_back = self._held_back.get(kind.request, (NEVER, None))
        if held_back is not None and _lasts(lane.duration_s) >= least:
            return held_back if self._cannot_reserve(vc, lane) else None
        return None

    def note_start(self, gang: Gang, at: float) -> None:
        """Note that a gang starts (or will have started) `at` a moment."""
        self._reservations.note_start(gang, at)

    def withdraw(self, gang: Gang) -> None:
        """Drop the reservation of a gang, if it has one."""
        self._reservations.withdraw(gang)

    def reservations_of(self, vc: str) -> list[Reservation]:
        """Return the reservations of a virtual cluster, by start."""
        return self._reservations.of_vc(vc).starts

    def met_shortage(self, vc: str) -> bool:
        """Return whether reservations of a virtual cluster depend on what others use."""
        return vc in self._reservations.met_shortage

    def reserved_starts(self, planned: Callable[[Gang], bool]) -> dict[str, ReservedStart]:
        """Return the starts that are reserved for waiting gangs, by gang id: those of gangs that
        were `planned`, and those of the others as they were."""
        waiting, withdrawn = self._state.waiting, self._reservations.withdrawn
        kept = {
            gang_id: start
            for gang_id, start in self._state.reservations.items()
            if gang_id in waiting and not planned(waiting[gang_id]) and gang_id not in withdrawn
        }
        return kept | {
            reservation.gang.id: ReservedStart(reservation.start, tuple(reservation.found.tasks))
            for reserved in self._reservations.vcs()
            for reservation in reserved.starts
        }

    def _wait(self, gang: Gang, kind: Kind, refusal: Refusal) -> HeldBack:
        """It finds no place. By the policy of its domain its start is reserved, or those behind it
        wait; and they wait if it starves."""
        if gang.opportunistic or gang.incremental:
            return HeldBack(refusal)
        backfill_mode, reservation = self._decision_of(gang.vc).backfill_mode, None
        if refusal.code in BUSY and backfill_mode is not BackfillMode.SKIP:
            reservation = self._reserve(gang, kind)
        if backfill_mode is BackfillMode.BLOCK:
            closes = refusal.code in BUSY | SHORT
        else:
            guards = self._decision_of(gang.vc).guards
            starves = guards and is_starving(gang, self._now, self._options)
            closes = refusal.code in BUSY and reservation is None and starves
        if closes and self._reservations.closed_by(gang, kind) is None:
            if not self._could_ever_start(gang, kind):
                return HeldBack(Refusal(Code.NEVER_FITS_VC, "", refusal.details), reservation)
            self._reservations.close(gang)
        return HeldBack(refusal, reservation)

    def _could_ever_start(self, gang: Gang, kind: Kind) -> bool:
        """Whether its virtual cluster, were it idle, had a place for it."""
        return self._remembered(kind, lambda: self._reservations.could_ever_start(gang, kind))

    def _reserve(self, gang: Gang, kind: Kind) -> Reservation | None:
        reservation = self._reservations.reserve(gang, kind)
        if reservation is None:
            self._no_start.add((kind, gang.duration_s))
        return reservation

    def _cannot_reserve(self, vc: str, lane: Lane) -> bool:
        return self._reservations.is_full(vc) or (lane.kind, lane.duration_s) in self._no_start

    def _delayed_by(self, gang: Gang, founds: Sequence[Found]) -> Reservation | None:
        """Return the first reservation that would not hold if the gang ran at these places."""
        if gang.opportunistic or not self._reservations.of_vc(gang.vc).starts:
            return None
        allocations = self._state.allocations
        with self._state.trial():
            for found in founds:
                for other in (*found.victims, *found.cancels):
                    allocations.release(other)
            put(self._state, gang, founds)
            return self._reservations.delayed_by(gang)

    def _behind(self, first: Gang) -> Refusal:
        """One refusal for all behind a closed line, so that they have one reason."""
        if first.id not in self._closed:
            label = self._decision_of(first.vc).label
            self._closed[first.id] = _held_back(first.id, None, label)
        return self._closed[first.id]


def put(state: ClusterState, gang: Gang, founds: Sequence[Found]) -> None:
    """Put a gang onto the places that were found, beside those that it holds already."""
    tasks = tuple(task for found in founds for _, task in found.tasks)
    before = state.running.get(gang.id)
    kept = before.tasks if before is not None else ()
    state.allocations.put(gang, (*kept, *held(gang, Placement(gang.id, tasks))))


def _held_back(gang_id: str, start: float | None, order: str = "") -> Refusal:
    return Refusal(Code.HELD_BACK, "", {"by": gang_id, "by_start": start, "order": order})


def _lasts(duration_s: float | None) -> float:
    return NEVER if duration_s is None else duration_s
