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
from itertools import takewhile

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    BackfillMode,
    Decision,
    DomainFacts,
    HeldAmounts,
    Keep,
    Rank,
    RoundPolicy,
    RoundView,
    Standing,
    TypedRoundPolicy,
    View,
    only_gpus,
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

        def standing(gang: Gang) -> Standing:
            waits = max(start - gang.submitted_at, 0.0)
            gpus = gang.gpus or 1
            had = min(gang.attained_gpu_s / gpus / waits, 1.0) if waits else 0.0
            return {
                "policy": self.policy.name,
                "share": round(turn.share(gang), 2) if turn is not None else 0.0,
                "had": round(had, 2),
                "next_round": start + length,
                "warning": turn.warning() if turn is not None else "",
            }

        typed = turn if isinstance(self.policy, TypedRoundPolicy) else None
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
            leaf_of=typed.leaf_of if typed is not None else None,
            standing=standing,
            warning=typed.warning if typed is not None else None,
        )


class _Round:
    """The choice of one round, made when it is asked for."""

    def __init__(self, policy: RoundPolicy, start: float, domain: DomainFacts) -> None:
        self._policy, self._start, self._domain = policy, start, domain
        self._positions: dict[str, int] | None = None
        self._shares: Mapping[str, float] = {}
        self._running: dict[str, tuple[Gang, float]] = {}
        self._last_first: list[tuple[int, str, int]] | None = None  # of those that may yield
        self._leaves: dict[str, str] = {}
        self._warning = ""

    def position(self, gang: Gang) -> int:
        """Return the place of a gang in the order of the round; an unknown one is last."""
        positions = self._choose()
        return positions.get(gang.id, len(positions))

    def share(self, gang: Gang) -> float:
        """Return the share of the time of a gang."""
        self._choose()
        return self._shares.get(gang.id, 0.0)

    def leaf_of(self, gang: Gang) -> str | None:
        """Return the leaf type on which a gang that accepts any shall start in this round."""
        self._choose()
        return self._leaves.get(gang.id) if self._domain.accepts_any(gang) else None

    def warning(self) -> str:
        """Return why the shares are not what the policy would give."""
        self._choose()
        return self._warning

    def yielding(self, gang: Gang) -> Sequence[str]:
        """Return the running gangs behind a waiting one in the order of the round."""
        positions = self._choose()
        if self._shares.get(gang.id, 0.0) <= 0 or waits_since(gang) > self._start:
            return ()
        if self._last_first is None:
            old = [one for one, placed_at in self._running.values() if placed_at < self._start]
            self._last_first = sorted((-positions[one.id], one.id, one.priority) for one in old)
        first, priority = -self.position(gang), gang.priority
        others = takewhile(lambda one: one[0] < first, self._last_first)
        return [gang_id for _, gang_id, its in others if its <= priority]

    def _choose(self) -> dict[str, int]:
        if self._positions is not None:
            return self._positions
        domain = self._domain
        holdings = domain.held()
        gangs = {some.gang.id: some.gang for some in holdings}
        waiting = [gang for gang in domain.waiting() if gang.id not in gangs]
        gangs |= {gang.id: gang for gang in waiting}
        placed = {some.gang.id: at for some in holdings if (at := some.placed_at) is not None}
        parts = self._share_out(tuple(gangs.values()), placed)
        claims = [self._claim_of(some, parts) for some in holdings]
        for gang in waiting:
            claims += self._claims_of(gang, parts.get(gang.id))
        left = only_gpus(domain.capacity())
        chosen: dict[str, None] = {}
        others: dict[str, None] = {}
        for claim in sorted(claims, key=_by_claim):
            gang_id = claim.gang.id
            if gang_id in chosen:
                continue
            if claim.leaf is not None and gang_id not in others:
                self._leaves[gang_id] = claim.leaf  # the first is the one with most of its time
            if all(n <= left.get(leaf, 0) for leaf, n in claim.gpus.items()):
                for leaf, n in claim.gpus.items():
                    left[leaf] -= n
                chosen[gang_id] = None
                others.pop(gang_id, None)
                if claim.leaf is not None:
                    self._leaves[gang_id] = claim.leaf
            else:
                others.setdefault(gang_id)
        self._positions = {gang_id: n for n, gang_id in enumerate([*chosen, *others])}
        return self._positions

    def _share_out(
        self, gangs: Sequence[Gang], placed_at: Mapping[str, float]
    ) -> Mapping[str, Mapping[str, float]]:
        """Ask the policy for the shares. Return the parts on each leaf type, if it has such."""
        domain = self._domain
        view = RoundView(
            self._start, gangs, domain.demand, domain.capacity(), domain.accepts_any, placed_at
        )
        if not isinstance(self._policy, TypedRoundPolicy):
            self._shares = self._policy.shares(view)
            return {}
        made = self._policy.parts(view)
        self._warning = made.warning
        parts = made.by_gang
        self._shares = {gang_id: min(sum(own.values()), 1.0) for gang_id, own in parts.items()}
        return parts

    def _claim_of(self, some: HeldAmounts, parts: Mapping[str, Mapping[str, float]]) -> _Claim:
        """Return the claim of a gang on what it holds."""
        gang, gpus = some.gang, only_gpus(some.amounts)
        if some.placed_at is None:
            return _Claim(gang, gpus, 1.0, 0.0, nominated=True)
        self._running[gang.id] = gang, some.placed_at
        here = self._shares.get(gang.id, 0.0)
        if gpus and gang.id in parts:
            here = sum(parts[gang.id].get(leaf, 0.0) for leaf in gpus)
        had = (1 - here) * max(self._start - some.placed_at, 0.0)
        return _Claim(gang, gpus, here, self._policy.round_s * (1 - LESS) - had)

    def _claims_of(self, gang: Gang, parts: Mapping[str, float] | None) -> list[_Claim]:
        """Return the claims of a waiting gang: one, or one on each leaf type of which it has a
        part."""
        waited = max(self._start - waits_since(gang), 0.0)
        gpus = only_gpus(self._domain.demand(gang))
        if parts and len(gpus) == 1 and any(part > 0 for part in parts.values()):
            (size,) = gpus.values()
            return [
                _Claim(gang, {leaf: size}, part, part * waited, leaf, -part)
                for leaf, part in parts.items()
                if part > 0
            ]
        share = self._shares.get(gang.id, 0.0)
        return [_Claim(gang, gpus, share, share * waited)]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a gang may want in a round: GPUs by leaf type, its share of the time there, and how many
    seconds of it are owed. `leaf`: the type, of a gang that has parts of several; `least_first`
    orders such claims to which equal time is owed."""

    gang: Gang
    gpus: Mapping[str, float]
    share: float
    owed: float
    leaf: str | None = None
    least_first: float = 0.0
    nominated: bool = False


def _by_claim(claim: _Claim) -> Rank:
    gang = claim.gang
    order = -claim.owed, claim.least_first, gang.submitted_at, gang.id, claim.leaf or ""
    return not claim.nominated, -gang.priority, claim.share <= 0, *order


def _outranks(gang: Gang, other: Gang) -> bool:
    return gang.priority > other.priority


def _id_of(gang: Gang) -> str:
    return gang.id
