"""Reads `physicalCluster`: cell types into shapes, physical cells into specs with addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from skep_scheduler.cells.problems import Problems
from skep_scheduler.cells.shape import CellSpec, Level, Shape

TYPES = "physicalCluster.cellTypes"
CELLS = "physicalCluster.physicalCells"
MAX_DEVICES = 1 << 20  # in one cell


@dataclass(frozen=True, slots=True)
class TypeSpec:
    child: str
    number: int
    is_node: bool


def read_shapes(physical: Mapping[str, Any], problems: Problems) -> dict[str, Shape]:
    """A shape for every type that can be the top of a chain."""
    types = {
        name: _read_type(problems.mapping(value, f"{TYPES}.{name}"), f"{TYPES}.{name}", problems)
        for name, value in problems.mapping(physical.get("cellTypes"), TYPES).items()
    }
    shapes = {}
    for name in types:
        path = _descend(name, types)
        if path is None:
            problems.add(f"{TYPES}.{name}", "contains itself")
            continue
        nodes = [t for t in path if t in types and types[t].is_node]
        if len(nodes) > 1:
            problems.add(f"{TYPES}.{name}", f"has several node levels: {', '.join(nodes)}")
        elif prod(types[t].number for t in path if t in types) > MAX_DEVICES:
            problems.add(f"{TYPES}.{name}", f"has more than {MAX_DEVICES} devices")
        elif nodes:
            shapes[name] = _shape(name, path, types)
    return shapes


def _read_type(entry: Mapping[str, Any], path: str, problems: Problems) -> TypeSpec:
    child = entry.get("childCellType")
    if child is None or str(child) == "":
        problems.add(f"{path}.childCellType", "is missing")
    is_node = entry.get("isNodeLevel", False)
    if not isinstance(is_node, bool):
        problems.add(f"{path}.isNodeLevel", f"must be true or false, not {is_node!r}")
    number = problems.number(entry.get("childCellNumber"), f"{path}.childCellNumber", 1)
    return TypeSpec(str(child or ""), number, bool(is_node))


def _descend(name: str, types: Mapping[str, TypeSpec]) -> list[str] | None:
    """Return the types from `name` down to its leaf; None if it never ends."""
    path = [name]
    while path[-1] in types:
        child = types[path[-1]].child
        if child in path:
            return None
        path.append(child)
    return path


def _shape(name: str, path: list[str], types: Mapping[str, TypeSpec]) -> Shape:
    levels, leaves = [], 1
    node = next(i for i, t in enumerate(reversed(path), 1) if t in types and types[t].is_node)
    for number, cell_type in enumerate(reversed(path), 1):
        width = types[cell_type].number if cell_type in types else 0
        leaves *= width or 1
        levels.append(Level(number, cell_type, width, leaves, number == node, number < node))
    return Shape(name, tuple(levels))


def read_tops(
    physical: Mapping[str, Any], shapes: Mapping[str, Shape], problems: Problems
) -> list[tuple[str, CellSpec]]:
    reader = _Reader(problems)
    tops = []
    for index, (path, entry) in enumerate(problems.items(physical.get("physicalCells"), CELLS)):
        chain = str(entry.get("cellType", ""))
        if chain not in shapes:
            problems.add(f"{path}.cellType", f"{chain!r} is no cell type at or above a node level")
        else:
            shape = shapes[chain]
            tops.append((chain, reader.read(entry, path, shape, shape.top, index, "")))
    return tops


@dataclass
class _Reader:
    """Gives every cell its address, and sees to it that no two cells share a device or a pin."""

    problems: Problems
    leaves: dict[tuple[str, str], str] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)

    def read(
        self,
        entry: Mapping[str, Any],
        path: str,
        shape: Shape,
        level: int,
        default: int,
        prefix: str,
        node: str = "",
    ) -> CellSpec:
        spec = shape.at(level)
        self._check_type(entry, path, spec.type)
        given = entry.get("cellAddress")
        name = str(default) if given is None or str(given) == "" else str(given)
        address = f"{prefix}/{name}" if prefix else name
        if spec.is_node:
            node, default = name.rsplit("/", 1)[-1], 0  # devices count from 0 in each node
        if level == 1:
            self._claim(self.leaves, (node, name), path, f"device {name} of node {node}")
        children = tuple(
            self.read(child, where, shape, level - 1, default * spec.width + i, address, node)
            for i, (where, child) in enumerate(self._children(entry, path, spec))
            if child.get("absent") is not True
        )
        return CellSpec(address, self._pin(entry, path), children)

    def _check_type(self, entry: Mapping[str, Any], path: str, expected: str) -> None:
        given = entry.get("cellType")
        if given is not None and str(given) not in ("", expected):
            self.problems.add(f"{path}.cellType", f"must be {expected}, not {given}")

    def _children(
        self, entry: Mapping[str, Any], path: str, spec: Level
    ) -> list[tuple[str, dict[str, Any]]]:
        where = f"{path}.cellChildren"
        given = self.problems.items(entry.get("cellChildren"), where)
        if given and len(given) != spec.width:
            self.problems.add(where, f"has {len(given)} cells, but {spec.type} has {spec.width}")
        return given or [(f"{where}[{i}]", {}) for i in range(spec.width)]

    def _pin(self, entry: Mapping[str, Any], path: str) -> str | None:
        pin = entry.get("pinnedCellId")
        if pin is None or str(pin) == "":
            return None
        self._claim(self.pins, str(pin), f"{path}.pinnedCellId", f"pinned cell {pin}")
        return str(pin)

    def _claim(self, claimed: dict[Any, str], key: object, path: str, what: str) -> None:
        first = claimed.setdefault(key, path)
        if first != path:
            self.problems.add(path, f"{what} was given already at {first}")
