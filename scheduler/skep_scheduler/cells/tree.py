"""Physical and virtual cells, which are bound to each other while in use, and the groups of tasks
that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import FREE, LEAF, OPPORTUNISTIC, CellSpec, Level, Shape

NODE_FAULT, DEVICE_FAULT = 1, 2
Address = int | str  # of a device in its node: HiveD's are numbers


class Cell:
    """A cell of either kind.

    used: counts the devices below by priority, only priorities with any; a leaf has its `priority`
    rank: the position in the configuration: cells are numbered from the root down, and from the
        first sibling to the last. It decides between cells that are equally good.
    changed: of a cell that a task must lie within (a node, or what a VC owns below one): the set in
        which the cell is noted when its position in the packing order may have changed
    key: the position in the packing order when it was last sorted
    """

    __slots__ = (
        "address",
        "changed",
        "children",
        "key",
        "parent",
        "priority",
        "rank",
        "shape",
        "spec",
        "used",
        "used_total",
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
        self.changed: set[Cell] | None = None
        self.key = 0
        self.rank = 0

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
        total = 0
        if self.used:
            for used_at, leaves in self.used.items():
                if used_at >= priority:
                    total += leaves
        return total

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"


class Physical(Cell):
    """A cell of hardware.

    listed: whether it is in the free list of its level
    split: its children are handed out one by one
    bad: counts the bad leaves below
    whole: a cell that is not whole lacks parts, somewhere below. It is split for ever, so no VC
        can own it.
    """

    __slots__ = (
        "bad",
        "faults",
        "holder",
        "index",
        "listed",
        "node",
        "pin",
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
        self.listed = False
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


@dataclass(slots=True)
class TaskSlot:
    """One task's place. A leaf is None where the cluster has it no more, or someone else uses it:
    the task runs on unaccounted. `virtual` has None for leaves that its VC does not account."""

    member: int  # index into the gang's members
    node: str
    indices: tuple[int | str, ...]
    leaves: list[Physical | None]
    virtual: list[Virtual | None]
    cell_type: str  # of the preassigned cell; "" when opportunistic

    def pairs(self) -> list[tuple[Physical, Virtual | None]]:
        pairs = zip(self.leaves, self.virtual, strict=True)
        return [(leaf, virtual) for leaf, virtual in pairs if leaf is not None]


@dataclass(slots=True, eq=False)
class Group:
    """`downgraded_by` says why a guaranteed gang is opportunistic now. A preempting group holds
    its leaves (`holder`), while victims may still run on them."""

    gang: GangRequest
    chain: str
    order: int  # counts the groups in the order they came
    slots: list[TaskSlot] = field(default_factory=list)
    preempting: bool = False
    downgraded_by: str | None = None

    @property
    def name(self) -> str:
        return self.gang.name

    @property
    def priority(self) -> int:
        """As it counts now: a downgraded group is opportunistic."""
        return OPPORTUNISTIC if self.downgraded_by is not None else self.gang.priority

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0

    def pairs(self) -> list[tuple[Physical, Virtual | None]]:
        return [pair for slot in self.slots for pair in slot.pairs()]

    @property
    def state(self) -> str:
        """Return Allocated, BeingPreempted or Preempting."""
        if self.preempting:
            return "Preempting"
        lost = any(leaf.holder is not None for leaf, _ in self.pairs() if leaf.user is self)
        return "BeingPreempted" if lost else "Allocated"


def build_physical(shape: Shape, spec: CellSpec, level: int | None = None) -> Physical:
    """Build a top cell, or one of another level down to that of nodes."""
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
    """Return all cells of `level` below `cell` (or itself), in order."""
    if cell.spec.level == level:
        yield cell
    elif cell.spec.level > level:
        for child in cell.children:
            yield from at_level(child, level)


def leaves_of(cell: Physical) -> Iterator[Physical]:
    return at_level(cell, LEAF)  # type: ignore[return-value]


def number(tops: Iterable[Cell]) -> None:
    """Set the ranks of all cells of these trees, in their order."""
    rank, stack = 0, list(tops)[::-1]
    while stack:
        cell = stack.pop()
        cell.rank = rank
        rank += 1
        stack.extend(reversed(cell.children))
