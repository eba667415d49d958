"""Makes decisions of a policy that ranks all gangs of a virtual cluster at once, round by round.

Rounds begin at multiples of `round_s` since the epoch, and a ranking is as of the start of the
round, so that no state is kept and two plans of one round agree. Gangs that wait go in the order of
the ranking as long as they fit together into the healthy GPUs that the virtual cluster owns, as
those that run do: these are chosen. A running gang that was not chosen, or comes later, yields to a
chosen one that waits. A gang has its places until the next round begins at least. One that begins
to wait within a round comes last in it: it takes no place from others, only idle ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

from skep_scheduler.model import Gang
from skep_scheduler.policies.admission import earliest_deadline
from skep_scheduler.policies.base import (
    AdmittingPolicy,
    BackfillMode,
    Decision,
    DomainFacts,
    Keep,
    Rank,
    RankedPolicy,
    Ranking,
    RoundView,
    Standing,
    View,
    only_gpus,
)
from skep_scheduler.policies.ordered import outranking, starves_at, waits_since
from skep_scheduler.policies.shares import by_submission


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranks gangs by (starving first, priority, ranking of the round)."""

    policy: RankedPolicy

    def decide(self, view: View) -> Decision:
        now, length, starvation_s = view.now, self.policy.round_s, view.options.starvation_s
        start = now // length * length
        turn = _Turn(self.policy, start, now, view.domain) if view.domain is not None else None

        admits = isinstance(self.policy, AdmittingPolicy)

        def rank(gang: Gang) -> Rank:
            starving = starves_at(gang, starvation_s) <= now
            place = turn.position(gang) if turn is not None else 0
            return not starving, -gang.priority, place, gang.submitted_at, gang.id

        def standing(gang: Gang) -> Standing:
            numbers = turn.numbers(gang) if turn is not None else {}
            return {"policy": self.policy.name, "next_round": start + length, **numbers}

        return Decision(
            rank,
            by_submission,
            BackfillMode.SKIP,
            outranking(now, view.options),
            Keep.DISPLACE,
            self.policy.label,
            start + length,
            lane_of=_id_of,
            yielding=turn.yielding if turn is not None else None,
            standing=standing,
            declined=turn.declined if turn is not None and admits else None,
        )


class _Turn:
    """The choice of one round, made when it is asked for."""

    def __init__(self, policy: RankedPolicy, start: float, now: float, domain: DomainFacts) -> None:
        self._policy, self._start, self._now, self._domain = policy, start, now, domain
        self._positions: dict[str, int] | None = None
        self._chosen = 0  # the first positions
        self._running: list[tuple[Gang, float]] = []
        self._last_first: list[tuple[int, str, int]] | None = None  # of those that may yield
        self._ranking = Ranking(())

    def position(self, gang: Gang) -> int:
        """Return the place of a gang in the order of the round; an unknown one is last."""
        positions = self._choose()
        return positions.get(gang.id, len(positions))

    def numbers(self, gang: Gang) -> Standing:
        """Return what the policy says of a gang; nothing of one that came within the round."""
        self._choose()
        return self._ranking.numbers.get(gang.id, {})

    def yielding(self, gang: Gang) -> Sequence[str]:
        """Return the running gangs that yield to a waiting one, the last in the order first."""
        positions, place = self._choose(), self.position(gang)
        if place >= self._chosen or waits_since(gang) > self._start:
            return ()
        if self._last_first is None:
            old = [one for one, placed_at in self._running if placed_at < self._start]
            self._last_first = sorted((-positions[one.id], one.id, one.priority) for one in old)
        others = takewhile(lambda one: one[0] < -place, self._last_first)
        return [gang_id for _, gang_id, its in others if its <= gang.priority]

    def declined(self, gang: Gang) -> Mapping[str, float] | None:
        """Return the deadline of a gang that is asked about and would not be admitted, and the
        earliest that it could have; None: it would be."""
        policy, domain, now = self._policy, self._domain, self._now
        if gang.deadline_at is None or gang is not domain.also:
            return None
        if not isinstance(policy, AdmittingPolicy):
            return None
        holdings = domain.held()
        placed = {some.gang.id: at for some in holdings if (at := some.placed_at) is not None}
        gangs = {one.id: one for one in (*domain.waiting(), *(some.gang for some in holdings))}
        usable = domain.usable_gpus()
        known = list(gangs.values())
        begins = self._start + policy.round_s
        view = RoundView(begins, known, domain.demand, usable, domain.accepts_any, placed)
        admits = policy.admits_by(view, gang)
        if admits(gang.deadline_at):
            return None
        earliest = earliest_deadline(admits, now, view.left_s(gang))
        known_earliest = {} if earliest is None else {"earliest": earliest}
        return {"deadline": gang.deadline_at, **known_earliest}

    def _choose(self) -> dict[str, int]:
        if self._positions is not None:
            return self._positions
        domain, start = self._domain, self._start
        holdings = domain.held()
        has = {some.gang.id: only_gpus(some.amounts) for some in holdings}
        nominated = {some.gang.id for some in holdings if some.placed_at is None}
        placed = {some.gang.id: at for some in holdings if (at := some.placed_at) is not None}
        self._running = [
            (some.gang, some.placed_at) for some in holdings if some.placed_at is not None
        ]
        gangs = [some.gang for some in holdings]
        gangs += [gang for gang in domain.waiting() if gang.id not in has]
        known = [gang for gang in gangs if gang.submitted_at <= start]
        left = dict(domain.usable_gpus())
        view = RoundView(start, known, domain.demand, dict(left), domain.accepts_any, placed)
        self._ranking = self._policy.ranking(view)
        places = {gang_id: n for n, gang_id in enumerate(self._ranking.order)}

        def in_order(gang: Gang) -> Rank:
            came = gang.id not in placed and waits_since(gang) > start
            place = places.get(gang.id, inf)
            return gang.id not in nominated, -gang.priority, came, place, gang.submitted_at, gang.id

        chosen: list[str] = []
        others: list[str] = []
        for gang in sorted(gangs, key=in_order):
            gpus = has.get(gang.id) or only_gpus(domain.demand(gang))
            fits = all(number <= left.get(leaf, 0.0) for leaf, number in gpus.items())
            (chosen if fits else others).append(gang.id)
            for leaf, number in gpus.items() if fits else ():
                left[leaf] -= number
        self._chosen = len(chosen)
        self._positions = {gang_id: n for n, gang_id in enumerate([*chosen, *others])}
        return self._positions


def _id_of(gang: Gang) -> str:
    return gang.id
