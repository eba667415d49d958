"""Inventories without what is told twice, and in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from skep_scheduler import facts
from skep_scheduler.cells.config import Problem
from skep_scheduler.inventory.names import is_usable


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True, slots=True)
class Clean:
    """All by name."""

    nodes: Mapping[str, facts.Node]
    virtual_clusters: Mapping[str, facts.VirtualCluster]
    pins: Mapping[str, facts.Pin]
    problems: tuple[Problem, ...]


@dataclass
class _Cleaner:
    problems: list[Problem] = field(default_factory=list)
    owner: dict[str, str] = field(default_factory=dict)  # node by device

    def once(self, things: Iterable[T], where: str) -> dict[str, T]:
        found: dict[str, T] = {}
        for thing in _in_order(list(things)):
            if thing.name in found:
                self.problems.append(Problem(f"{where}.{thing.name}", "is listed twice"))
            found.setdefault(thing.name, thing)
        return found

    def node(self, node: facts.Node) -> facts.Node:
        return replace(node, devices=tuple(d for d in node.devices if self._is_new(node.name, d)))

    def _is_new(self, node: str, device: facts.Device) -> bool:
        path = f"nodes.{node}"
        if not is_usable(device.uuid):
            self.problems.append(Problem(path, f"GPU {device.uuid!r} cannot be named in a cell"))
        elif device.uuid in self.owner:
            other = self.owner[device.uuid]
            self.problems.append(Problem(path, f"GPU {device.uuid} is on node {other} already"))
        else:
            self.owner[device.uuid] = node
            return True
        return False


def clean(inventory: facts.Inventory) -> Clean:
    """A GPU that several nodes report belongs to the first of them by name."""
    cleaner = _Cleaner()
    nodes = {}
    for name, node in cleaner.once(map(_ordered, inventory.nodes), "nodes").items():
        if is_name_of_node(name):
            nodes[name] = cleaner.node(node)
        else:
            cleaner.problems.append(Problem("nodes", f"{name!r} cannot be the name of a node"))
    vcs = cleaner.once(inventory.virtual_clusters, "virtual_clusters")
    pins = cleaner.once(inventory.pins, "pins")
    return Clean(nodes, vcs, pins, tuple(cleaner.problems))


def _ordered(node: facts.Node) -> facts.Node:
    devices = sorted(node.devices, key=lambda d: (d.index, d.uuid, d.model, d.healthy))
    return replace(node, devices=tuple(devices))


def _in_order(things: list[T]) -> list[T]:
    """What has one name by what it says, which is slow to tell."""
    if len({thing.name for thing in things}) == len(things):
        return sorted(things, key=lambda thing: thing.name)
    return sorted(things, key=lambda thing: (thing.name, repr(thing)))


def is_name_of_node(name: str) -> bool:
    return bool(name) and "/" not in name
