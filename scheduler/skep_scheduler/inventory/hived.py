"""HiveD's configuration file, in and out (`hivedscheduler.yaml` as plain data)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.shape import LEAF, CellSpec, Config, Shape, Share, VcSpec
from skep_scheduler.inventory.build import build
from skep_scheduler.model import facts


class Imported(NamedTuple):
    """`layout` is for `Inventory.layout`; claims are those of each VC of the file."""

    layout: Mapping[str, Any]
    claims: dict[str, tuple[facts.Claim, ...]]
    pins: tuple[facts.Pin, ...]


def from_hived(data: Mapping[str, Any], nodes: Sequence[facts.Node] = ()) -> Imported:
    """Devices of pinned cells are named by UUID on nodes that are known, else by their number.

    Raises `ConfigError` with all problems of the file.
    """
    config = read_config(data)
    claims = {
        vc.name: tuple(
            facts.Claim(share.chain, _type(config, share), share.number)
            for share in vc.shares
            if share.number
        )
        for vc in config.vcs.values()
    }
    owners = {pin: vc.name for vc in config.vcs.values() for pin in vc.pins}
    uuids = {(n.name, str(d.index)): d.uuid for n in nodes for d in n.devices}
    pins = tuple(sorted(_pins(config, owners, uuids), key=lambda pin: pin.name))
    return Imported({"physicalCluster": data["physicalCluster"]}, _summed(claims), pins)


def _type(config: Config, share: Share) -> str:
    return config.shapes[share.chain].at(share.level).type


def _summed(claims: Mapping[str, Sequence[facts.Claim]]) -> dict[str, tuple[facts.Claim, ...]]:
    """The file may list a type several times."""
    summed = {}
    for vc, mine in claims.items():
        numbers: dict[tuple[str, str], int] = {}
        for claim in mine:
            key = (claim.chain, claim.cell_type)
            numbers[key] = numbers.get(key, 0) + claim.number
        summed[vc] = tuple(facts.Claim(*key, number) for key, number in numbers.items())
    return summed


def _pins(
    config: Config, owners: Mapping[str, str], uuids: Mapping[tuple[str, str], str]
) -> Iterator[facts.Pin]:
    for chain, top in config.tops:
        shape = config.shapes[chain]
        for cell, level, node in _walk(shape, top, shape.top, ""):
            if cell.pin is None:
                continue
            device = ""
            if level < shape.node_level:
                name = _first(cell, level, LEAF).name
                device = uuids.get((node, name), name)
            where = node or _first(cell, level, shape.node_level).name
            owner = owners.get(cell.pin, "")
            yield facts.Pin(cell.pin, shape.at(level).type, where, device, owner)


def _walk(
    shape: Shape, cell: CellSpec, level: int, node: str
) -> Iterator[tuple[CellSpec, int, str]]:
    """Each cell with its level, and its node unless it is above that."""
    node = cell.name if shape.at(level).is_node else node
    yield cell, level, node
    for child in cell.children:
        yield from _walk(shape, child, level - 1, node)


def _first(cell: CellSpec, level: int, lower: int) -> CellSpec:
    """Return the first cell of a lower level in it."""
    while level > lower:
        cell, level = cell.children[0], level - 1
    return cell


def to_hived(inventory: facts.Inventory) -> dict[str, Any]:
    """What is, as a file: `read_config` makes the same configuration of it. A cell marked `absent`
    (HiveD does not know that) is a place in a rack for a node that is not there."""
    return export(build(inventory).config)


def export(config: Config) -> dict[str, Any]:
    types = {
        level.type: {
            "childCellType": shape.at(level.level - 1).type,
            "childCellNumber": level.width,
            **({"isNodeLevel": True} if level.is_node else {}),
        }
        for shape in config.shapes.values()
        for level in shape.levels
        if level.width
    }
    physical: dict[str, Any] = {"cellTypes": types, "physicalCells": _cells(config)}
    if config.skus:
        physical["skuTypes"] = {
            name: {"gpu": sku.gpu, "cpu": sku.cpu, "memory": sku.memory}
            for name, sku in config.skus.items()
        }
    vcs = {vc.name: _vc(config, vc) for vc in config.vcs.values()}
    return {"physicalCluster": physical, "virtualClusters": vcs}


def _cells(config: Config) -> list[dict[str, Any]]:
    return [
        {"cellType": chain, **_cell(config.shapes[chain], top, config.shapes[chain].top, "")}
        for chain, top in config.tops
    ]


def _cell(shape: Shape, cell: CellSpec, level: int, above: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"cellAddress": cell.address[len(above) :]}
    if cell.pin is not None:
        entry["pinnedCellId"] = cell.pin
    if level > LEAF:
        prefix = f"{cell.address}/"
        absent = shape.at(level).width - len(cell.children)
        entry["cellChildren"] = [
            *(_cell(shape, child, level - 1, prefix) for child in cell.children),
            *({"cellAddress": f"absent-{i}", "absent": True} for i in range(absent)),
        ]
    return entry


def _vc(config: Config, vc: VcSpec) -> dict[str, Any]:
    cells = [
        {"cellType": _path(config.shapes[share.chain], share.level), "cellNumber": share.number}
        for share in vc.shares
    ]
    return {"virtualCells": cells, "pinnedCells": [{"pinnedCellId": pin} for pin in vc.pins]}


def _path(shape: Shape, level: int) -> str:
    """Return `chain.type.….type`, down to a level."""
    return ".".join(shape.at(number).type for number in range(shape.top, level - 1, -1))
