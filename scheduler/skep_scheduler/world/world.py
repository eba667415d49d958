"""`World`: what is known by facts, and what follows from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from skep_scheduler.answer import Placement, Reason, TaskPlacement
from skep_scheduler.cells import grow, health
from skep_scheduler.cells.state import State
from skep_scheduler.facts import Gang, HeldTask, Holding, Inventory, Node
from skep_scheduler.inventory import build
from skep_scheduler.world import digest, invariants
from skep_scheduler.world.holds import Holds
from skep_scheduler.world.request import Kind, Kinds, owner_of
from skep_scheduler.world.room import Amount

CELLS_CHANGED = "cells_changed"


@dataclass(frozen=True, slots=True)
class Changed:
    """What a new inventory did to gangs. Every plan tells the same again until it is done."""

    downgraded: Mapping[str, Reason] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reserved:
    gang: Gang
    tasks: tuple[HeldTask, ...]
    placement: Placement


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How often a preemption of a gang was cancelled, and when at last."""

    times: int
    at: float


@dataclass(frozen=True, slots=True)
class Promised:
    """A start, and places for it (by the position of the member) that may do."""

    start: float
    tasks: tuple[tuple[int, TaskPlacement], ...] = ()


class _NoPlaceError(Exception):
    pass


class World:
    """waiting, running, reserved: the gangs by id, as they were told
    holds: the cells and the room, as they follow from that
    promised: by gang, the start that the last plan promised (no fact: a new world knows of none)
    cancelled: preemptors that were cancelled; built: what the inventory was made into
    models: the GPU model by UUID; growing: gangs that run while tasks of them wait for places
    """

    def __init__(self) -> None:
        self._others = Inventory()  # but for its nodes
        self.nodes: dict[str, Node] = {}
        self.waiting: dict[str, Gang] = {}
        self.running: dict[str, Holding] = {}
        self.reserved: dict[str, Reserved] = {}
        self.cancelled: dict[str, Cancelled] = {}
        self.promised: dict[str, Promised] = {}
        self.holds = Holds()
        self.built = build(Inventory())
        self._kinds = Kinds(self.leaf_types)
        self._kind_of: dict[str, Kind] = {}
        self.models: dict[str, str] = {}
        self.growing: set[str] = set()
        self._stale = False

    def set_inventory(self, inventory: Inventory) -> Changed:
        """Nodes, virtual clusters, pins, layout: nothing moves and nothing is killed by it."""
        self.built = build(inventory)
        self._others = replace(inventory, nodes=())
        self.holds.use(grow.apply(self.holds.cells, self.built.config)[0])
        for name in self.holds.room.nodes.keys() - {node.name for node in inventory.nodes}:
            self.holds.room.remove(name)
        self.nodes = {}
        for node in inventory.nodes:
            self._know(node)
        self._learn_models()
        for gang_id, holding in self.running.items():
            if holding.downgraded:
                self.holds.downgrade(gang_id, "it was told so")
        self._stale = True
        self.settle()
        with self.trial():
            restored = tuple(self.restored())
        return Changed(
            {gang: self.downgrade_reason(gang) for gang in self.downgraded()},
            restored,
            tuple(gang for gang in self.reserved if not self.holds.groups.get(gang)),
        )

    def set_node(self, node: Node) -> Changed:
        """A node as it is now. Only a new shape of it costs more than the node itself."""
        known = self.nodes.get(node.name)
        if known is None or _shape(known) != _shape(node):
            nodes = tuple((self.nodes | {node.name: node}).values())
            return self.set_inventory(replace(self._others, nodes=nodes))
        self._know(node)
        return Changed()

    @property
    def cells(self) -> State:
        """To look at. The id of the gang that a group belongs to is `owner_of(group)`."""
        return self.holds.cells

    @property
    def inventory(self) -> Inventory:
        return replace(self._others, nodes=tuple(self.nodes.values()))

    def set_waiting(self, gang: Gang) -> None:
        if gang.id in self.running:
            self.forget(gang.id)
        if self.waiting.get(gang.id) != gang:
            self.waiting[gang.id] = gang
            self._kind_of.pop(gang.id, None)

    def set_running(self, holding: Holding) -> None:
        gang_id = holding.gang.id
        holding = replace(holding, tasks=_sorted(holding.tasks))
        self.waiting.pop(gang_id, None)
        self.cancelled.pop(gang_id, None)
        self.promised.pop(gang_id, None)
        self.reserved.pop(gang_id, None)
        known, self.running[gang_id] = self.running.get(gang_id), holding
        self._kind_of.pop(gang_id, None)
        (self.growing.add if holding.unplaced else self.growing.discard)(gang_id)
        if known is not None and known.downgraded != holding.downgraded:
            self.holds.release(gang_id)
            known = None
        if known is None or known.tasks != holding.tasks:
            self._put(holding)
            self._stale = True

    def set_reserved(self, gang: Gang, placement: Placement | None) -> None:
        """`placement` as a plan told it; None: the gang has no reservation any more."""
        known = self.reserved.get(gang.id)
        if known is not None and (placement is None or known.placement != placement):
            del self.reserved[gang.id]
            self.holds.release(gang.id)
            self._stale = True
        if placement is not None and gang.id not in self.running:
            tasks = held(gang, placement)
            self.reserved[gang.id] = Reserved(gang, tasks, placement)
            if known is None or known.placement != placement:
                self.holds.reserve(gang, tasks)
                self._stale = True

    def forget(self, gang_id: str) -> None:
        self.waiting.pop(gang_id, None)
        self.cancelled.pop(gang_id, None)
        self.promised.pop(gang_id, None)
        self._kind_of.pop(gang_id, None)
        self.growing.discard(gang_id)
        known = self.running.pop(gang_id, None) or self.reserved.pop(gang_id, None)
        if known is not None:
            self.holds.release(gang_id)
            self._stale = True

    def note_cancelled(self, gang_id: str, now: float) -> None:
        known = self.cancelled.get(gang_id)
        self.cancelled[gang_id] = Cancelled(known.times + 1 if known is not None else 1, now)

    def note_promised(self, promised: Mapping[str, Promised]) -> None:
        """All starts that are promised now, by gang; `plan` does it."""
        self.promised = dict(promised)

    def digest(self) -> Hashable:
        """Equal for worlds that were told the same facts, in whatever order and with whatever in
        between. How often a preemption was cancelled is no fact of the world."""
        self.settle()
        return digest.of(self)

    def validate(self) -> None:
        """Raises `InvariantError`. It walks the whole world."""
        self.settle()
        invariants.validate(self)

    def trial(self) -> AbstractContextManager[None]:
        """What is done to `holds` inside is taken back; no fact may be told meanwhile."""
        self.settle()
        return self.holds.trial()

    def kind_of(self, gang: Gang) -> Kind:
        kind = self._kind_of.get(gang.id)
        if kind is None:
            kind = self._kinds.of(gang)
            if gang.id in self.waiting or gang.id in self.running:
                self._kind_of[gang.id] = kind
        return kind

    def leaf_types(self, model: str) -> list[str]:
        """The leaf types that a GPU model, or the leaf type itself, stands for."""
        if model in self.built.models:
            return [model]
        return sorted(leaf for leaf, models in self.built.models.items() if model in models)

    def is_guaranteed(self, gang_id: str) -> bool:
        """Whether it runs in its VC's cells, as it was told and as the cells see it."""
        holding = self.running[gang_id]
        return not (
            holding.gang.opportunistic or holding.downgraded or self.holds.is_downgraded(gang_id)
        )

    def downgraded(self) -> list[str]:
        """Gangs that were told to be guaranteed, but for which their VC cannot account."""
        owners = {owner_of(self.holds.cells.groups[name]) for name in self.holds.cells.downgraded}
        return sorted(g for g in owners if g in self.running and not self.running[g].downgraded)

    def restored(self) -> list[str]:
        """Gangs that were told to be downgraded, but for which their VC can account without taking
        a place from another one. It does so from then on: call it in a trial."""
        lost = [h for h in self.running.values() if h.downgraded and not h.leaving]
        return [h.gang.id for h in sorted(lost, key=_precedence) if self._restore(h)]

    def downgrade_reason(self, gang_id: str) -> Reason:
        why = next(g.downgraded_by for g in self.holds.groups_of(gang_id) if g.downgraded_by)
        gang = self.running[gang_id].gang
        message = f"{gang.vc} does not own the cells any more that it runs on; it runs on "
        return Reason(CELLS_CHANGED, message + "opportunistically.", {"vc": gang.vc, "cause": why})

    def settle(self) -> None:
        """Facts that came in an unlucky order (who comes before who goes) leave gangs unaccounted:
        these are put anew, and if that does not help, all of their VCs' gangs."""
        if not self._stale:
            return
        self._stale = False
        for gang_id in sorted(self.reserved):
            if not self.is_reserved(gang_id):
                self._clear_for(self.reserved[gang_id])
        suspects = self._suspects()
        if suspects:
            self._put_anew(suspects)
            suspects = self._suspects()
        if suspects:
            vcs = {self._gang(gang_id).vc for gang_id in suspects}
            everyone = [*self.running, *self.reserved]
            self._put_anew({g for g in everyone if self._gang(g).vc in vcs} | suspects)
        for gang_id in self.downgraded():
            self.holds.downgrade(gang_id, "other tasks of it have no cells")

    def _clear_for(self, reserved: Reserved) -> None:
        """Who leaves has no claim any more to what a preemptor was promised."""
        wanted = {uuid for task in reserved.tasks for uuid in task.gpu_uuids}
        for gang_id, holding in self.running.items():
            if holding.leaving and any(wanted.intersection(t.gpu_uuids) for t in holding.tasks):
                self.holds.downgrade(gang_id, "it makes room")
        self.holds.release(reserved.gang.id)
        self.holds.reserve(reserved.gang, reserved.tasks)

    def _suspects(self) -> set[str]:
        lost = {gang_id for gang_id in self.reserved if not self.is_reserved(gang_id)}
        return lost | set(self.downgraded()) | self.holds.squeezed()

    def is_reserved(self, gang_id: str) -> bool:
        """Whether the cells hold what it was told to have reserved."""
        names = self.holds.groups.get(gang_id, ())
        return all(name in self.holds.cells.groups for name in names) and (
            bool(names) or not any(task.gpu_uuids for task in self.reserved[gang_id].tasks)
        )

    def _put_anew(self, gang_ids: Iterable[str]) -> None:
        some = set(gang_ids)
        for gang_id in some:
            self.holds.release(gang_id)
        running = [self.running[gang_id] for gang_id in some if gang_id in self.running]
        for holding in sorted(running, key=_precedence):
            self._put(holding)
        waiting = [self.reserved[gang_id] for gang_id in some if gang_id in self.reserved]
        for reserved in sorted(waiting, key=lambda r: (-r.gang.priority, r.gang.id)):
            self.holds.reserve(reserved.gang, reserved.tasks)

    def _put(self, holding: Holding) -> None:
        told = "it was told so" if holding.downgraded else None
        self.holds.put(holding.gang, holding.tasks, told)

    def _restore(self, holding: Holding) -> bool:
        gang, before = holding.gang, self.downgraded()
        try:
            with self.holds.transaction():
                self.holds.release(gang.id)
                self.holds.put(gang, holding.tasks)
                if self.holds.is_downgraded(gang.id) or self.downgraded() != before:
                    raise _NoPlaceError
        except _NoPlaceError:
            return False
        return bool(self.holds.groups.get(gang.id))

    def _gang(self, gang_id: str) -> Gang:
        known = self.running.get(gang_id) or self.reserved[gang_id]
        return known.gang

    def _know(self, node: Node) -> None:
        self.nodes[node.name] = node
        total = Amount(node.cpu_millis, node.memory_mb, len(node.devices))
        self.holds.room.resize(node.name, total, node.schedulable)
        health.set_node(self.holds.cells, node.name, node.schedulable)
        for device in node.devices:
            health.set_device(self.holds.cells, node.name, device.uuid, device.healthy)

    def _learn_models(self) -> None:
        self.models = {
            device.uuid: device.model for node in self.nodes.values() for device in node.devices
        }
        self._kinds = Kinds(self.leaf_types)
        self._kind_of.clear()


def held(gang: Gang, placement: Placement) -> tuple[HeldTask, ...]:
    """The places of a plan as they will be held."""
    members = {member.role: member for member in gang.members}
    return _sorted(
        HeldTask(
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


def _sorted(tasks: Iterable[HeldTask]) -> tuple[HeldTask, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.role, task.index)))


def _precedence(holding: Holding) -> tuple[bool, int, float, str]:
    return holding.downgraded, -holding.gang.priority, holding.placed_at, holding.gang.id


def _shape(node: Node) -> object:
    """What cells are made of."""
    devices = [(device.uuid, device.model, device.index) for device in node.devices]
    return devices, node.topology, node.labels
