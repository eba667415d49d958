"""The free physical cells of one chain, and the counters that keep the VCs' claims safe.

Every operation walks one path of the tree, from a cell to the ancestor where it stops to matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from skep_scheduler.cells.feasible import spare
from skep_scheduler.cells.journal import Journal
from skep_scheduler.cells.shape import Shape
from skep_scheduler.cells.tree import Physical, is_whole


class FreeList:
    """Cells of one level. Removal moves the last cell into the gap, as the reference does: the
    order decides between equal cells."""

    def __init__(self) -> None:
        self.cells: list[Physical] = []

    def __len__(self) -> int:
        return len(self.cells)

    def append(self, cell: Physical) -> None:
        cell.slot = len(self.cells)
        self.cells.append(cell)

    def remove(self, cell: Physical) -> int:
        """Returns where it was."""
        slot, last = cell.slot, self.cells.pop()
        if last is not cell:
            self.cells[slot] = last
            last.slot = slot
        cell.slot = -1
        return slot

    def put_back(self, cell: Physical, slot: int) -> None:
        """Undoes `remove`."""
        if slot < len(self.cells):
            self.append(self.cells[slot])
            self.cells[slot] = cell
            cell.slot = slot
        else:
            self.append(cell)


class Pool:
    """All lists are indexed by level; index 0 is unused.

    total: all cells that are whole
    left: cells in the free lists, or to be had by splitting one of them (`totalLeft`)
    bad_left: those of them with a bad leaf; bad: all bad devices of the chain
    claims: preassigned cells of all VCs that are not bound at present (`allVCFree`)
    vc_claims: the same, by VC (`vcFree`)
    """

    def __init__(self, shape: Shape, tops: Sequence[Physical], journal: Journal) -> None:
        self.shape = shape
        self.tops = list(tops)
        self.journal = journal
        self.free = [FreeList() for _ in range(shape.top + 1)]
        self.total = [0] * (shape.top + 1)
        self.left = [0] * (shape.top + 1)
        self.bad_left = [0] * (shape.top + 1)
        self.bad = 0
        for top in tops:
            self._enter(top)
        self.claims = [0] * (shape.top + 1)
        self.vc_claims: dict[str, list[int]] = {}

    def learn(self, cell: Physical, above: Physical | None) -> None:
        """A cell that nobody uses is there now, as a top cell or as a part of another."""
        if above is None:
            self.tops.append(cell)
        else:
            cell.parent = above
            above.children = (*above.children, cell)
        self._enter(cell)

    def forget(self, cell: Physical) -> None:
        """The opposite; all that it consists of must have been taken."""
        self._count_total(cell, -1)
        if cell.up is None:
            self.tops.remove(cell)
        else:
            cell.up.children = tuple(part for part in cell.up.children if part is not cell)
        self._update_above(cell, -1)

    def _enter(self, cell: Physical) -> None:
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
        """A VC owns `number` more cells (fewer, when negative)."""
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
            if here.slot >= 0:
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
                    self._append(child)
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
                self._append(here)
                return
            for buddy in parent.parts:
                if buddy is not here:
                    self._remove(buddy)
            self.journal.set(parent, "split", False)
            here = parent
            self._count_one(here, +1)

    @staticmethod
    def _is_free_beside(cell: Physical, parent: Physical) -> bool:
        return parent.whole and all(part.slot >= 0 or part is cell for part in parent.parts)

    def mark_bad(self, cell: Physical, change: int) -> None:
        """A cell got its first bad leaf (+1), or lost its last one (-1)."""
        if self.is_free(cell):
            self._add(self.bad_left, cell.level, change)

    def _append(self, cell: Physical) -> None:
        cells = self.free[cell.level]
        cells.append(cell)
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


def _subtract(counters: list[int], level: int, change: int) -> None:
    counters[level] -= change
