"""Why and how long each gang waits: one sentence, and the numbers behind it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skep_scheduler.backfill.reservations import Reservation
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.explain import sentences
from skep_scheduler.explain.needs import needs_of
from skep_scheduler.explain.numbers import Numbers, Owned
from skep_scheduler.memory import IDLE
from skep_scheduler.model import Code, Gang, Options, Reason
from skep_scheduler.placement.base import Found
from skep_scheduler.placement.cells_placer import OWN_REFUSALS, find
from skep_scheduler.placement.preemption import cools_until
from skep_scheduler.policies.base import Decision, Standing
from skep_scheduler.state import ClusterState
from skep_scheduler.state.request_classes import Kind, Request
from skep_scheduler.usage.accounting import CAUSES

OF_CELLS = {"chain", "leaf_type", "needs", "owns", "used", "free", "bad_in_chain"}
MOST_SEARCHES = 16  # for the positions of single gangs; for more, all positions are counted
MOST_PROBES = 64  # per tick, of whether gangs could start as opportunistic ones


@dataclass(frozen=True, slots=True)
class Blocked:
    """Gangs that go on waiting, and what stands in their way. `gang` is the first of `gangs`, which
    are of one kind."""

    gang: Gang
    kind: Kind
    refusal: Refusal
    reservation: Reservation | None
    gangs: Sequence[Gang]


@dataclass(slots=True)
class Cause:
    """What the reasons of some gangs have in common, with the numbers of the moment. The details
    are put together when they are read."""

    state: ClusterState
    gang: Gang
    refusal: Refusal
    owned: Owned
    used_by: tuple[list[dict[str, Any]], int]
    expected_start: float | None
    opportunistic_now: bool | None
    order: str
    _details: dict[str, Any] | None = None

    @property
    def code(self) -> str:
        return str(self.refusal.code)

    @property
    def details(self) -> dict[str, Any]:
        if self._details is None:
            self._details = self._compose()
        return self._details

    def _compose(self) -> dict[str, Any]:
        gang, owned = self.gang, self.owned
        own = {key: value for key, value in self.refusal.details.items() if key not in OF_CELLS}
        needs = needs_of(self.state, gang)
        used_by, more = self.used_by
        details = {
            **own,
            "vc": gang.vc,
            "needs": needs,
            "owns": owned.gpus,
            "used": owned.used,
            "free": max(owned.gpus - owned.used - owned.unavailable.idle, 0),
            **{cause: owned.unavailable.gpus[cause] for cause in CAUSES},
            "nodes": {
                "owns": owned.nodes,
                "used": owned.used_nodes,
                **{cause: owned.unavailable.nodes[cause] for cause in CAUSES},
            },
            "model": needs["gpu_model"] or owned.model,
            "used_by": used_by,
            "more": more,
        }
        if gang.pin is not None:
            details["pin"] = gang.pin
        return details


@dataclass(frozen=True, slots=True, eq=False)
class WaitingGroup:
    """Gangs that wait for one cause, in the order of their lane. `first`: they come before all
    others of their virtual cluster."""

    first: bool
    gangs: Sequence[Gang]
    decision: Decision
    cause: Cause

    @property
    def code(self) -> str:
        return self.cause.code


class Reasons(Mapping[str, Reason]):
    """The reasons of gangs by id, in the order of the queue. Each is written when it is read, so
    that a plan costs what it looked at and not how long the queue is."""

    def __init__(self, now: float, options: Options) -> None:
        self._now, self._options = now, options
        self._causes: dict[str, Cause] = {}
        self._groups: list[WaitingGroup] = []
        self._of_vc: dict[str, list[WaitingGroup]] | None = None
        self._asked = 0
        self._ahead: dict[str, int] | None = None
        self._pending: list[tuple[Sequence[Gang], Cause, Decision]] = []
        self._gangs: dict[str, tuple[Gang, Decision]] = {}

    def add(self, gangs: Sequence[Gang], cause: Cause, decision: Decision, *, first: bool) -> None:
        """Add gangs that wait for one cause. `first`: they come before all others of their virtual
        cluster."""
        self._pending.append((gangs, cause, decision))
        self._groups.append(WaitingGroup(first, gangs, decision, cause))

    @property
    def groups(self) -> Sequence[WaitingGroup]:
        """Return the gangs by what they wait for: as many groups as the plan looked at."""
        return self._groups

    def reason(self, gang: Gang, group: WaitingGroup) -> Reason:
        """Return the reason of a gang of a group, as by its id. Few of them do not cost a look at
        all gangs."""
        self._asked += 1
        return self._compose(gang, group.cause, group.decision, self._position(gang, group))

    def code(self, gang_id: str) -> str:
        return self._cause(gang_id).code

    def __bool__(self) -> bool:
        return bool(self._pending or self._causes)

    def __len__(self) -> int:
        self._spread()
        return len(self._causes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions())

    def __contains__(self, gang_id: object) -> bool:
        self._spread()
        return gang_id in self._causes

    def __getitem__(self, gang_id: str) -> Reason:
        cause, (gang, decision) = self._cause(gang_id), self._gangs[gang_id]
        return self._compose(gang, cause, decision, self._positions()[gang_id])

    def _compose(self, gang: Gang, cause: Cause, decision: Decision, ahead: int) -> Reason:
        details = {
            **cause.details,
            "ahead": ahead,
            "order": cause.order,
            "expected_start": cause.expected_start,
            "opportunistic_now": None,
            "told_at": self._now,
        }
        if ahead < self._options.full_reasons:
            details["opportunistic_now"] = cause.opportunistic_now
        standing: Standing | None = None
        if decision.standing is not None:
            standing = decision.standing(gang)
        if standing is not None:
            details["standing"] = standing
        if gang.demotion:
            details["demotion"] = gang.demotion
        return Reason(cause.code, sentences.sentence(cause.code, details), details)

    def _cause(self, gang_id: str) -> Cause:
        self._spread()
        return self._causes[gang_id]

    def _spread(self) -> None:
        for gangs, cause, decision in self._pending:
            for gang in gangs:
                self._causes[gang.id] = cause
                self._gangs[gang.id] = gang, decision
        self._pending.clear()

    def _position(self, gang: Gang, group: WaitingGroup) -> int:
        """Return how many gangs of its virtual cluster are ahead of a gang. Groups are in order, so
        a search in each is enough for a few guaranteed gangs."""
        rest = gang.opportunistic or group.first or self._asked > MOST_SEARCHES
        if rest or self._ahead is not None:
            return self._positions()[gang.id]
        if self._of_vc is None:
            self._of_vc = {}
            for known in self._groups:
                if not known.gangs[0].opportunistic:
                    self._of_vc.setdefault(known.gangs[0].vc, []).append(known)
        rank = group.decision.rank
        mine = rank(gang)
        return sum(
            len(known.gangs) if known.first else bisect_left(known.gangs, mine, key=rank)
            for known in self._of_vc[gang.vc]
        )

    def _positions(self) -> dict[str, int]:
        """Return how many gangs of its virtual cluster are ahead of each, in order."""
        if self._ahead is None:
            keyed = [
                ((0,) if group.first else (1, group.decision.rank(gang)), gang)
                for group in self._groups
                for gang in group.gangs
            ]
            by_vc: dict[tuple[str, bool], list[Any]] = {}
            for key, gang in keyed:
                by_vc.setdefault((gang.vc, gang.opportunistic), []).append((key, gang))
            self._ahead, ahead = {}, Counter[str]()
            for vc, opportunistic in sorted(by_vc, key=lambda known: (known[1], known[0])):
                for _, gang in sorted(by_vc[vc, opportunistic], key=_by_key):
                    self._ahead[gang.id] = ahead[vc]
                    ahead[vc] += 1
        return self._ahead


def _by_key(pair: tuple[Any, Gang]) -> Any:
    return pair[0]


class Explainer:
    """Explains why gangs wait. It is asked when everything else is done: its numbers are those
    after all placements."""

    def __init__(
        self,
        state: ClusterState,
        now: float,
        options: Options,
        decision_of: Callable[[str], Decision],
    ) -> None:
        """`decision_of` returns the order of each domain."""
        self._decision_of = decision_of
        self._state, self._now, self._options = state, now, options
        self._numbers = Numbers(state, now, options)
        self._counted: dict[tuple[Request, str], tuple[Owned, tuple[list[Any], int]]] = {}
        self._probed: dict[object, bool | None] = {}
        self._probes = 0
        self._idle: int | None = None
        self._causes: dict[tuple[Kind, int], Cause] = {}  # by kind and the very refusal

    def reasons(self, blocked: Sequence[Blocked]) -> Reasons:
        found = Reasons(self._now, self._options)
        for entry in blocked:
            gang, refusal = entry.gang, entry.refusal
            decision = self._decision_of(IDLE if gang.opportunistic else gang.vc)
            nominated = refusal.code == Code.PREEMPTING and gang.id in self._state.nominated
            key = (entry.kind, id(refusal))
            if entry.reservation is not None:
                cause = self._cause(entry, decision)
            elif (known := self._causes.get(key)) is not None:
                cause = known
            else:
                cause = self._causes[key] = self._cause(entry, decision)
            found.add(entry.gangs, cause, decision, first=nominated)
        return found

    def _cause(self, blocked: Blocked, decision: Decision) -> Cause:
        gang, kind = blocked.gang, blocked.kind
        key = kind.request, kind.vc
        if key not in self._counted:
            self._counted[key] = self._numbers.owned(kind), self._numbers.used_by(kind)
        owned, used_by = self._counted[key]
        probe = self._opportunistic_now(gang, kind, blocked.refusal)
        start = self._start(blocked)
        return Cause(
            self._state, gang, blocked.refusal, owned, used_by, start, probe, decision.label
        )

    def _start(self, blocked: Blocked) -> float | None:
        details, leave = blocked.refusal.details, self._options.leave_s
        if blocked.reservation is not None:
            return blocked.reservation.start
        if blocked.refusal.code == Code.PREEMPTING:
            return self._now + leave
        if blocked.refusal.code == Code.VICTIMS_TOO_YOUNG:
            return float(details["at"]) + leave
        if blocked.refusal.code in OWN_REFUSALS:
            return float(details["until"])
        if blocked.refusal.code == Code.COOLING_DOWN:
            return cools_until(self._state, blocked.gang.id, self._options) + leave
        return None

    def _opportunistic_now(self, gang: Gang, kind: Kind, refusal: Refusal) -> bool | None:
        """Whether it would start at once if it asked for nothing that it owns."""
        if gang.opportunistic or not kind.parts or refusal.code in NO_HELP or gang.vc == "":
            return None
        if kind not in self._probed:
            key = (kind.members, kind.within, kind.incremental)
            if key not in self._probed:
                self._probed[key] = self._probe(gang, kind)
            self._probed[kind] = self._probed[key]
        return self._probed[kind]

    def _probe(self, gang: Gang, kind: Kind) -> bool | None:
        if gang.incremental:
            least = gang.members[kind.parts[0].positions[0]].gpus
        else:
            least = gang.gpus
        if least > self._idle_gpus():
            return False
        self._probes += 1
        if self._probes > MOST_PROBES:
            return None
        idle = replace(gang, id=f"{gang.id}?", priority=-1, pin=None)
        tasks = [(kind.parts[0].positions[0], 0)] if gang.incremental else None
        return isinstance(find(self._state, idle, self._state.kind_of(idle), 1, tasks), Found)

    def _idle_gpus(self) -> int:
        """Return how many GPUs of the cluster no gang uses or has reserved."""
        if self._idle is None:
            pools = self._state.cells.chains.values()
            tops = [top for pool in pools for top in pool.tops]
            self._idle = sum(top.spec.leaves - top.used_total for top in tops)
        return self._idle


# What it would meet as an opportunistic gang, too.
NO_HELP = {
    *OWN_REFUSALS,
    Code.USER_GPU_LIMIT,
    Code.USER_JOB_LIMIT,
    Code.UNKNOWN_VC,
    Code.UNKNOWN_LEAF_TYPE,
    Code.UNKNOWN_CELL_TYPE,
    Code.BAD_SIZE,
    Code.BAD_PRIORITY,
    Code.EMPTY_GANG,
    Code.NEVER_FITS_NODE,
    Code.NEVER_FITS_CLUSTER,
}
