"""Makes decisions of a share policy: the tenant with the least share goes first.

After each start the shares are counted anew. With terms, a gang that has run for its term yields to
a waiting one whose tenant holds less even after it started: from the tenants with the largest share
the last gang leaves first, as long as their share is the larger one. So two tenants never displace
each other in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from skep_scheduler.model import Gang
from skep_scheduler.policies.base import (
    Amounts,
    BackfillMode,
    Decision,
    HeldAmounts,
    Keep,
    Rank,
    SharePolicy,
    View,
    weights_of,
)
from skep_scheduler.policies.ordered import outranking, starves_at


@dataclass(frozen=True, slots=True)
class Shared:
    """Ranks gangs by (starving first, priority, share of the tenant, tenant, submission, id);
    those that starve by submission."""

    policy: SharePolicy

    def decide(self, view: View) -> Decision:
        now, starvation_s = view.now, view.options.starvation_s
        tenants = _Tenants(self.policy, view)

        def rank(gang: Gang) -> Rank:
            # Those that starve go by submission: if shares decided, the line would be closed for
            # another one after each start, and each time the places would have to drain.
            if starves_at(gang, starvation_s) <= now:
                return False, -gang.priority, 0.0, "", gang.submitted_at, gang.id
            share = tenants.share_of(gang.owner)
            return True, -gang.priority, share, gang.owner, gang.submitted_at, gang.id

        return Decision(
            rank,
            by_submission,
            BackfillMode.SKIP,
            outranking(now, view.options),
            Keep.DISPLACE if self.policy.term_s else Keep.FIRM,
            self.policy.label,
            lane_of=_owner_of,
            note_start=tenants.note_start,
            yielding=tenants.yielding,
            wake_at=tenants.next_term(now),
        )


class _Tenants:
    """What each tenant holds, from the facts and the starts since."""

    def __init__(self, policy: SharePolicy, view: View) -> None:
        self._policy, self._view = policy, view
        self._weights = weights_of(policy.weights)
        self._held: defaultdict[str, defaultdict[str, float]] | None = None
        self._shares: dict[str, float] = {}
        self._holdings: Sequence[HeldAmounts] = ()

    def share_of(self, tenant: str) -> float:
        if tenant not in self._shares:
            self._shares[tenant] = self._share(tenant, self._all()[tenant])
        return self._shares[tenant]

    def note_start(self, gang: Gang) -> None:
        if self._view.domain is not None:
            _add(self._all()[gang.owner], self._view.domain.demand(gang))
            self._shares.pop(gang.owner, None)

    def yielding(self, gang: Gang) -> list[str]:
        domain, term_s = self._view.domain, self._policy.term_s
        if domain is None or not term_s:
            return []
        held = {tenant: defaultdict(float, some) for tenant, some in self._all().items()}
        mine = held.setdefault(gang.owner, defaultdict(float))
        _add(mine, domain.demand(gang))
        wanted = self._share(gang.owner, mine)
        by_tenant: dict[str, list[HeldAmounts]] = {}
        for some in self._holdings:
            over = some.placed_at is not None and some.placed_at + term_s <= self._view.now
            if over and some.gang.owner != gang.owner and some.gang.priority <= gang.priority:
                by_tenant.setdefault(some.gang.owner, []).append(some)
        for stack in by_tenant.values():
            stack.sort(key=lambda some: by_submission(some.gang))
        found: list[str] = []
        while by_tenant:
            tenant = max(by_tenant, key=lambda name: (self._share(name, held[name]), name))
            if self._share(tenant, held[tenant]) <= wanted:
                break
            last = by_tenant[tenant].pop()
            found.append(last.gang.id)
            _add(held[tenant], last.amounts, -1)
            if not by_tenant[tenant]:
                del by_tenant[tenant]
        return found

    def next_term(self, now: float) -> float | None:
        """Return when the next term ends."""
        term_s = self._policy.term_s
        if not term_s:
            return None
        self._all()
        ends = [h.placed_at + term_s for h in self._holdings if h.placed_at is not None]
        return min((end for end in ends if end > now), default=None)

    def _share(self, tenant: str, held: Amounts) -> float:
        if self._view.domain is None:
            return 0.0
        weight = self._weights.get(tenant, 1.0)
        return self._policy.share(held, self._view.domain.capacity(), weight)

    def _all(self) -> defaultdict[str, defaultdict[str, float]]:
        if self._held is None:
            self._held = defaultdict(lambda: defaultdict(float))
            if self._view.domain is not None:
                self._holdings = self._view.domain.held()
            for some in self._holdings:
                _add(self._held[some.gang.owner], some.amounts)
        return self._held


def by_submission(gang: Gang) -> Rank:
    """Return the order within a lane."""
    return -gang.priority, gang.submitted_at, gang.id


def _owner_of(gang: Gang) -> str:
    return gang.owner


def _add(total: defaultdict[str, float], amounts: Amounts, sign: int = 1) -> None:
    for resource, amount in amounts.items():
        total[resource] += sign * amount
