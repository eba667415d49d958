"""`plan`: one tick of the scheduler, as a pure function of a snapshot, the time and a policy."""

from __future__ import annotations

from dataclasses import replace

from skep_scheduler.accounts import Accounts
from skep_scheduler.gang import Demands, Kind, demands_of, gpus_by_model, kind_of
from skep_scheduler.packing import Packing, leftover, pack
from skep_scheduler.placement import place
from skep_scheduler.plan import Placement, Plan, Reason
from skep_scheduler.policies import Policy, by_name
from skep_scheduler.reasons import Explainer
from skep_scheduler.room import Room
from skep_scheduler.search import Budget
from skep_scheduler.state import Gang, Snapshot

DEFAULT_POLICY = by_name("priority")


def plan(snapshot: Snapshot, now: float, policy: Policy = DEFAULT_POLICY) -> Plan:
    """A placement or a reason for every waiting gang. `now` is in seconds since the epoch.

    Greedy: a gang that cannot start does not hold back later, smaller ones.
    """
    # 1. Build the throw-away view: free room, and what each VC owns and uses.
    tick = Tick(snapshot)
    # 2. Queue the gangs: in the policy's order, but opportunistic ones after all guaranteed ones.
    ranked = sorted(policy.order(snapshot, now), key=lambda gang: gang.opportunistic)
    queue = [(gang, kind_of(gang)) for gang in ranked]
    # 3. Try each gang that is due. One that fits takes its room and its quota at once.
    due = [(gang, kind) for gang, kind in queue if gang.not_before <= now]
    placements = {p.gang_id: p for gang, kind in due if (p := tick.try_to_place(gang, kind))}
    # 4. Give all others their reasons, with the numbers as they are after the placements.
    left = [(gang, kind) for gang, kind in queue if gang.id not in placements]
    reasons = Explainer(snapshot, tick.room, tick.accounts).reasons(left, now)
    return Plan(tuple(placements.values()), reasons)


def explain(
    snapshot: Snapshot, gang: Gang, now: float, policy: Policy = DEFAULT_POLICY
) -> Placement | Reason:
    """What a tick would answer if `gang` waited too. It costs a tick: leave `snapshot.waiting`
    empty to ask only whether the gang fits into what is free."""
    others = tuple(other for other in snapshot.waiting if other.id != gang.id)
    answer = plan(replace(snapshot, waiting=(*others, gang)), now, policy)
    placed = {placement.gang_id: placement for placement in answer.placements}
    return placed.get(gang.id) or answer.reasons[gang.id]


class Tick:
    """The state of one `plan`. Room and quota only shrink while it runs, so what was refused once
    stays refused: one search answers for all gangs of a kind."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.room = Room(snapshot)
        self.accounts = Accounts(snapshot)
        self._budget = Budget()
        self._refused: set[Kind] = set()
        self._no_room: set[Demands] = set()

    def try_to_place(self, gang: Gang, kind: Kind) -> Placement | None:
        if kind in self._refused or kind.vc not in self.accounts.vcs:
            return None
        best = self._best_packing(kind)
        if best is None:
            self._refused.add(kind)
            return None
        packing, model = best
        self.accounts.charge(gang, gpus_by_model(packing.demands))
        return place(self.room, gang, packing, model)

    def _best_packing(self, kind: Kind) -> tuple[Packing, str | None] | None:
        """On the GPU model that takes the fewest nodes, then leaves the least, then by name."""
        found = [
            (packing, model)
            for model in self.accounts.models_for(kind)
            if (packing := self._pack(kind, demands_of(kind.shape, model))) is not None
        ]
        if len(found) <= 1:
            return found[0] if found else None
        return min(found, key=lambda f: (len(f[0].ranks), leftover(self.room, f[0])))

    def _pack(self, kind: Kind, demands: Demands) -> Packing | None:
        if demands in self._no_room or not self._within_quota(kind, demands):
            return None
        packing = pack(self.room, demands, self._budget)
        if packing is None:
            self._no_room.add(demands)
        return packing

    def _within_quota(self, kind: Kind, demands: Demands) -> bool:
        account = self.accounts.vcs[kind.vc]
        return kind.opportunistic or account.affords(gpus_by_model(demands))
