"""The facts of a virtual cluster for policies of shares and rounds, read from the cluster state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from skep_scheduler.cells.state import Domain
from skep_scheduler.inventory import describe
from skep_scheduler.model import Allocation, Gang, Member, TaskAllocation
from skep_scheduler.policies.base import (
    CPU,
    MEMORY,
    Amounts,
    Decision,
    GangDemand,
    HeldAmounts,
    only_gpus,
)
from skep_scheduler.state import ClusterState
from skep_scheduler.state.request_classes import Kind

MOST_DEMANDS = 200_000  # gangs of which it is remembered what they ask for
T = TypeVar("T")
# By virtual cluster and the id of the members of a gang, which are kept, so that no others get it.
Known = dict[tuple[str, int], tuple[tuple[Member, ...], T]]


@dataclass(slots=True)
class DomainCounts:
    """What is counted once for many plans. To be made anew when a node or a virtual cluster
    changes."""

    state: ClusterState
    demands: Known[Amounts] = field(default_factory=dict)
    steps: Known[tuple[Amounts, Amounts]] = field(default_factory=dict)
    _shares: dict[str, tuple[float, float]] | None = None

    def share_of(self, leaf: str) -> tuple[float, float]:
        """Return the CPU and memory that come with a GPU: the mean over all nodes with such."""
        if self._shares is None:
            totals: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
            for node in self.state.nodes.values():
                if node.devices:
                    total = totals[leaf_of(self.state, node.devices[0].model)]
                    total[0] += len(node.devices)
                    total[1] += node.cpu_millis
                    total[2] += node.memory_mb
            self._shares = {
                leaf: (cpu / gpus, memory / gpus) for leaf, (gpus, cpu, memory) in totals.items()
            }
        return self._shares.get(leaf, (0.0, 0.0))


def _remembered(known: Known[T], gang: Gang, count: Callable[[Gang], T]) -> T:
    """Return what was counted for these very members, or else count it. To hash their fields would
    take longer than to count."""
    key = gang.vc, id(gang.members)
    if (found := known.get(key)) is None:
        if len(known) >= MOST_DEMANDS:
            known.clear()
        found = known[key] = gang.members, count(gang)
    return found[1]


@dataclass(slots=True)
class VcDomain:
    """A virtual cluster and its guaranteed gangs. `also`: a gang as if it waited, too;
    `unavailable`: the GPUs of a part of what it owns that no gang runs on and none can have now."""

    state: ClusterState
    vc: str
    counts: DomainCounts
    also: Gang | None = None
    unavailable: Callable[[str, Domain], int] = lambda vc, domain: 0
    _capacity: dict[str, float] | None = field(default=None)
    _models: dict[str, str] = field(default_factory=dict)

    def waiting(self) -> Sequence[Gang]:
        waiting = [
            gang
            for gang in self.state.waiting.values()
            if gang.vc == self.vc
            and not gang.opportunistic
            and gang.id not in self.state.nominated
            and (self.also is None or gang.id != self.also.id)
        ]
        return [*waiting, self.also] if self.also is not None else waiting

    def held(self) -> Sequence[HeldAmounts]:
        state, found = self.state, []
        for gang_id in sorted(state.running_of.get(self.vc, ())):
            known = state.running[gang_id]
            if state.is_guaranteed(gang_id) and not known.leaving:
                found.append(HeldAmounts(known.gang, self._held(known.tasks), known.placed_at))
        for _, nomination in sorted(state.nominated.items()):
            if nomination.gang.vc == self.vc and not nomination.gang.opportunistic:
                found.append(HeldAmounts(nomination.gang, self._held(nomination.tasks), None))
        return found

    def leaving(self) -> Sequence[HeldAmounts]:
        found = []
        for gang_id in sorted(self.state.running_of.get(self.vc, ())):
            known = self.state.running[gang_id]
            if known.leaving and self.state.is_guaranteed(gang_id):
                found.append(HeldAmounts(known.gang, self._held(known.tasks), known.placed_at))
        return found

    def usable_gpus(self) -> Amounts:
        cells, usable = self.state.cells, defaultdict[str, float](float)
        known = cells.vcs.get(self.vc)
        for domain in (*known.chains.values(), *known.pins.values()) if known else ():
            leaf = cells.chains[domain.chain].shape.leaf_type
            owned = sum(root.spec.leaves for root in domain.roots)
            usable[leaf] += owned - self.unavailable(self.vc, domain)
        return usable

    def capacity(self) -> Amounts:
        if self._capacity is None:
            owned: defaultdict[str, float] = defaultdict(float)
            cells = self.state.cells
            known = cells.vcs.get(self.vc)
            for domain in (*known.chains.values(), *known.pins.values()) if known else ():
                leaf = cells.chains[domain.chain].shape.leaf_type
                gpus = sum(root.spec.leaves for root in domain.roots)
                if gpus:
                    cpu, memory = self.counts.share_of(leaf)
                    owned[leaf] += gpus
                    owned[CPU] += gpus * cpu
                    owned[MEMORY] += gpus * memory
            self._capacity = dict(owned)
        return self._capacity

    def demand(self, gang: Gang) -> Amounts:
        return _remembered(self.counts.demands, gang, self._demand)

    def demand_of_steps(self, gang: Gang) -> tuple[Amounts, Amounts]:
        return _remembered(self.counts.steps, gang, self._demand_of_steps)

    def _demand_of_steps(self, gang: Gang) -> tuple[Amounts, Amounts]:
        return self._demand(gang.resized(1)), self._demand(gang.resized(2))

    def _demand(self, gang: Gang) -> Amounts:
        amounts: defaultdict[str, float] = defaultdict(float)
        for member in gang.members:
            gpus = self._gpus(member)
            if gpus:
                amounts[self._leaf(member)] += member.count * gpus
            amounts[CPU] += member.count * member.cpu_millis
            amounts[MEMORY] += member.count * member.memory_mb
        return GangDemand(amounts)

    def running(self) -> Iterator[Allocation]:
        state = self.state
        for gang_id in sorted(state.running_of.get(self.vc, ())):
            if state.is_guaranteed(gang_id) and not state.running[gang_id].leaving:
                yield state.running[gang_id]

    def services(self) -> Sequence[float]:
        return self.state.services.get(self.vc, ())

    def accepts_any(self, gang: Gang) -> bool:
        if gang.incremental:
            return False
        for member in gang.members:
            if member.gpu_model is not None or member.cell_type is not None:
                return False
        return True

    def _gpus(self, member: Member) -> int:
        if member.cell_type is None:
            return member.gpus
        return (member.cells or 1) * int(
            describe(self.state.cells.config, member.cell_type)["gpus"]
        )

    def _leaf(self, member: Member) -> str:
        if member.gpu_model is not None:
            return self._leaf_of(member.gpu_model)
        if member.cell_type is not None:
            for shape in self.state.built.config.shapes.values():
                if any(level.type == member.cell_type for level in shape.levels):
                    return shape.leaf_type
        owned = self.capacity()
        leaves = sorted(only_gpus(owned))
        return max(leaves, key=lambda leaf: owned[leaf], default="")

    def _leaf_of(self, model: str) -> str:
        if model not in self._models:
            self._models[model] = leaf_of(self.state, model)
        return self._models[model]

    def _held(self, tasks: Iterable[TaskAllocation]) -> Amounts:
        amounts: defaultdict[str, float] = defaultdict(float)
        for task in tasks:
            if task.gpu_uuids:
                model = self.state.models.get(task.gpu_uuids[0], "")
                amounts[self._leaf_of(model)] += len(task.gpu_uuids)
            amounts[CPU] += task.cpu_millis
            amounts[MEMORY] += task.memory_mb
        return amounts


def leaf_of(state: ClusterState, model: str) -> str:
    """Return the leaf type of a GPU model."""
    return next(iter(state.leaf_types(model)), model)


def shaped_for(gang: Gang, leaf: str) -> Gang:
    """Return a gang that accepts any GPU model with the one that its policy chose for it."""
    members = (replace(m, gpu_model=leaf) if m.gpus else m for m in gang.members)
    return replace(gang, members=tuple(members))


@dataclass(slots=True)
class KindsOn:
    """The kinds of gangs that accept any GPU model with the one that their policy chose, for the
    length of a plan: a gang is only shaped where no other one of its kind was."""

    state: ClusterState
    _known: dict[tuple[Kind, str], Kind] = field(default_factory=dict)

    def chosen(self, gang: Gang, kind: Kind, decision: Decision) -> tuple[str | None, Kind]:
        """Return the leaf type that a decision chose for a gang, and its kind there; None: it may
        have any."""
        leaf = decision.leaf_of(gang) if decision.leaf_of is not None else None
        if leaf is None:
            return None, kind
        if (found := self._known.get((kind, leaf))) is None:
            found = self.state.kind_as_asked(shaped_for(gang, leaf))
            self._known[kind, leaf] = found
        return leaf, found


def warnings_of(decisions: Mapping[str, Decision]) -> dict[str, str]:
    """Return what is wrong with the policy of a virtual cluster, by its name."""
    asked = {vc: decision.warning for vc, decision in decisions.items()}
    found = {vc: warning() for vc, warning in asked.items() if warning is not None}
    return {vc: text for vc, text in found.items() if text}
