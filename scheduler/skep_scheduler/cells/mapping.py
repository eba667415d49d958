"""Maps the virtual cells of a placement onto physical cells.

Preassigned cells that are not bound get a free physical cell by buddy allocation with
backtracking: from the lowest free list that has any, so that no larger cell is split in vain. Where
what is there is bad or avoided, a cell of a higher list is split too, as long as everything that
VCs may still claim fits into the rest (safe relaxed buddy allocation). Below a bound cell the
virtual structure is followed in the physical one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import LEAF
from skep_scheduler.cells.tree import Physical, Virtual

Bindings = dict[Virtual, Physical]  # of leaves


@dataclass(slots=True)
class Vertex:
    """A virtual cell that must be bound, with those of its children that must be."""

    cell: Virtual
    children: list[Vertex] = field(default_factory=list)

    def leaves(self) -> Iterator[Virtual]:
        if self.cell.spec.level == LEAF:
            yield self.cell
        for child in self.children:
            yield from child.leaves()


@dataclass(slots=True)
class Paths:
    """All that must be bound for a placement: whole preassigned cells, and cells by the bound cell
    that contains them."""

    roots: list[Vertex] = field(default_factory=list)
    below: dict[Virtual, list[Vertex]] = field(default_factory=dict)


class CannotMap(Exception):
    """No healthy cell for `vertex`."""

    def __init__(self, vertex: Vertex) -> None:
        super().__init__(vertex.cell.address)
        self.vertex = vertex


class Mapper:
    """Works within a trial: it takes free cells out of the pool as it goes."""

    def __init__(self, pool: Pool, avoid: Collection[str]) -> None:
        self.pool = pool
        self.avoid = avoid

    def map(self, leaves: Iterable[Virtual]) -> Bindings:
        """Return the physical leaf of each virtual one. Raises `CannotMap`."""
        bindings: Bindings = {}
        paths = _paths(leaves, bindings)
        self._map_roots(paths.roots, bindings)
        for parent, vertices in paths.below.items():
            assert parent.physical is not None
            found = self._match(vertices, parent.physical.parts)
            if found is None:
                raise CannotMap(vertices[0])
            bindings.update(found)
        return bindings

    def _map_roots(self, roots: Sequence[Vertex], bindings: Bindings) -> None:
        for vertex in roots:
            found = self._find_root(vertex)
            if found is None:
                raise CannotMap(vertex)
            cell, leaves = found
            bindings.update(leaves)
            self.pool.claim(vertex.cell.vc, vertex.cell.level, -1)
            self.pool.take(cell)

    def _find_root(self, vertex: Vertex) -> tuple[Physical, Bindings] | None:
        level, spare = vertex.cell.level, self.pool.spare()
        for above in range(level, self.pool.shape.top + 1):
            if above > level and spare[above] < 1:
                return None  # to split a cell of this level would break a claim
            found = self._descend(vertex, self.pool.free[above].cells, above)
            if found is not None:
                return found
        return None

    def _descend(
        self, vertex: Vertex, candidates: Sequence[Physical], level: int
    ) -> tuple[Physical, Bindings] | None:
        for cell in self._usable(candidates):
            if level == vertex.cell.level:
                leaves = self._fit(vertex, cell)
                found = (cell, leaves) if leaves is not None else None
            else:
                found = self._descend(vertex, cell.parts, level - 1)
            if found is not None:
                return found
        return None

    def _fit(self, vertex: Vertex, cell: Physical) -> Bindings | None:
        if cell.spec.level == LEAF:
            return {vertex.cell: cell}
        if not (cell.used_total or cell.bad or self.avoid):
            bindings: Bindings = {}
            _fit_idle(vertex, cell, bindings)
            return bindings
        return self._match(vertex.children, cell.parts)

    def _match(self, vertices: Sequence[Vertex], candidates: Sequence[Physical]) -> Bindings | None:
        """A different candidate for each vertex: the first ones that will do, reassigned only where
        a later vertex would have none (bipartite matching)."""
        usable = list(self._usable(candidates))
        if len(usable) < len(vertices):
            return None
        return self._match_in_order(vertices, usable) or self._match_any(vertices, usable)

    def _match_in_order(
        self, vertices: Sequence[Vertex], usable: Sequence[Physical]
    ) -> Bindings | None:
        bindings: Bindings = {}
        for vertex, cell in zip(vertices, usable, strict=False):
            leaves = self._fit(vertex, cell)
            if leaves is None:
                return None
            bindings.update(leaves)
        return bindings

    def _match_any(self, vertices: Sequence[Vertex], usable: Sequence[Physical]) -> Bindings | None:
        matching = _Matching(self, vertices, usable)
        if not all(matching.assign(i, set()) for i in range(len(vertices))):
            return None
        return matching.bindings()

    def _usable(self, candidates: Iterable[Physical]) -> Iterator[Physical]:
        """Cells that may be bound, those with the fewest opportunistic devices first; within a node
        those without any bad device before the others."""
        later: list[tuple[int, int, Physical]] = []
        for cell in candidates:
            if cell.virtual is not None or cell.bad == cell.spec.leaves:
                continue
            if self.avoid and _all_avoided(cell, self.avoid):
                continue
            rank = cell.used_total
            if cell.bad and (cell.spec.is_node or cell.spec.below_node):
                rank += 1 << 20
            if rank:
                later.append((rank, len(later), cell))
            else:
                yield cell
        for _, _, cell in sorted(later):
            yield cell


class _Matching:
    def __init__(
        self, mapper: Mapper, vertices: Sequence[Vertex], candidates: Sequence[Physical]
    ) -> None:
        self._mapper = mapper
        self._vertices = vertices
        self._candidates = candidates
        self._fits: dict[tuple[int, int], Bindings | None] = {}
        self._owner: dict[int, int] = {}  # vertex by candidate

    def assign(self, vertex: int, seen: set[int]) -> bool:
        fitting = (c for c in range(len(self._candidates)) if c not in seen)
        for candidate in fitting:
            if candidate not in self._owner and self._fit(vertex, candidate) is not None:
                self._owner[candidate] = vertex
                return True
        for candidate in range(len(self._candidates)):
            if candidate in seen or self._fit(vertex, candidate) is None:
                continue
            seen.add(candidate)
            if self.assign(self._owner[candidate], seen):
                self._owner[candidate] = vertex
                return True
        return False

    def _fit(self, vertex: int, candidate: int) -> Bindings | None:
        key = (vertex, candidate)
        if key not in self._fits:
            self._fits[key] = self._mapper._fit(self._vertices[vertex], self._candidates[candidate])
        return self._fits[key]

    def bindings(self) -> Bindings:
        found: Bindings = {}
        for candidate, vertex in self._owner.items():
            found.update(self._fits[vertex, candidate] or {})
        return found


def _fit_idle(vertex: Vertex, cell: Physical, bindings: Bindings) -> None:
    """An idle and healthy cell takes everything, one part after the other."""
    if cell.spec.level == LEAF:
        bindings[vertex.cell] = cell
    for child, part in zip(vertex.children, cell.parts, strict=False):
        _fit_idle(child, part, bindings)


def _all_avoided(cell: Physical, avoid: Collection[str]) -> bool:
    if cell.node is not None:
        return cell.node in avoid
    return all(_all_avoided(part, avoid) for part in cell.parts)


def _paths(leaves: Iterable[Virtual], bindings: Bindings) -> Paths:
    """Collects what is not bound above each leaf, as trees; bound leaves go into `bindings`."""
    paths = Paths()
    known: dict[Virtual, Vertex] = {}
    for leaf in leaves:
        if leaf.physical is not None:
            bindings[leaf] = leaf.physical
            continue
        vertex = known[leaf] = Vertex(leaf)
        while True:
            parent = vertex.cell.up
            if parent is None:
                paths.roots.append(vertex)
            elif parent.physical is not None:
                paths.below.setdefault(parent, []).append(vertex)
            elif parent in known:
                known[parent].children.append(vertex)
            else:
                known[parent] = Vertex(parent, [vertex])
                vertex = known[parent]
                continue
            break
    return paths
