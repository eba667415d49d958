"""The static side of cells: which types there are, and how they nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

FREE = -2  # the priority of a cell that no group uses
OPPORTUNISTIC = -1
MAX_PRIORITY = 1000
LEAF = 1  # the level of a single device


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a chain. `width` counts the children of a cell, `leaves` its devices."""

    level: int
    type: str
    width: int  # 0 for a leaf
    leaves: int
    is_node: bool
    below_node: bool


@dataclass(frozen=True)
class Shape:
    """A chain's levels from leaf to top; a chain is named by its top cell type."""

    chain: str
    levels: tuple[Level, ...]

    @property
    def top(self) -> int:
        return len(self.levels)

    @property
    def leaf_type(self) -> str:
        return self.levels[0].type

    @cached_property
    def node_level(self) -> int:
        return next(level.level for level in self.levels if level.is_node)

    @cached_property
    def level_of(self) -> Mapping[str, int]:
        return {level.type: level.level for level in self.levels}

    def at(self, level: int) -> Level:
        return self.levels[level - 1]

    def cells_in(self, level: int, lower: int) -> int:
        """How many cells of level `lower` one cell of `level` has."""
        return self.at(level).leaves // self.at(lower).leaves


@dataclass(frozen=True, slots=True)
class CellSpec:
    """A physical cell as configured. `address` is the whole path, its last part names the cell.

    It may have fewer children than its level says, as a rack with space for another node. Such a
    cell cannot be owned, its parts can.
    """

    address: str
    pin: str | None = None
    children: tuple[CellSpec, ...] = ()

    @property
    def name(self) -> str:
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Share:
    """`number` cells of a level of a chain that a VC owns, wherever they come to lie."""

    chain: str
    level: int
    number: int


@dataclass(frozen=True, slots=True)
class VcSpec:
    name: str
    shares: tuple[Share, ...] = ()
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sku:
    """What one device of a type comes with, for those who count CPUs and memory."""

    gpu: int
    cpu: int
    memory: str


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked. `tops` are the physical cells of each chain."""

    shapes: Mapping[str, Shape]
    tops: tuple[tuple[str, CellSpec], ...]
    vcs: Mapping[str, VcSpec]
    skus: Mapping[str, Sku] = field(default_factory=dict)
