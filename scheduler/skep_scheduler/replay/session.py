"""Plays the part that Kubernetes has for HiveD: gangs come pod by pod, and go pod by pod."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, CellTaskPlacement, Refusal
from skep_scheduler.cells.place import place
from skep_scheduler.cells.reconfigure import placements_of, reconfigure
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Group
from skep_scheduler.replay.specs import PodSpec, UserError, read_spec


@dataclass(frozen=True, slots=True)
class Bound:
    """`placements` is the whole gang's placement; `slot` the pod's own place in it."""

    chain: str
    tasks: tuple[CellTaskPlacement, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Victims:
    pods: dict[str, list[str]]  # by node

    @property
    def names(self) -> set[str]:
        return {pod for pods in self.pods.values() for pod in pods}


@dataclass(frozen=True, slots=True)
class Waiting:
    code: str
    message: str


Result = Bound | Victims | Waiting


@dataclass
class Session:
    """seated: the pods of each running gang, slot by slot
    preempting: the pods of each preempting gang that have asked for their place"""

    state: CellState
    seated: dict[str, list[str | None]] = field(default_factory=dict)
    preempting: dict[str, set[str]] = field(default_factory=dict)
    specs: dict[str, PodSpec] = field(default_factory=dict)

    def schedule(self, pod: str, spec: Mapping[str, Any], suggested: object, phase: str) -> Result:
        """Raises `UserError`."""
        known = self._read(pod, spec)
        avoid = self._avoid(suggested) if known.avoids else frozenset()
        group = self.state.groups.get(known.gang.name)
        if group is not None and not group.preempting:
            return self._next_seat(group, known)
        if group is not None:
            if phase != "Preempting" or _is_usable(group, avoid):
                return self._continue(pod, group, known)
            ledger.cancel(self.state, group.name)
        return self._new(pod, known, avoid, phase)

    def add_allocated_pod(self, pod: str, spec: Mapping[str, Any], info: Mapping[str, Any]) -> None:
        known = self._read(pod, spec)
        placements = _spots(known, info)
        self._adopt(
            pod, known, str(info.get("chain", "")), placements, _own_place(known, info, placements)
        )

    def adopt(self, pod: str, spec: Mapping[str, Any], bound: Bound) -> None:
        self._adopt(pod, self._read(pod, spec), bound.chain, bound.tasks, bound.slot)

    def delete_allocated_pod(self, pod: str) -> None:
        for name, pods in list(self.seated.items()):
            if pod in pods:
                pods[pods.index(pod)] = None
                if not any(pods):
                    self.delete_group(name)

    def delete_unallocated_pod(self, pod: str, spec: Mapping[str, Any]) -> None:
        known = self._read(pod, spec)
        group = self.state.groups.get(known.gang.name)
        if group is None or not group.preempting:
            return
        pods = self.preempting.setdefault(group.name, set())
        pods.discard(pod)
        if not pods:
            self.delete_group(group.name)

    def delete_group(self, name: str) -> None:
        ledger.release(self.state, name)
        self.seated.pop(name, None)
        self.preempting.pop(name, None)

    def set_node(self, node: str, healthy: bool) -> None:
        health.set_node(self.state, node, healthy)

    def reconfigure(self, config: Config) -> None:
        self.state, _ = reconfigure(self.state, config)
        self.preempting.clear()

    def _read(self, pod: str, spec: Mapping[str, Any]) -> PodSpec:
        self.specs[pod] = read_spec(pod, spec)
        return self.specs[pod]

    def _avoid(self, suggested: object) -> frozenset[str]:
        if suggested is None or suggested == "ALL":
            return frozenset()
        nodes = frozenset(self.state.nodes)
        if isinstance(suggested, Mapping):
            return nodes & {str(node) for node in suggested.get("all_except", ())}
        assert isinstance(suggested, Collection)
        return nodes - {str(node) for node in suggested}

    def _next_seat(self, group: Group, known: PodSpec) -> Bound:
        pods = self.seated.setdefault(group.name, [None] * len(group.slots))
        for i, slot in enumerate(group.slots):
            if pods[i] is None and slot.member in known.members:
                return Bound(group.chain, placements_of(group), i)
        raise UserError(f"more pods than {group.name} has")

    def _continue(self, pod: str, group: Group, known: PodSpec) -> Result:
        """A pod of a gang that has reserved its cells."""
        self.preempting.setdefault(group.name, set()).add(pod)
        users = [leaf.user for leaf, _ in group.pairs() if leaf.user is not None]
        victims = self._victims(user.name for user in users)
        if not ledger.victims_cleared(group):
            return victims
        return Bound(group.chain, placements_of(group), _first_seat(placements_of(group), known))

    def _new(self, pod: str, known: PodSpec, avoid: Collection[str], phase: str) -> Result:
        gang = known.gang
        answer = place(self.state, gang, avoid)
        if isinstance(answer, Refusal):
            if answer.invalid:
                raise UserError(answer.message)
            return Waiting(answer.code, answer.message)
        if isinstance(answer, CellPlacement):
            # The reference downgrades and cancels as soon as it has decided.
            self._apply(known, answer, phase)
            return Bound(answer.chain, answer.tasks, _first_seat(answer.tasks, known))
        victims = self._victims(victim.gang for victim in answer.victims)
        if phase == "Preempting":
            assert isinstance(answer, CellPreemption)
            ledger.reserve(self.state, gang, answer.placement)
            self.preempting[gang.name] = {pod}
        else:
            self._apply(known, answer.placement, phase)
        return victims

    def _apply(self, known: PodSpec, placement: CellPlacement, phase: str) -> None:
        cancels = placement.cancels if phase == "Preempting" else ()
        effects = CellPlacement(placement.gang, placement.chain, (), placement.downgrades, cancels)
        ledger.apply_side_effects(self.state, known.gang, effects)

    def _victims(self, groups: Any) -> Victims:
        by_node: dict[str, list[str]] = {}
        for name in dict.fromkeys(groups):
            group = self.state.groups[name]
            for pod, slot in zip(self.seated.get(name, ()), group.slots, strict=False):
                if pod is not None:
                    by_node.setdefault(slot.node, []).append(pod)
        return Victims(by_node)

    def _adopt(
        self,
        pod: str,
        known: PodSpec,
        chain: str,
        placements: Sequence[CellTaskPlacement],
        place: int,
    ) -> None:
        group = ledger.adopt(self.state, known.gang, chain, placements)
        self.preempting.pop(group.name, None)
        pods = self.seated.setdefault(group.name, [None] * len(group.slots))
        slot = next(
            (
                i
                for i, slot in enumerate(group.slots)
                if slot.node == placements[place].node
                and set(slot.indices) & set(placements[place].devices)
            ),
            None,
        )
        if slot is not None:
            pods[slot] = pod


def _is_usable(group: Group, avoid: Collection[str]) -> bool:
    return not any(leaf.bad or leaf.node in avoid for leaf, _ in group.pairs())


def _first_seat(placements: Sequence[CellTaskPlacement], known: PodSpec) -> int:
    return next(i for i, placed in enumerate(placements) if placed.member in known.members)


def _spots(known: PodSpec, info: Mapping[str, Any]) -> list[CellTaskPlacement]:
    """The gang's places as a bind info has them; a member is known by its number of devices."""
    places = info.get("group") or [
        {"node": info["node"], "leaf_cells": info["leaf_cells"], "preassigned_cell_type": ""}
    ]
    return [
        CellTaskPlacement(
            _member(known, len(entry["leaf_cells"])),
            str(entry["node"]),
            tuple(entry["leaf_cells"]),
            str(entry.get("preassigned_cell_type") or ""),
        )
        for entry in places
    ]


def _member(known: PodSpec, size: int) -> int:
    members = known.gang.members
    own = min(known.members)
    if members[own].cells == size and members[own].cell_type is None:
        return own
    return next((i for i, m in enumerate(members) if m.cells == size), own)


def _own_place(
    known: PodSpec, info: Mapping[str, Any], placements: Sequence[CellTaskPlacement]
) -> int:
    own = set(info["leaf_cells"])
    for i, placed in enumerate(placements):
        if placed.node == str(info["node"]) and own & set(placed.devices):
            return i
    return 0
