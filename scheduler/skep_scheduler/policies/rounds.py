"""Makes decisions of a round policy: gangs take turns, so that each runs for its share of the time.

Rounds begin at multiples of `round_s` since the epoch, so that no state is kept: what is owed to a
gang follows from when it was placed, or from when it waits. With the share x of a gang and the
start t of the round, a waiting gang is owed `x * (t - waits since)` and a running one has had
`(1 - x) * (t - placed at)` too much, less the length of a round: a turn is not given up for less
than it is worth. Of three gangs with one place and equal shares each runs every third round; with
shares of 2/3 and 1/3 one runs two rounds of three.

Each round orders gangs by priority and by what is owed, first of all those with a share: in front
those that together fit into what the virtual cluster owns, then the others. Running gangs yield to
one before them in this order that needs their places, the last first, and otherwise run on
(work conserving). One in front yields only where those behind it do not help: their GPUs are spread
over nodes, or whoever is first cannot start at all. A gang has its places until the next round
begins at least, and who begins to wait within a round takes no place from others before the next.
What is owed to a waiting gang with a share grows without end, and that of those that come later is
less: so the guard against starvation is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    CPU,
    MEMORY,
    Amounts,
    BackfillMode,
    Decision,
    DomainFacts,
    Keep,
    Rank,
    RoundPolicy,
    RoundView,
    View,
)
from skep_scheduler.policies.ordered import waits_since
from skep_scheduler.policies.shares import by_submission

LESS = 1e-6  # so that a whole round is a turn


@dataclass(frozen=True, slots=True)
class Rounds:
    """Ranks gangs by (priority, chosen order of the round)."""

    policy: RoundPolicy

    def decide(self, view: View) -> Decision:
        now, length = view.now, self.policy.round_s
        start = now // length * length
        turn = _Round(self.policy, start, view.domain) if view.domain is not None else None

        def rank(gang: Gang) -> Rank:
            place = turn.position(gang) if turn is not None else 0
            return -gang.priority, place, gang.submitted_at, gang.id

        return Decision(
            rank,
            by_submission,
            BackfillMode.SKIP,
            _outranks,
            Keep.EXACT,
            self.policy.label,
            start + length,
            lane_of=_id_of,
            guards=False,
            yielding=turn.yielding if turn is not None else None,
        )


class _Round:
    """The choice of one round, made when it is asked for."""

    def __init__(self, policy: RoundPolicy, start: float, domain: DomainFacts) -> None:
        self._policy, self._start, self._domain = policy, start, domain
        self._positions: dict[str, int] | None = None
        self._shares: Mapping[str, float] = {}
        self._running: dict[str, tuple[Gang, float]] = {}

    def position(self, gang: Gang) -> int:
        """Return the place of a gang in the order of the round; an unknown one is last."""
        positions = self._choose()
        return positions.get(gang.id, len(positions))

    def yielding(self, gang: Gang) -> Sequence[str]:
        """Return the running gangs behind a waiting one in the order of the round."""
        positions = self._choose()
        if self._shares.get(gang.id, 0.0) <= 0 or waits_since(gang) > self._start:
            return ()
        place = self.position(gang)
        others = [
            other.id
            for other, placed_at in self._running.values()
            if positions[other.id] > place
            and placed_at < self._start
            and other.priority <= gang.priority
        ]
        return sorted(others, key=lambda other: -positions[other])

    def _choose(self) -> dict[str, int]:
        if self._positions is not None:
            return self._positions
        domain, start = self._domain, self._start
        owed: dict[str, float] = {}
        held: dict[str, Amounts] = {}
        gangs: dict[str, Gang] = {}
        nominated: set[str] = set()
        holdings = domain.held()
        for some in holdings:
            gangs[some.gang.id], held[some.gang.id] = some.gang, some.amounts
        waiting = [gang for gang in domain.waiting() if gang.id not in gangs]
        gangs |= {gang.id: gang for gang in waiting}
        everyone = tuple(gangs.values())
        view = RoundView(start, everyone, domain.demand, domain.capacity())
        shares = self._shares = self._policy.shares(view)
        for some in holdings:
            gang_id, placed_at = some.gang.id, some.placed_at
            if placed_at is None:
                nominated.add(gang_id)
                owed[gang_id] = 0.0
                continue
            self._running[gang_id] = some.gang, placed_at
            had = (1 - shares.get(gang_id, 0.0)) * max(start - placed_at, 0.0)
            owed[gang_id] = self._policy.round_s * (1 - LESS) - had
        for gang in waiting:
            waited = max(start - waits_since(gang), 0.0)
            owed[gang.id] = shares.get(gang.id, 0.0) * waited
        ranked = sorted(
            everyone,
            key=lambda gang: (
                gang.id not in nominated,
                -gang.priority,
                shares.get(gang.id, 0.0) <= 0,
                -owed[gang.id],
                gang.submitted_at,
                gang.id,
            ),
        )
        left = {name: some for name, some in domain.capacity().items() if name not in (CPU, MEMORY)}
        chosen, others = [], []
        for gang in ranked:
            wanted = held.get(gang.id) or domain.demand(gang)
            gpus = {leaf: n for leaf, n in wanted.items() if leaf not in (CPU, MEMORY)}
            if all(n <= left.get(leaf, 0) for leaf, n in gpus.items()):
                for leaf, n in gpus.items():
                    left[leaf] -= n
                chosen.append(gang.id)
            else:
                others.append(gang.id)
        self._positions = {gang_id: n for n, gang_id in enumerate([*chosen, *others])}
        return self._positions


def _outranks(gang: Gang, other: Gang) -> bool:
    return gang.priority > other.priority


def _id_of(gang: Gang) -> str:
    return gang.id
