"""Finds pinned cells: each is the cell of a type that contains a node, or a device of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from skep_scheduler.cells.shape import CellSpec, Shape
from skep_scheduler.inventory.claims import Shortfall
from skep_scheduler.inventory.layout import Tops
from skep_scheduler.model import facts

Path = tuple[int, ...]  # the number of a top cell, then of the child on each level below


@dataclass
class Pinner:
    """`pins` has the name of each pinned cell, `owned` those that a VC owns: they never overlap."""

    shapes: Mapping[str, Shape]
    tops: Tops
    nodes: Mapping[str, facts.Node]
    pins: dict[Path, str] = field(default_factory=dict)
    owned: dict[Path, facts.Pin] = field(default_factory=dict)
    short: list[Shortfall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._places: dict[str, list[Path]] = {}
        for i, (chain, top) in enumerate(self.tops):
            shape = self.shapes[chain]
            for path, cell in _nodes(top, (i,), shape.top, shape.node_level):
                self._places.setdefault(cell.name, []).append(path)

    def pin(self, pin: facts.Pin, path: str) -> None:
        """`path` is its place in the assignment."""
        found = next(self._find(pin), None)
        if found is None:
            where = f"GPU {pin.device} of node {pin.node}" if pin.device else f"node {pin.node}"
            self._refuse(pin, "pin_not_found", f"No {pin.cell_type} has {where} in it.", path)
        elif found in self.pins:
            what = f"It is the same cell as pinned cell {self.pins[found]}."
            self._refuse(pin, "pin_overlaps", what, path)
        elif pin.vc and (other := self._overlapping(found)) is not None:
            what = f"Its cell overlaps pinned cell {other.name}, which {other.vc} owns."
            self._refuse(pin, "pin_overlaps", what, path)
        elif pin.vc and not self._is_whole(found):
            what = f"This {pin.cell_type} lacks some of its parts; pin what it has one by one."
            self._refuse(pin, "pin_incomplete", what, path)
        else:
            self.pins[found] = pin.name
            if pin.vc:
                self.owned[found] = pin

    def marked(self) -> list[tuple[str, CellSpec]]:
        """The top cells with all pins in them."""
        by_top: dict[int, dict[Path, str]] = {}
        for path, name in self.pins.items():
            by_top.setdefault(path[0], {})[path] = name
        return [
            (chain, _mark(top, (i,), by_top[i]) if i in by_top else top)
            for i, (chain, top) in enumerate(self.tops)
        ]

    def _find(self, pin: facts.Pin) -> Iterator[Path]:
        for path in self._places.get(pin.node, ()):
            shape = self.shapes[self.tops[path[0]][0]]
            level = shape.level_of.get(pin.cell_type)
            if level is None:
                continue
            depth = shape.top - level + 1
            names = {pin.device, *self._uuids(pin)}
            for below, cell in _down(self._cell(path), path):
                is_it = len(below) == shape.top and cell.name in names
                if (is_it or not pin.device) and len(below) >= depth:
                    yield below[:depth]

    def _uuids(self, pin: facts.Pin) -> Iterator[str]:
        """A device may be given by its number, as in a HiveD file."""
        node = self.nodes.get(pin.node)
        for device in node.devices if node is not None else ():
            if str(device.index) == pin.device:
                yield device.uuid

    def _overlapping(self, path: Path) -> facts.Pin | None:
        for other, pin in self.owned.items():
            short = min(len(other), len(path))
            if other[:short] == path[:short]:
                return pin
        return None

    def _cell(self, path: Path) -> CellSpec:
        cell = self.tops[path[0]][1]
        for i in path[1:]:
            cell = cell.children[i]
        return cell

    def _is_whole(self, path: Path) -> bool:
        shape = self.shapes[self.tops[path[0]][0]]
        return is_whole(shape, self._cell(path), shape.top - len(path) + 1)

    def _refuse(self, pin: facts.Pin, code: str, message: str, path: str) -> None:
        reason = f"Pinned cell {pin.name}: {message}"
        self.short.append(Shortfall(pin.vc, "", pin.cell_type, 1, 0, code, reason, path, pin.name))


def is_whole(shape: Shape, cell: CellSpec, level: int) -> bool:
    return len(cell.children) == shape.at(level).width and all(
        is_whole(shape, child, level - 1) for child in cell.children
    )


def _nodes(
    cell: CellSpec, path: Path, level: int, node_level: int
) -> Iterator[tuple[Path, CellSpec]]:
    if level == node_level:
        yield path, cell
        return
    for i, child in enumerate(cell.children):
        yield from _nodes(child, (*path, i), level - 1, node_level)


def _down(cell: CellSpec, path: Path) -> Iterator[tuple[Path, CellSpec]]:
    """Return a cell and all below it, depth first."""
    yield path, cell
    for i, child in enumerate(cell.children):
        yield from _down(child, (*path, i))


def _mark(cell: CellSpec, path: Path, pins: Mapping[Path, str]) -> CellSpec:
    if not any(pinned[: len(path)] == path for pinned in pins):
        return cell
    children = tuple(_mark(child, (*path, i), pins) for i, child in enumerate(cell.children))
    return replace(cell, pin=pins.get(path), children=children)
