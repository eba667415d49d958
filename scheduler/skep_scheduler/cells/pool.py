"""The free physical cells of one chain, and the counters that keep the VCs' claims safe.

Every operation walks one path of the tree, from a cell to the ancestor where it stops to matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from skep_scheduler.cells.feasible import spare
from skep_scheduler.cells.journal import Journal
from skep_scheduler.cells.shape import CellSpec, Shape
from skep_scheduler.cells.tree import Physical, is_whole, number

_by_rank = attrgetter("rank")


class FreeList:
    """The free cells of one level, by rank: the first of several equal cells is taken first."""

    def __init__(self) -> None:
        self.cells: list[Physical] = []
        self._ranks: list[int] = []

    def __len__(self) -> int:
        return len(self.cells)

    def add(self, cell: Physical) -> None:
        position = bisect_left(self._ranks, cell.rank)
        self._ranks.insert(position, cell.rank)
        self.cells.insert(position, cell)
        cell.listed = True

    def remove(self, cell: Physical) -> int:
        """Remove a cell, and return its position."""
        position = bisect_left(self._ranks, cell.rank)
        del self._ranks[position], self.cells[position]
        cell.listed = False
        return position

    def put_back(self, cell: Physical, position: int) -> None:
        """Undo `remove`."""
        self._ranks.insert(position, cell.rank)
        self.cells.insert(position, cell)
        cell.listed = True

    def renew(self) -> None:
        """Sort the cells anew, since they have other ranks."""
        self.cells.sort(key=_by_rank)
        self._ranks = [cell.rank for cell in self.cells]


class Pool:
    """All lists are indexed by level; index 0 is unused.

    total: all cells that are whole
    left: cells in the free lists, or to be had by splitting one of them (`totalLeft`)
    bad_left: those of them with a bad leaf; bad: all bad devices of the chain
    claims: preassigned cells of all VCs that are not bound at present (`allVCFree`)
    vc_claims: the same, by VC (`vcFree`)
    """

    def __init__(
        self,
        shape: Shape,
        tops: Sequence[Physical],
        journal: Journal,
        free_list: Callable[[], FreeList] = FreeList,
    ) -> None:
        self.shape = shape
        self.tops = list(tops)
        self.journal = journal
        self.free = [free_list() for _ in range(shape.top + 1)]
        self.total = [0] * (shape.top + 1)
        self.left = [0] * (shape.top + 1)
        self.bad_left = [0] * (shape.top + 1)
        self.bad = 0
        number(tops)
        for top in tops:
            self.enter(top)
        self.claims = [0] * (shape.top + 1)
        self.vc_claims: dict[str, list[int]] = {}

    def attach(self, cell: Physical, above: Physical | None) -> None:
        """Add a cell as a part of another, or as a top cell. It is not free before `arrange` has
        numbered it and `enter` has counted it."""
        if above is None:
            self.tops.append(cell)
        else:
            cell.parent = above
            above.children = (*above.children, cell)

    def arrange(self, tops: Iterable[CellSpec]) -> None:
        """Put all cells in the order of the configuration, as if the pool were new."""
        self.tops = _in_order(self.tops, tops, self.shape.top, self.shape.node_level)
        number(self.tops)
        for cells in self.free:
            cells.renew()

    def forget(self, cell: Physical) -> None:
        """Remove a cell; all that it consists of must have been taken."""
        self._count_total(cell, -1)
        if cell.up is None:
            self.tops.remove(cell)
        else:
            cell.up.children = tuple(part for part in cell.up.children if part is not cell)
        self._update_above(cell, -1)

    def enter(self, cell: Physical) -> None:
        """Count a cell that is not in use, and offer it."""
        self._count_total(cell, +1)
        self._update_above(cell, +1)
        self._offer(cell)

    def _count_total(self, cell: Physical, sign: int) -> None:
        self.total[cell.level] += sign * cell.whole
        for part in cell.parts:
            self._count_total(part, sign)

    def _update_above(self, cell: Physical, sign: int) -> None:
        """What contains a cell gets or loses its bad devices, and may be whole or not by it."""
        self.bad += sign * cell.bad
        above = cell.up
        while above is not None:
            above.bad += sign * cell.bad
            whole = is_whole(above)
            self.total[above.level] += whole - above.whole
            above.whole = whole
            above = above.up

    def _offer(self, cell: Physical) -> None:
        """What is whole is free, what lacks parts is handed out part by part."""
        if cell.whole:
            self.give(cell)
            return
        cell.split = True
        for part in cell.parts:
            self._offer(part)

    def claim(self, vc: str, level: int, number: int) -> None:
        """Record that a VC owns `number` more cells (fewer, when negative)."""
        self.claims[level] += number
        self.vc_claims.setdefault(vc, [0] * (self.shape.top + 1))[level] += number
        self.journal.note(self._unclaim, vc, level, number)

    def _unclaim(self, vc: str, level: int, number: int) -> None:
        self.claims[level] -= number
        self.vc_claims[vc][level] -= number

    def spare(self) -> list[int]:
        return spare(self.shape, [len(cells) for cells in self.free], self.claims)

    def is_safe(self) -> bool:
        """Whether every cell that VCs may still claim can be given to them at the same time."""
        return min(self.spare()) >= 0

    def is_free(self, cell: Physical) -> bool:
        """Whether it, or a cell that contains it, is in a free list."""
        here: Physical | None = cell
        while here is not None:
            if here.listed:
                return True
            here = here.up
            if here is not None and here.split:
                return False
        return False

    def take(self, cell: Physical) -> None:
        """Removes a free cell, splitting what contains it."""
        self._count(cell, -1, cell.level)
        here = cell
        while True:
            parent = here.up
            whole = parent is not None and not parent.split
            if parent is not None and whole:
                for child in parent.parts:
                    self._add_free(child)
                self.journal.set(parent, "split", True)
            self._remove(here)
            if parent is None or not whole:
                return
            here = parent
            self._count_one(here, -1)

    def give(self, cell: Physical) -> None:
        """Puts a cell back, merged with its buddies where all of them are free."""
        self._count(cell, +1, cell.level)
        here = cell
        while True:
            parent = here.up
            if parent is None or not self._is_free_beside(here, parent):
                self._add_free(here)
                return
            for buddy in parent.parts:
                if buddy is not here:
                    self._remove(buddy)
            self.journal.set(parent, "split", False)
            here = parent
            self._count_one(here, +1)

    @staticmethod
    def _is_free_beside(cell: Physical, parent: Physical) -> bool:
        return parent.whole and all(part.listed or part is cell for part in parent.parts)

    def mark_bad(self, cell: Physical, change: int) -> None:
        """Record that a cell got its first bad leaf (+1), or lost its last one (-1)."""
        if self.is_free(cell):
            self._add(self.bad_left, cell.level, change)

    def _add_free(self, cell: Physical) -> None:
        cells = self.free[cell.level]
        cells.add(cell)
        self.journal.note(cells.remove, cell)

    def _remove(self, cell: Physical) -> None:
        cells = self.free[cell.level]
        self.journal.note(cells.put_back, cell, cells.remove(cell))

    def _count(self, cell: Physical, sign: int, level: int) -> None:
        for lower in range(1, level + 1):
            self._add(self.left, lower, sign * self.shape.cells_in(level, lower))
        if cell.bad:
            self._count_bad(cell, sign)

    def _count_one(self, cell: Physical, sign: int) -> None:
        self._add(self.left, cell.level, sign)
        if cell.bad:
            self._add(self.bad_left, cell.level, sign)

    def _count_bad(self, cell: Physical, sign: int) -> None:
        self._add(self.bad_left, cell.level, sign)
        for child in cell.parts:
            if child.bad:
                self._count_bad(child, sign)

    def _add(self, counters: list[int], level: int, change: int) -> None:
        counters[level] += change
        self.journal.note(_subtract, counters, level, change)


def _in_order(
    cells: Sequence[Physical], specs: Iterable[CellSpec], level: int, node_level: int
) -> list[Physical]:
    """Return cells in the order of their specs, with what they contain down to nodes in order,
    too. Within a node nothing is ever added."""
    found, wanted = list(cells), list(specs)
    if [cell.address for cell in found] != [spec.address for spec in wanted]:
        positions = {spec.address: position for position, spec in enumerate(wanted)}
        found.sort(key=lambda cell: positions[cell.address])
    if level > node_level:
        for cell, spec in zip(found, wanted, strict=True):
            parts = _in_order(cell.parts, spec.children, level - 1, node_level)
            cell.children = tuple(parts)
    return found


def _subtract(counters: list[int], level: int, change: int) -> None:
    counters[level] -= change
