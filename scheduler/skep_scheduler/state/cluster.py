"""`ClusterState`: what is known by facts, and what follows from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol
from weakref import WeakSet

from skep_scheduler.cells import grow, health
from skep_scheduler.cells.state import CellState
from skep_scheduler.inventory import build
from skep_scheduler.model import (
    Allocation,
    Gang,
    Inventory,
    Node,
    Placement,
    PolicyChoice,
    Reason,
    TaskAllocation,
    TaskPlacement,
    UserLimits,
)
from skep_scheduler.state import invariants
from skep_scheduler.state.allocations import Allocations
from skep_scheduler.state.digest import digest_of
from skep_scheduler.state.node_resources import Resources
from skep_scheduler.state.request_classes import Kind, Kinds, owner_of

CELLS_CHANGED = "cells_changed"
ALREADY_DOWNGRADED = "it was downgraded before"


@dataclass(frozen=True, slots=True)
class Changed:
    """What a new inventory did to gangs. Every plan reports the same again until it is done."""

    downgraded: Mapping[str, Reason] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Nomination:
    gang: Gang
    tasks: tuple[TaskAllocation, ...]
    placement: Placement


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How often a preemption of a gang was cancelled, and when at last."""

    times: int
    at: float


@dataclass(frozen=True, slots=True)
class ReservedStart:
    """A start, and places for it (by the position of the member) that may do."""

    start: float
    tasks: tuple[tuple[int, TaskPlacement], ...] = ()


class Follower(Protocol):
    """Whom a state reports its changes to."""

    def touch(self, gang_id: str) -> None: ...
    def touch_vc(self, name: str) -> None: ...
    def touch_places(self) -> None: ...
    def touch_all(self) -> None: ...


class _NoPlaceError(Exception):
    pass


class ClusterState:
    """waiting, running, nominated: the gangs by id, as the facts have them
    allocations: the cells and the CPU and memory of nodes, as they follow from that
    reservations: by gang, the start that the last plan reserved
    cancelled: preemptors that were cancelled; built: what the inventory was made into
    services: by virtual cluster, the GPU-seconds of its last gangs that ended, see `VirtualCluster`
    models: the GPU model by UUID; growing: gangs that run while tasks of them wait for places
    """

    def __init__(self) -> None:
        self._others = Inventory()  # but for its nodes
        self.nodes: dict[str, Node] = {}
        self.waiting: dict[str, Gang] = {}
        self.running: dict[str, Allocation] = {}
        self.nominated: dict[str, Nomination] = {}
        self.cancelled: dict[str, Cancelled] = {}
        self.reservations: dict[str, ReservedStart] = {}
        self.policies: dict[str, PolicyChoice] = {}
        self.user_limits: dict[str, UserLimits] = {}  # by virtual cluster, of those that have any
        self.services: dict[str, tuple[float, ...]] = {}
        self.allocations = Allocations()
        self.built = build(Inventory())
        self._kinds = Kinds(self.leaf_types)
        self._kind_of: dict[str, Kind] = {}
        self.models: dict[str, str] = {}
        self.growing: set[str] = set()
        self.running_of: defaultdict[str, set[str]] = defaultdict(set)  # ids by virtual cluster
        self._downgraded: set[str] = set()  # those that run and are downgraded by fact
        self._stale = False
        self._followers: WeakSet[Follower] = WeakSet()

    def follow_by(self, follower: Follower) -> None:
        """Report every change of a fact to `follower` from now on, as long as it lives."""
        self._followers.add(follower)

    def queued(self) -> Iterator[Gang]:
        """Return the gangs that wait for a place: not those that wait for their victims."""
        yield from (gang for gang in self.waiting.values() if gang.id not in self.nominated)
        for gang_id in self.growing:
            if not self.running[gang_id].leaving:
                yield self.running[gang_id].gang

    def queued_gang(self, gang_id: str) -> Gang | None:
        """Return a gang if it waits for a place, as `queued` does."""
        if gang_id in self.growing:
            allocation = self.running[gang_id]
            return None if allocation.leaving else allocation.gang
        return None if gang_id in self.nominated else self.waiting.get(gang_id)

    def set_inventory(self, inventory: Inventory) -> Changed:
        """Nodes, virtual clusters, pins, layout: nothing moves and nothing is killed by it."""
        self.built = build(inventory)
        self._others = replace(inventory, nodes=())
        for follower in self._followers:
            follower.touch_all()
        self.policies = {vc.name: vc.policy for vc in inventory.virtual_clusters}
        self.services = {vc.name: vc.services for vc in inventory.virtual_clusters if vc.services}
        limited = (vc for vc in inventory.virtual_clusters if vc.user_limits)
        self.user_limits = {vc.name: vc.user_limits for vc in limited}
        self.allocations.use(grow.apply(self.allocations.cells, self.built.config)[0])
        for name in self.allocations.resources.nodes.keys() - {
            node.name for node in inventory.nodes
        }:
            self.allocations.resources.remove(name)
        self.nodes = {}
        for node in inventory.nodes:
            self._know(node)
        self._learn_models()
        for gang_id, allocation in self.running.items():
            if allocation.downgraded:
                self.allocations.downgrade(gang_id, ALREADY_DOWNGRADED)
        self._stale = True
        self.reconcile()
        with self.trial():
            restored = tuple(self.restored())
        return Changed(
            {gang: self.downgrade_reason(gang) for gang in self.downgraded()},
            restored,
            tuple(gang for gang in self.nominated if not self.allocations.groups.get(gang)),
        )

    def set_node(self, node: Node) -> Changed:
        """A node as it is now. Only a new shape of it costs more than the node itself."""
        known = self.nodes.get(node.name)
        if known is None or _shape(known) != _shape(node):
            nodes = tuple((self.nodes | {node.name: node}).values())
            return self.set_inventory(replace(self._others, nodes=nodes))
        if known != node:
            self._know(node)
            for follower in self._followers:
                follower.touch_places()
        return Changed()

    def set_services(self, services: Mapping[str, tuple[float, ...]]) -> None:
        """Replace what is known of gangs that ended. All queues are made anew: call it rarely."""
        vcs = self._others.virtual_clusters
        vcs = tuple(replace(vc, services=services.get(vc.name, ())) for vc in vcs)
        if vcs != self._others.virtual_clusters:
            self._others = replace(self._others, virtual_clusters=vcs)
            self.services = {vc.name: vc.services for vc in vcs if vc.services}
            for follower in self._followers:
                follower.touch_all()

    @property
    def cells(self) -> CellState:
        """Return the cells, to look at. The gang of a group is `owner_of(group)`."""
        return self.allocations.cells

    @property
    def inventory(self) -> Inventory:
        return replace(self._others, nodes=tuple(self.nodes.values()))

    def set_waiting(self, gang: Gang) -> None:
        if gang.id in self.running:
            self.forget(gang.id)
        known = self.waiting.get(gang.id)
        if known is not None and known.opportunistic != gang.opportunistic:
            self.reservations.pop(gang.id, None)  # in another domain
        if known != gang:
            self.waiting[gang.id] = gang
            self._kind_of.pop(gang.id, None)
            self._report(gang.id)

    def set_running(self, allocation: Allocation) -> None:
        gang_id = allocation.gang.id
        allocation = replace(allocation, tasks=_sorted(allocation.tasks))
        self.waiting.pop(gang_id, None)
        self.note_started(gang_id)
        self.nominated.pop(gang_id, None)
        known, self.running[gang_id] = self.running.get(gang_id), allocation
        if known != allocation:
            self._report(gang_id, allocation.gang)
        self._kind_of.pop(gang_id, None)
        (self.growing.add if allocation.unplaced else self.growing.discard)(gang_id)
        if known is not None:
            self.running_of[known.gang.vc].discard(gang_id)
        self.running_of[allocation.gang.vc].add(gang_id)
        (self._downgraded.add if allocation.downgraded else self._downgraded.discard)(gang_id)
        if known is not None and known.downgraded != allocation.downgraded:
            self.allocations.release(gang_id)
            known = None
        if known is None or known.tasks != allocation.tasks:
            self._put(allocation)
            self._stale = True

    def set_nominated(self, gang: Gang, placement: Placement | None) -> None:
        """Record the `placement` that a plan nominated; None: the gang has none any more."""
        known = self.nominated.get(gang.id)
        if known is not None or placement is not None:
            self._report(gang.id, gang)
        if known is not None and (placement is None or known.placement != placement):
            del self.nominated[gang.id]
            self.allocations.release(gang.id)
            self._stale = True
        if placement is not None and gang.id not in self.running:
            tasks = held(gang, placement)
            self.nominated[gang.id] = Nomination(gang, tasks, placement)
            if known is None or known.placement != placement:
                self.allocations.reserve(gang, tasks)
                self._stale = True

    def forget(self, gang_id: str) -> None:
        holder = self.running.get(gang_id) or self.nominated.get(gang_id)
        self._report(gang_id, holder.gang if holder is not None else None)
        self.waiting.pop(gang_id, None)
        self.cancelled.pop(gang_id, None)
        self.reservations.pop(gang_id, None)
        self._kind_of.pop(gang_id, None)
        self.growing.discard(gang_id)
        self._downgraded.discard(gang_id)
        if gang_id in self.running:
            self.running_of[self.running[gang_id].gang.vc].discard(gang_id)
        known = self.running.pop(gang_id, None) or self.nominated.pop(gang_id, None)
        if known is not None:
            self.allocations.release(gang_id)
            self._stale = True

    def note_cancelled(self, gang_id: str, now: float) -> None:
        """Record that a preemption of a waiting gang was cancelled at `now` (seconds since the
        epoch): it cools down before it preempts again."""
        known = self.cancelled.get(gang_id)
        self.cancelled[gang_id] = Cancelled(known.times + 1 if known is not None else 1, now)

    def note_started(self, gang_id: str) -> None:
        """Record that a gang got places: it has no cool-down and no reserved start any more."""
        self.cancelled.pop(gang_id, None)
        self.reservations.pop(gang_id, None)

    def set_reservations(self, starts: Mapping[str, ReservedStart]) -> None:
        """Replace all reserved starts, by gang, as `plan` does. Those of gangs that do not wait
        are left out."""
        self.reservations = {
            gang_id: start for gang_id, start in starts.items() if gang_id in self.waiting
        }

    def set_cooldowns(self, cancelled: Mapping[str, Cancelled]) -> None:
        """Replace all cool-downs, by gang. Those of gangs that do not wait are left out."""
        self.cancelled = {
            gang_id: known for gang_id, known in cancelled.items() if gang_id in self.waiting
        }

    def digest(self) -> Hashable:
        """Return a value that is equal for states with the same facts, in whatever order they came
        and with whatever in between. What earlier plans decided for waiting gangs is a fact, too:
        reserved starts, and cool-downs after cancelled preemptions. The states of equal digests
        give equal plans."""
        self.reconcile()
        return digest_of(
            self.waiting.values(),
            self.running.values(),
            ((nominated.gang, nominated.tasks) for nominated in self.nominated.values()),
            self.nodes,
            self.allocations,
            self.reservations.items(),
            self.cancelled.items(),
        )

    def validate(self) -> None:
        """Raises `InvariantError`. It walks the whole state."""
        self.reconcile()
        invariants.validate(self.waiting, self.nominated, self.running, self.allocations)

    def violations_around(
        self, gang_ids: Collection[str], places: Collection[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield a sentence for each invariant that a change of these gangs at these devices (node,
        UUID) broke. It looks at these gangs, devices and nodes alone, and at the cells that contain
        them; between a plan and the next change of a fact."""
        return invariants.violations_around(
            gang_ids, places, self.waiting, self.nominated, self.running, self.allocations
        )

    def trial(self) -> AbstractContextManager[None]:
        """Take back what is done to `allocations` inside; no fact may change meanwhile."""
        self.reconcile()
        return self.allocations.trial()

    def kind_of(self, gang: Gang) -> Kind:
        kind = self._kind_of.get(gang.id)
        if kind is None:
            kind = self._kinds.of(gang)
            if gang.id in self.waiting or gang.id in self.running:
                self._kind_of[gang.id] = kind
        return kind

    def kind_as_asked(self, gang: Gang) -> Kind:
        """Return the kind of a gang that asks for something else than it did when it came."""
        return self._kinds.of(gang)

    def leaf_types(self, model: str) -> list[str]:
        """The leaf types that a GPU model, or the leaf type itself, stands for."""
        if model in self.built.models:
            return [model]
        return sorted(leaf for leaf, models in self.built.models.items() if model in models)

    def is_guaranteed(self, gang_id: str) -> bool:
        """Return whether it runs in its VC's cells, by fact and as the cells see it."""
        allocation = self.running[gang_id]
        return not (
            allocation.gang.opportunistic
            or allocation.downgraded
            or (self.cells.downgraded and self.allocations.is_downgraded(gang_id))
        )

    def downgraded(self) -> list[str]:
        """Return gangs that are guaranteed by fact, but for which their VC cannot account."""
        owners = {
            owner_of(self.allocations.cells.groups[name])
            for name in self.allocations.cells.downgraded
        }
        return sorted(g for g in owners if g in self.running and not self.running[g].downgraded)

    def restored(self, vcs: Collection[str] | None = None) -> list[str]:
        """Restore downgraded gangs, of these virtual clusters or of all, for which their virtual
        cluster can account without taking a place from another gang. Call it in a trial."""
        known = (self.running[gang_id] for gang_id in self._downgraded)
        lost = [h for h in known if not h.leaving and (vcs is None or h.gang.vc in vcs)]
        return [h.gang.id for h in sorted(lost, key=_precedence) if self._restore(h)]

    def downgrade_reason(self, gang_id: str) -> Reason:
        why = next(g.downgraded_by for g in self.allocations.groups_of(gang_id) if g.downgraded_by)
        gang = self.running[gang_id].gang
        message = f"{gang.vc} does not own the cells any more that it runs on; it runs on "
        return Reason(CELLS_CHANGED, message + "opportunistically.", {"vc": gang.vc, "cause": why})

    def reconcile(self) -> None:
        """Facts that came in an unlucky order (who comes before who goes) leave gangs unaccounted:
        these are put anew, and if that does not help, all of their VCs' gangs."""
        if not self._stale:
            return
        self._stale = False
        for gang_id in sorted(self.nominated):
            if not self.is_nominated(gang_id):
                self._clear_for(self.nominated[gang_id])
        suspects = self._suspects()
        if suspects:
            self._put_anew(suspects)
            suspects = self._suspects()
        if suspects:
            vcs = {self._gang(gang_id).vc for gang_id in suspects}
            everyone = [*self.running, *self.nominated]
            self._put_anew({g for g in everyone if self._gang(g).vc in vcs} | suspects)
        for gang_id in self.downgraded():
            self.allocations.downgrade(gang_id, "other tasks of it have no cells")

    def _report(self, gang_id: str, holder: Gang | None = None) -> None:
        """`holder`: the gang, if it holds other places than before."""
        for follower in self._followers:
            follower.touch(gang_id)
            # Opportunistic gangs, too, count against what a user may hold.
            if holder is not None and (not holder.opportunistic or holder.vc in self.user_limits):
                follower.touch_vc(holder.vc)

    def _clear_for(self, nomination: Nomination) -> None:
        """Who leaves has no claim any more to what is nominated for a preemptor."""
        wanted = {uuid for task in nomination.tasks for uuid in task.gpu_uuids}
        for gang_id, allocation in self.running.items():
            if allocation.leaving and any(
                wanted.intersection(t.gpu_uuids) for t in allocation.tasks
            ):
                self.allocations.downgrade(gang_id, "a nominated gang takes its place")
        self.allocations.release(nomination.gang.id)
        self.allocations.reserve(nomination.gang, nomination.tasks)

    def _suspects(self) -> set[str]:
        lost = {gang_id for gang_id in self.nominated if not self.is_nominated(gang_id)}
        return lost | set(self.downgraded()) | self.allocations.oversubscribed()

    def is_nominated(self, gang_id: str) -> bool:
        """Return whether the cells hold what is nominated for it."""
        names = self.allocations.groups.get(gang_id, ())
        return all(name in self.allocations.cells.groups for name in names) and (
            bool(names) or not any(task.gpu_uuids for task in self.nominated[gang_id].tasks)
        )

    def _put_anew(self, gang_ids: Iterable[str]) -> None:
        some = sorted(set(gang_ids))  # not in the order of a set, which differs between processes
        for gang_id in some:
            self.allocations.release(gang_id)
        running = [self.running[gang_id] for gang_id in some if gang_id in self.running]
        for allocation in sorted(running, key=_precedence):
            self._put(allocation)
        # Those that were put took their places from nominated ones, of whatever virtual cluster.
        lost = {gang_id for gang_id in self.nominated if not self.is_nominated(gang_id)}
        waiting = [self.nominated[gang_id] for gang_id in self.nominated.keys() & {*some, *lost}]
        for nomination in sorted(waiting, key=lambda r: (-r.gang.priority, r.gang.id)):
            self.allocations.reserve(nomination.gang, nomination.tasks)

    def _put(self, allocation: Allocation) -> None:
        reason = ALREADY_DOWNGRADED if allocation.downgraded else None
        self.allocations.put(allocation.gang, allocation.tasks, reason)

    def _restore(self, allocation: Allocation) -> bool:
        gang, downgraded = allocation.gang, self.allocations.cells.downgraded
        try:
            with self.allocations.transaction():
                self.allocations.release(gang.id)
                others = len(downgraded)
                self.allocations.put(gang, allocation.tasks)
                if len(downgraded) != others:  # it is again, or another one is in its place
                    raise _NoPlaceError
        except _NoPlaceError:
            return False
        return bool(self.allocations.groups.get(gang.id))

    def _gang(self, gang_id: str) -> Gang:
        known = self.running.get(gang_id) or self.nominated[gang_id]
        return known.gang

    def _know(self, node: Node) -> None:
        self.nodes[node.name] = node
        total = Resources(node.cpu_millis, node.memory_mb, len(node.devices))
        self.allocations.resources.resize(node.name, total, node.schedulable)
        health.set_node(self.allocations.cells, node.name, node.schedulable)
        for device in node.devices:
            health.set_device(self.allocations.cells, node.name, device.uuid, device.healthy)

    def _learn_models(self) -> None:
        self.models = {
            device.uuid: device.model for node in self.nodes.values() for device in node.devices
        }
        self._kinds = Kinds(self.leaf_types)
        self._kind_of.clear()


def held(gang: Gang, placement: Placement) -> tuple[TaskAllocation, ...]:
    """The places of a plan as they will be held."""
    members = {member.role: member for member in gang.members}
    return _sorted(
        TaskAllocation(
            task.role,
            task.index,
            task.node,
            task.gpu_uuids,
            members[task.role].cpu_millis,
            members[task.role].memory_mb,
            task.cell_type,
        )
        for task in placement.tasks
    )


def _sorted(tasks: Iterable[TaskAllocation]) -> tuple[TaskAllocation, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.role, task.index)))


def _precedence(allocation: Allocation) -> tuple[bool, int, float, str]:
    return (
        allocation.downgraded,
        -allocation.gang.priority,
        allocation.placed_at,
        allocation.gang.id,
    )


def _shape(node: Node) -> object:
    """What cells are made of."""
    devices = [(device.uuid, device.model, device.index) for device in node.devices]
    return devices, node.topology, node.labels
