"""Physical and virtual cells: two mirrored kinds of trees, bound to each other while in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from skep_scheduler.cells.shape import FREE, LEAF, CellSpec, Level, Shape

if TYPE_CHECKING:
    from skep_scheduler.cells.groups import Group
    from skep_scheduler.cells.view import View

NODE_FAULT, DEVICE_FAULT = 1, 2
Address = int | str  # of a device in its node: HiveD's are numbers


class Cell:
    """What both kinds share. `used` counts the devices below by priority, only those above 0;
    a leaf has its `priority` instead."""

    __slots__ = (
        "address",
        "children",
        "key",
        "parent",
        "priority",
        "shape",
        "spec",
        "used",
        "used_total",
        "view",
    )

    def __init__(self, address: str, shape: Shape, spec: Level) -> None:
        self.address = address
        self.shape = shape
        self.spec = spec
        self.parent: Cell | None = None
        self.children: tuple[Cell, ...] = ()
        self.used: dict[int, int] | None = None
        self.used_total = 0
        self.priority = FREE
        self.view: View | None = None  # of cells that a task must lie within: nodes, or smaller
        self.key = 0

    @property
    def level(self) -> int:
        return self.spec.level

    @property
    def top_priority(self) -> int:
        """The highest priority of a leaf below, FREE if none is used."""
        if self.spec.level == LEAF:
            return self.priority
        return max(self.used) if self.used else FREE

    def used_at(self, priority: int) -> int:
        if self.spec.level == LEAF:
            return int(self.priority == priority)
        return self.used.get(priority, 0) if self.used else 0

    def used_from(self, priority: int) -> int:
        """Leaves used at `priority` or above."""
        if self.spec.level == LEAF:
            return int(self.priority >= priority)
        return sum(n for p, n in self.used.items() if p >= priority) if self.used else 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"


class Physical(Cell):
    """`slot` is its place in its level's free list (-1: not in it), `split` says that its children
    are handed out one by one, `bad` counts the bad leaves below. A cell that is not `whole` lacks
    parts, somewhere below: it is split for ever, so nobody can own it."""

    __slots__ = (
        "bad",
        "faults",
        "holder",
        "index",
        "node",
        "pin",
        "slot",
        "split",
        "user",
        "virtual",
        "whole",
    )

    def __init__(self, address: str, shape: Shape, spec: Level, node: str | None) -> None:
        super().__init__(address, shape, spec)
        self.node = node  # None above node level
        self.index: Address = -1  # of a leaf
        self.virtual: Virtual | None = None
        self.slot = -1
        self.split = False
        self.whole = True
        self.pin: str | None = None
        self.bad = 0
        self.faults = 0  # of a leaf: NODE_FAULT, DEVICE_FAULT
        self.user: Group | None = None  # of a leaf: who runs on it
        self.holder: Group | None = None  # of a leaf: the preemptor for whom it is reserved

    @property
    def accounted(self) -> Virtual | None:
        """The virtual leaf that a leaf is used as. (One that is pinned is bound when idle, too.)"""
        return self.virtual if self.virtual is not None and self.virtual.used_total else None

    @property
    def up(self) -> Physical | None:
        return self.parent  # type: ignore[return-value]

    @property
    def parts(self) -> tuple[Physical, ...]:
        return self.children  # type: ignore[return-value]


class Virtual(Cell):
    """A cell that a VC owns. `root` is the whole of what was given to the VC, its preassigned
    cell; `pin` the pinned cell that it is for good."""

    __slots__ = ("physical", "pin", "root", "vc")

    def __init__(
        self,
        address: str,
        shape: Shape,
        spec: Level,
        vc: str,
        pin: str | None,
        root: Virtual | None,
    ) -> None:
        super().__init__(address, shape, spec)
        self.vc = vc
        self.pin = pin
        self.root = root or self
        self.physical: Physical | None = None

    @property
    def up(self) -> Virtual | None:
        return self.parent  # type: ignore[return-value]

    @property
    def parts(self) -> tuple[Virtual, ...]:
        return self.children  # type: ignore[return-value]


def build_physical(shape: Shape, spec: CellSpec, level: int | None = None) -> Physical:
    """A top cell, or one of another level down to that of nodes."""
    return _physical(shape, level or shape.top, spec, None)


def device_of(leaf: CellSpec) -> Address:
    return int(leaf.name) if leaf.name.isdecimal() else leaf.name


def _physical(shape: Shape, level: int, spec: CellSpec, node: str | None) -> Physical:
    kind = shape.at(level)
    cell = Physical(spec.address, shape, kind, spec.name if kind.is_node else node)
    cell.pin = spec.pin
    if level == LEAF:
        cell.index = device_of(spec)
    children = tuple(_physical(shape, level - 1, child, cell.node) for child in spec.children)
    _adopt(cell, children)
    cell.whole = is_whole(cell)
    return cell


def is_whole(cell: Physical) -> bool:
    """Looks at its parts only."""
    return len(cell.parts) == cell.spec.width and all(part.whole for part in cell.parts)


def build_virtual(
    shape: Shape, level: int, vc: str, number: int, pin: str | None = None
) -> Virtual:
    """`number` counts the VC's preassigned cells; children count on through their level."""
    return _virtual(shape, level, f"{vc}/{number}", 0, vc, pin, None)


def _virtual(
    shape: Shape, level: int, address: str, nth: int, vc: str, pin: str | None, root: Virtual | None
) -> Virtual:
    kind = shape.at(level)
    cell = Virtual(address, shape, kind, vc, pin, root)
    first = nth * kind.width
    children = tuple(
        _virtual(shape, level - 1, f"{address}/{n}", n, vc, pin, cell.root)
        for n in range(first, first + kind.width)
    )
    _adopt(cell, children)
    return cell


def _adopt(cell: Cell, children: tuple[Cell, ...]) -> None:
    cell.children = children
    for child in children:
        child.parent = cell


def at_level(cell: Cell, level: int) -> Iterator[Cell]:
    """All cells of `level` below `cell` (or itself), in order."""
    if cell.spec.level == level:
        yield cell
    elif cell.spec.level > level:
        for child in cell.children:
            yield from at_level(child, level)


def leaves_of(cell: Physical) -> Iterator[Physical]:
    return at_level(cell, LEAF)  # type: ignore[return-value]
