"""Chains of cells from what agents report: devices into nodes, nodes into racks and fabrics.

All nodes of the same shape share a chain, as do all their racks: the largest one decides how wide a
rack is, smaller ones lack parts (see `CellSpec`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from skep_scheduler.cells.shape import CellSpec, Level, Shape
from skep_scheduler.inventory.names import FABRIC, NVLINK, RACK, SOCKET, SWITCH, leaf_type
from skep_scheduler.model import facts

Tier = tuple[str, int]  # a cell type above the leaf, and the children of a cell
Topology = Mapping[str, Mapping[str, str]]
Matrix = tuple[tuple[str, ...], ...]

# From far to near. Each kind has what nearer ones have too, so that proper groups are nested.
_JOINED_BY = {
    SOCKET: ("NV", "PIX", "PXB", "PHB", "NODE"),
    SWITCH: ("NV", "PIX", "PXB"),
    NVLINK: ("NV",),
}


@dataclass(frozen=True, slots=True)
class Islands:
    """`sizes` are the GPUs of a group of each kind, falling; the kind is "" for a mere half.
    `order` has the positions of all devices, so that every group is a run of it."""

    order: tuple[int, ...]
    sizes: tuple[tuple[int, str], ...]


def find_islands(devices: Sequence[str], topology: Topology) -> Islands:
    """Return the groups of devices that are joined. Groups that are not of equal size, or where
    some pair is not joined, are left out."""
    if not topology:
        return _find((("",) * len(devices),) * len(devices))
    return _find(tuple(tuple(_word(topology, a, b) for b in devices) for a in devices))


def _word(topology: Topology, a: str, b: str) -> str:
    word = topology.get(a, {}).get(b) or topology.get(b, {}).get(a) or ""
    return "NV" if word.startswith("NV") else word


@lru_cache(maxsize=4096)
def _find(matrix: Matrix) -> Islands:
    """Return the groups of a matrix; nodes that are built alike have the same, hence the cache."""
    groups: dict[int, tuple[str, list[list[int]]]] = {}
    for kind in _JOINED_BY:
        found = _groups(matrix, kind)
        if found is not None:
            groups[len(found[0])] = (kind, found)  # the nearest kind names what are the same groups
    order = list(range(len(matrix)))
    for size in sorted(groups):
        place = {device: i for i, group in enumerate(groups[size][1]) for device in group}
        order.sort(key=place.__getitem__)
    sizes = [(size, groups[size][0]) for size in sorted(groups, reverse=True)]
    return Islands(tuple(order), tuple(_halved(len(matrix), sizes)))


def _groups(matrix: Matrix, kind: str) -> list[list[int]] | None:
    """Return all devices in equal groups of more than one; None if there is a single one."""
    joined = [
        frozenset(b for b, word in enumerate(row) if a == b or word in _JOINED_BY[kind])
        for a, row in enumerate(matrix)
    ]
    if any(joined[b] != mine for mine in joined for b in mine):
        return None
    groups = [sorted(group) for group in dict.fromkeys(joined)]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or sizes & {1, len(matrix)}:
        return None
    return groups


def _halved(whole: int, sizes: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Add halves in between, wherever a group has an even number of parts above two."""
    found: list[tuple[int, str]] = []
    above = whole
    for size, kind in [*sizes, (1, "")]:
        while above // size > 2 and above // size % 2 == 0:
            above //= 2
            found.append((above, ""))
        above = size
        if size > 1:
            found.append((size, kind))
    return found


@dataclass(frozen=True, slots=True)
class Chain:
    shape: Shape
    tops: tuple[CellSpec, ...]


@dataclass(frozen=True, slots=True)
class NodeCell:
    """The devices of one model on a node. `tiers` go from above the leaf up to the node."""

    name: str
    rack: str
    fabric: str
    leaf: str
    tiers: tuple[Tier, ...]
    devices: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.tiers[-1][0]


def chains(nodes: Iterable[facts.Node]) -> list[Chain]:
    """Return the chains by name, with the tops by address. Names of nodes and devices must be
    unique."""
    by_type: dict[str, list[NodeCell]] = defaultdict(list)
    for node in nodes:
        for cell in node_cells(node):
            by_type[cell.type].append(cell)
    found = [chain for cells in by_type.values() for chain in _of_type(cells)]
    return sorted(found, key=lambda chain: chain.shape.chain)


def node_cells(node: facts.Node) -> list[NodeCell]:
    """Return one cell for each model of GPU."""
    models: dict[str, list[facts.Device]] = defaultdict(list)
    for device in sorted(node.devices, key=lambda device: (device.index, device.uuid)):
        models[leaf_type(device.model)].append(device)
    return [_node_cell(node, leaf, models[leaf]) for leaf in sorted(models)]


def _node_cell(node: facts.Node, leaf: str, devices: Sequence[facts.Device]) -> NodeCell:
    uuids = [device.uuid for device in devices]
    found = find_islands(uuids, node.topology)
    return NodeCell(
        node.name,
        node.labels.get("rack", "").strip(),
        node.labels.get("fabric", "").strip(),
        leaf,
        _tiers(leaf, len(uuids), found.sizes),
        tuple(uuids[i] for i in found.order),
    )


def _tiers(leaf: str, devices: int, sizes: Sequence[tuple[int, str]]) -> tuple[Tier, ...]:
    structure = "".join(f"-{devices // size}x{kind}" for size, kind in sizes if kind)
    node = f"{leaf}-NODE{devices}{structure}"
    tiers, below = [], 1
    for size, kind in reversed(sizes):
        tiers.append((f"{node}-{kind or f'x{size}'}", size // below))
        below = size
    return (*tiers, (node, devices // below))


def _of_type(cells: list[NodeCell]) -> list[Chain]:
    """Return chains of the nodes alone, of racks, and of fabrics with or without racks."""
    node, tiers = cells[0].type, cells[0].tiers
    racks = _grouped(cell for cell in cells if cell.rack)
    rack: Tier = (f"{node}-{RACK}", max(map(len, racks.values()), default=0))
    kinds: dict[tuple[bool, bool], list[NodeCell]] = defaultdict(list)
    for cell in cells:
        kinds[bool(cell.rack), bool(cell.fabric)].append(cell)
    found = []
    for (racked, in_fabric), members in kinds.items():
        above = [rack] if racked else []
        if in_fabric:
            width = max(_parts_by_fabric(members).values())
            above.append((f"{(above or [(node, 0)])[-1][0]}-{FABRIC}", width))
        shape = _shape(cells[0].leaf, tiers, above)
        found.append(Chain(shape, _tops(shape, members)))
    return found


def _grouped(cells: Iterable[NodeCell]) -> dict[tuple[str, str], list[NodeCell]]:
    racks: dict[tuple[str, str], list[NodeCell]] = defaultdict(list)
    for cell in cells:
        racks[cell.fabric, cell.rack].append(cell)
    return racks


def _parts_by_fabric(cells: Iterable[NodeCell]) -> dict[str, int]:
    """How many racks, or nodes without one, each fabric has."""
    parts: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        parts[cell.fabric].add(cell.rack or cell.name)
    return {fabric: len(names) for fabric, names in parts.items()}


def _shape(leaf: str, tiers: Sequence[Tier], above: Sequence[Tier]) -> Shape:
    node_level = len(tiers) + 1
    levels = [Level(1, leaf, 0, 1, False, True)]
    for number, (cell_type, width) in enumerate([*tiers, *above], 2):
        leaves = levels[-1].leaves * width
        levels.append(
            Level(number, cell_type, width, leaves, number == node_level, number < node_level)
        )
    return Shape(levels[-1].type, tuple(levels))


def _tops(shape: Shape, cells: Iterable[NodeCell]) -> tuple[CellSpec, ...]:
    """Addresses are `fabric/rack/node/…/device`; between node and device, parts are numbered."""
    fabrics: dict[str, list[CellSpec]] = defaultdict(list)
    tops = []
    for (fabric, rack), members in sorted(_grouped(cells).items()):
        path = "/".join(part for part in (fabric, rack) if part)
        nodes = [_node(shape, cell, path) for cell in sorted(members, key=lambda c: c.name)]
        parts = [CellSpec(path, None, tuple(nodes))] if rack else nodes
        if fabric:
            fabrics[fabric] += parts
        else:
            tops += parts
    tops += [CellSpec(name, None, tuple(parts)) for name, parts in fabrics.items()]
    return tuple(sorted(tops, key=lambda cell: cell.address))


def _node(shape: Shape, cell: NodeCell, path: str) -> CellSpec:
    address = f"{path}/{cell.name}" if path else cell.name
    return _part(shape, shape.node_level, address, cell.devices)


def _part(shape: Shape, level: int, address: str, devices: Sequence[str]) -> CellSpec:
    size = shape.at(level - 1).leaves
    parts = [devices[i : i + size] for i in range(0, len(devices), size)]
    if size == 1:
        leaves = tuple(CellSpec(f"{address}/{device}") for device in devices)
        return CellSpec(address, None, leaves)
    children = (_part(shape, level - 1, f"{address}/{i}", part) for i, part in enumerate(parts))
    return CellSpec(address, None, tuple(children))
