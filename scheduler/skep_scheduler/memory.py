"""What a scheduler keeps from one plan to the next: an index of the queue, and which domains cannot
have changed. None of it is truth: a plan with a new memory decides the same."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from skep_scheduler.backfill.reservations import SHARED
from skep_scheduler.model import Code, Gang, Options, PolicyChoice
from skep_scheduler.placement.cells_placer import OWN_REFUSALS
from skep_scheduler.policies.base import Decision
from skep_scheduler.policies.domain import DomainCounts
from skep_scheduler.policies.ordered import starves_at
from skep_scheduler.state import ClusterState
from skep_scheduler.state.queues import DomainQueue
from skep_scheduler.state.request_classes import Kind

NEVER = float("inf")
IDLE = ""  # the name of the domain of all opportunistic gangs
REFRESH_S = 30.0  # after which a tick plans a domain again although none of its facts changed
# What may be answered otherwise after a change in another domain. A gang whose victims are too
# young keeps its places during the plan, so its domain is planned before the idle one.
SENSITIVE = SHARED | {Code.VICTIMS_TOO_YOUNG, Code.COOLING_DOWN, *OWN_REFUSALS}


def domain_of(gang: Gang) -> str:
    return IDLE if gang.opportunistic else gang.vc


@dataclass(slots=True)
class DomainMemory:
    """One domain between two plans.

    stale: facts of it changed, or its last plan was not only waiting
    sensitive: what it waits for may also come from other domains: CPU and memory of shared nodes,
        healthy hardware, victims that leave
    look_at: when its plan may change although nothing happens (seconds since the epoch)
    refresh_at: when it is planned again, for the numbers in its reasons and the effect of ageing
    sized: its policy changes the sizes of gangs that run, so that it is planned also when none
        waits
    """

    queue: DomainQueue
    policy: PolicyChoice
    stale: bool = True
    sensitive: bool = False
    look_at: float = NEVER
    refresh_at: float = NEVER
    sized: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class Memory:
    """Follows one cluster state.

    changed: whether any fact changed since the last plan
    could_start: whether gangs of a kind fit into their virtual cluster at all, and when that was
        found out
    planned_domains: the domains that were planned, until the owner of the memory empties it
    """

    options: Options
    domains: dict[str, DomainMemory] = field(default_factory=dict)
    changed: bool = True
    could_start: dict[Kind, tuple[bool, float]] = field(default_factory=dict)
    planned_domains: set[str] = field(default_factory=set)
    _state: ClusterState | None = None
    _counts: DomainCounts | None = None
    _gangs: dict[str, str] = field(default_factory=dict)  # domain by gang that waits
    _touched: set[str] = field(default_factory=set)
    _touched_vcs: set[str] | None = None  # None: all

    def follow(self, state: ClusterState, options: Options) -> None:
        """Follow the changes of a state from now on. Everything is new if it is another one."""
        if self._state is not state or self.options != options:
            self._state, self.options = state, options
            self.touch_all()
            state.follow_by(self)

    def touch(self, gang_id: str) -> None:
        """Note that a fact about a gang changed."""
        self._touched.add(gang_id)
        self.changed = True

    def touch_all(self) -> None:
        """Note that cells, nodes or virtual clusters changed."""
        self.domains.clear()
        self._gangs.clear()
        self._touched.clear()
        self.could_start.clear()
        self._counts = None
        self._touched_vcs = None
        self.changed = True

    def touch_places(self) -> None:
        """A node or a device came, went, or is healthy or not."""
        for domain in self.domains.values():
            domain.stale = True
        self.could_start.clear()
        self._counts = None
        self._touched_vcs = None
        self.changed = True

    def touch_vc(self, name: str) -> None:
        """A guaranteed gang of this virtual cluster holds other places than before."""
        self.changed = True
        if name in self.domains:
            self.domains[name].stale = True
        if self._touched_vcs is not None:
            self._touched_vcs.add(name)

    def touched_vcs(self) -> Collection[str] | None:
        """Return the virtual clusters whose gangs hold other places since the last plan; None: any
        of them may."""
        return self._touched_vcs

    def could_ever_start(self, kind: Kind, now: float, ask: Callable[[], bool]) -> bool:
        """Return whether gangs of a kind fit into their virtual cluster at all: as it was found in
        the last `REFRESH_S`, or else by asking."""
        known, at = self.could_start.get(kind, (False, -NEVER))
        if not at <= now < at + REFRESH_S:
            known = ask()
            self.could_start[kind] = known, now
        return known

    def counts(self, state: ClusterState) -> DomainCounts:
        """Return what is counted again only when a node or a virtual cluster changed. `state` is
        the one that it follows."""
        if self._counts is None:
            self._counts = DomainCounts(state)
        return self._counts

    def waiting_in(self, vc: str) -> list[Gang]:
        """Return the guaranteed gangs of a virtual cluster that wait for a place, in no order."""
        domain = self.domains.get(vc)
        return domain.queue.all() if domain is not None else []

    def due_vcs(self, is_due: Callable[[DomainMemory], bool]) -> list[str]:
        """Return the virtual clusters to plan: those with gangs that wait, the one whose first gang
        was submitted first comes first; then the others, as far as they are not only sized."""
        walks, waits = list[tuple[float, str]](), list[str]()
        for name, domain in self.domains.items():
            if name == IDLE:
                continue
            if not domain.queue.lanes:
                if not domain.sized or is_due(domain):
                    waits.append(name)
            elif is_due(domain):
                first = min(lane.gangs[0].submitted_at for lane in domain.queue.lanes.values())
                walks.append((first, name))
        return [name for _, name in sorted(walks)] + sorted(waits)

    def planned(self, *, again: bool) -> None:
        """Forget the changes so far: a plan has seen them. `again`: the next plan looks at the
        places of all gangs again, since this one asks for a change of them."""
        self._touched_vcs = None if again else set()
        self.changed = False

    def catch_up(
        self, state: ClusterState, now: float, decision_of: Callable[[str], Decision]
    ) -> None:
        """Bring the queues up to date."""
        if not self.domains:
            self._build(state, now, decision_of)
        for gang_id in self._touched:
            self._move(state, gang_id, now, decision_of)
        self._touched.clear()
        for domain in self.domains.values():
            if domain.queue.advance(now):
                domain.stale = True

    def _build(
        self, state: ClusterState, now: float, decision_of: Callable[[str], Decision]
    ) -> None:
        self._touched.clear()
        by_domain: dict[str, list[Gang]] = {}
        for gang in state.queued():
            by_domain.setdefault(domain_of(gang), []).append(gang)
            self._gangs[gang.id] = domain_of(gang)
        for name in state.policies:
            if name not in by_domain and decision_of(name).tasks_of is not None:
                self._domain(state, name, decision_of)
        for name, gangs in by_domain.items():
            self._domain(state, name, decision_of).queue.fill(gangs, now)

    def _move(
        self, state: ClusterState, gang_id: str, now: float, decision_of: Callable[[str], Decision]
    ) -> None:
        before, gang = self._gangs.pop(gang_id, None), state.queued_gang(gang_id)
        after = domain_of(gang) if gang is not None else None
        if before is not None:
            self.domains[before].stale = True
            if before != after:
                self.domains[before].queue.remove(gang_id)
        if gang is not None and after is not None:
            domain = self._domain(state, after, decision_of)
            domain.stale = True
            domain.queue.put(gang, now)
            self._gangs[gang_id] = after

    def _domain(
        self, state: ClusterState, name: str, decision_of: Callable[[str], Decision]
    ) -> DomainMemory:
        if name not in self.domains:
            decision = decision_of(name)
            limit = self.options.starvation_s if decision.guards else NEVER
            lane_of = decision.lane_of or (
                lambda gang: gang.owner if gang.vc in state.user_limits else ""
            )
            queue = DomainQueue(
                decision.order, state.kind_of, lambda gang: starves_at(gang, limit), lane_of
            )
            policy = state.policies.get(name, PolicyChoice())
            sized = decision.tasks_of is not None
            self.domains[name] = DomainMemory(queue, policy, sized=sized)
        return self.domains[name]
