"""The physical cells of an imported HiveD file, with devices as agents know them: by UUID."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skep_scheduler.cells.config import read_skus
from skep_scheduler.cells.problems import Problem, Problems
from skep_scheduler.cells.read_physical import read_shapes, read_tops
from skep_scheduler.cells.shape import LEAF, CellSpec, Shape, Sku
from skep_scheduler.model import facts

Tops = Sequence[tuple[str, CellSpec]]


@dataclass(frozen=True, slots=True)
class Layout:
    """`nodes` are those that it names; `problems` also name those that are not as it says."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    tops: Tops = ()
    skus: Mapping[str, Sku] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def read(data: Mapping[str, Any] | None, nodes: Mapping[str, facts.Node]) -> Layout:
    """Nothing but the problems, if there are any in the file itself."""
    if data is None:
        return Layout()
    problems = Problems()
    physical = problems.mapping(
        problems.mapping(data, "layout").get("physicalCluster"), "physicalCluster"
    )
    shapes = read_shapes(physical, problems)
    tops = read_tops(physical, shapes, problems)
    skus = read_skus(physical, problems)
    if problems.found:
        return Layout(problems=tuple(problems.found))
    namer = _Namer(nodes)
    named = tuple(
        (chain, namer.rename(top, shapes[chain], shapes[chain].top)) for chain, top in tops
    )
    used = {chain: shapes[chain] for chain in sorted({chain for chain, _ in named})}
    differences = tuple(_differences(named, used, nodes))
    return Layout(used, named, skus, frozenset(namer.seen), differences)


@dataclass
class _Namer:
    """Gives leaves the UUID of the device with their number, and drops pins: who owns which cell
    is reported elsewhere."""

    nodes: Mapping[str, facts.Node]
    seen: dict[str, set[str]] = field(default_factory=dict)  # names of devices by node

    def rename(self, cell: CellSpec, shape: Shape, level: int, node: str = "") -> CellSpec:
        if shape.at(level).is_node:
            node = cell.name
            self.seen.setdefault(node, set()).update(_leaf_names(cell))
        if level == LEAF:
            return self._leaf(cell, node)
        children = tuple(self.rename(child, shape, level - 1, node) for child in cell.children)
        return replace(cell, pin=None, children=children)

    def _leaf(self, leaf: CellSpec, node: str) -> CellSpec:
        uuid = self._uuids(node).get(leaf.name)
        if uuid is None or uuid in self.seen[node]:
            return replace(leaf, pin=None)
        self.seen[node].add(uuid)
        return CellSpec(f"{leaf.address.rpartition('/')[0]}/{uuid}")

    def _uuids(self, node: str) -> dict[str, str]:
        known = self.nodes.get(node)
        devices = known.devices if known is not None else ()
        return {str(device.index): device.uuid for device in sorted(devices, key=_by_uuid)[::-1]}


def _by_uuid(device: facts.Device) -> str:
    return device.uuid


def _leaf_names(cell: CellSpec) -> Iterator[str]:
    if not cell.children:
        yield cell.name
    for child in cell.children:
        yield from _leaf_names(child)


def _differences(
    tops: Tops,
    shapes: Mapping[str, Shape],
    nodes: Mapping[str, facts.Node],
) -> Iterator[Problem]:
    """Where a node has other devices than the file says."""
    named: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for chain, top in tops:
        for node in at_level(shapes[chain], top, shapes[chain].node_level):
            have = (
                {device.uuid for device in nodes[node.name].devices}
                if node.name in nodes
                else set()
            )
            leaves = list(_leaf_names(node))
            named[node.name] += len(leaves)
            unknown[node.name] += sum(leaf not in have for leaf in leaves)
    for name in sorted(named.keys() & nodes.keys()):
        devices = len(nodes[name].devices)
        spare = devices - (named[name] - unknown[name])
        if unknown[name] or spare:
            yield Problem(
                f"nodes.{name}",
                f"has {devices} GPUs; of the {named[name]} that the file names "
                f"{unknown[name]} are not there, and {spare} are not in the file",
            )


def at_level(shape: Shape, top: CellSpec, level: int) -> Iterator[CellSpec]:
    """Return all cells of a level in a top cell of a shape."""
    return _at(top, shape.top, level)


def _at(cell: CellSpec, here: int, level: int) -> Iterator[CellSpec]:
    if here == level:
        yield cell
    elif here > level:
        for child in cell.children:
            yield from _at(child, here - 1, level)
