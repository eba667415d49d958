"""HiveD's order among equally good cells, in which history decides: recorded placements depend on
it. The scheduler itself never uses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from skep_scheduler.cells.backing import backing_cell, children_with_backing
from skep_scheduler.cells.node_order import UNHEALTHY, Backed, NodeOrder
from skep_scheduler.cells.pool import FreeList, Pool
from skep_scheduler.cells.tree import Cell, Physical, Virtual, at_level

_by_key = attrgetter("key")


class HivedOrder:
    """An `Ordering` with the lists of HiveD."""

    def free_list(self) -> FreeList:
        return SwappingFreeList()

    def node_order(self, roots: Sequence[Cell], nodes: Sequence[Cell], across: bool) -> NodeOrder:
        return StickyNodeOrder(roots, nodes, across)

    def arrange(self, pool: Pool) -> None:
        """Leave the free lists in the order that they have in HiveD after its start.

        HiveD starts with every node bad, binds VCs' cells to bad ones as it finds too few healthy
        ones, and takes that back as nodes turn healthy one after the other: so some cells come to
        the end of their lists.
        """
        if all(len(cells) < 2 for cells in pool.free):
            return  # nothing to order
        claimed = [level for level in range(1, pool.shape.top + 1) if pool.claims[level]]
        if not claimed:
            return
        start = _Startup(pool)
        grain = min(pool.shape.node_level, min(claimed))
        cells = [cell for top in pool.tops for cell in _physical(at_level(top, grain))]
        for cell in cells:
            start.turn_bad(cell)
        for cell in cells:
            start.turn_healthy(cell)


class SwappingFreeList(FreeList):
    """Cells in the order in which they came. Removal moves the last cell into the gap."""

    def __init__(self) -> None:
        super().__init__()
        self._positions: dict[Physical, int] = {}

    def add(self, cell: Physical) -> None:
        self._positions[cell] = len(self.cells)
        self.cells.append(cell)
        cell.listed = True

    def remove(self, cell: Physical) -> int:
        position, last = self._positions.pop(cell), self.cells.pop()
        if last is not cell:
            self.cells[position] = last
            self._positions[last] = position
        cell.listed = False
        return position

    def put_back(self, cell: Physical, position: int) -> None:
        if position < len(self.cells):
            self.add(self.cells[position])
            self.cells[position] = cell
            self._positions[cell] = position
            cell.listed = True
        else:
            self.add(cell)

    def renew(self) -> None:
        """Do nothing: ranks have no meaning here."""


class StickyNodeOrder(NodeOrder):
    """The sort is stable and works on its last result: among equals, history decides."""

    _avoided = False

    def ordered(self, avoid: Collection[str], any_bad: bool) -> Sequence[Cell]:
        stale = self._find_stale(any_bad)
        if avoid or self._avoided:
            stale = set(self.nodes)
        self._avoided = bool(avoid)
        if stale:
            for node in stale:
                node.key = self._key(node) + _avoidance(node, avoid)
            self.nodes.sort(key=_by_key)
            self.changed.clear()
        return self.nodes

    def leaves(self, node: Cell) -> Sequence[Cell]:
        return self._static_leaves(node)

    def children(self, cell: Cell, under: Physical | None) -> Sequence[Backed]:
        return children_with_backing(cell, under)

    def tie(self, cell: Cell) -> tuple[str, str]:
        behind = cell.physical if isinstance(cell, Virtual) else cell
        return (behind.address if behind is not None else "", cell.address)


def _avoidance(node: Cell, avoid: Collection[str]) -> int:
    under = backing_cell(node) if avoid else None
    return UNHEALTHY if under is not None and not under.bad and under.node in avoid else 0


def _physical(cells: Iterator[Cell]) -> Iterator[Physical]:
    return (cell for cell in cells if isinstance(cell, Physical))


class _Startup:
    """free_bad: bad cells that are free; doomed: those given to VCs, by VC; both by level."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.bad: set[Physical] = set()
        self.free_bad = [_Cells() for _ in pool.left]
        self.doomed = {vc: [_Cells() for _ in pool.left] for vc in pool.vc_claims}
        self.owner: dict[Physical, str] = {}

    def turn_bad(self, cell: Physical) -> None:
        if cell in self.bad:
            return
        self.bad.add(cell)
        if cell.up is not None:
            self.turn_bad(cell.up)
        if self._is_free(cell):
            self.free_bad[cell.level].append(cell)
            self._doom(cell.level)

    def turn_healthy(self, cell: Physical) -> None:
        self.bad.discard(cell)
        if self._is_free(cell):
            self.free_bad[cell.level].drop(cell)
            self._save(cell.level)
        elif cell in self.owner:
            self._release(cell)
        parent = cell.up
        if parent is not None and not any(part in self.bad for part in parent.parts):
            self.turn_healthy(parent)

    def _is_free(self, cell: Physical) -> bool:
        return not cell.split and self.pool.is_free(cell)

    def _healthy(self, level: int) -> int:
        return self.pool.left[level] - len(self.free_bad[level])

    def _doom(self, level: int) -> None:
        for vc, claims in self.pool.vc_claims.items():
            while claims[level] > self._healthy(level) and len(self.free_bad[level]):
                self._give_to(vc, self.free_bad[level].cells[0])

    def _save(self, level: int) -> None:
        for vc, claims in self.pool.vc_claims.items():
            doomed = self.doomed[vc][level]
            while len(doomed) and claims[level] < self._healthy(level):
                self._release(doomed.cells[0])

    def _give_to(self, vc: str, cell: Physical) -> None:
        self.owner[cell] = vc
        self.doomed[vc][cell.level].append(cell)
        split = [above for above in _above(cell) if not above.split]
        self.pool.claim(vc, cell.level, -1)
        self.pool.take(cell)
        for above in split:
            if above in self.bad:
                self.free_bad[above.level].drop(above)
            else:
                self._doom(above.level)
        self._take_bad(cell)
        for level in range(cell.level - 1, 0, -1):
            self._doom(level)

    def _release(self, cell: Physical) -> None:
        vc = self.owner.pop(cell)
        self.doomed[vc][cell.level].drop(cell)
        before = [above for above in _above(cell) if above.split]
        self.pool.claim(vc, cell.level, +1)
        self.pool.give(cell)
        for above in before:
            if above.split:
                break
            if above in self.bad:
                self.free_bad[above.level].append(above)
            else:
                self._save(above.level)
        if cell in self.bad:
            self._give_bad(cell)
        else:
            self._save(cell.level)
        for level in range(cell.level - 1, 0, -1):
            self._save(level)

    def _take_bad(self, cell: Physical) -> None:
        self.free_bad[cell.level].drop(cell)
        for part in cell.parts:
            if part in self.bad:
                self._take_bad(part)

    def _give_bad(self, cell: Physical) -> None:
        self.free_bad[cell.level].append(cell)
        for part in cell.parts:
            if part in self.bad:
                self._give_bad(part)


def _above(cell: Physical) -> Iterator[Physical]:
    above = cell.up
    while above is not None:
        yield above
        above = above.up


class _Cells:
    """A list that loses a cell by moving its last one into the place."""

    def __init__(self) -> None:
        self.cells: list[Physical] = []
        self._slots: dict[Physical, int] = {}

    def __len__(self) -> int:
        return len(self.cells)

    def append(self, cell: Physical) -> None:
        self._slots[cell] = len(self.cells)
        self.cells.append(cell)

    def drop(self, cell: Physical) -> None:
        slot = self._slots.pop(cell, None)
        if slot is None:
            return
        last = self.cells.pop()
        if last is not cell:
            self.cells[slot] = last
            self._slots[last] = slot
