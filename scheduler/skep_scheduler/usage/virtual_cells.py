"""The cells of a virtual cluster as plain data: numbers by type, and trees over the physical cells
that they are bound to while they are in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skep_scheduler.cells.health import lost
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Physical, Virtual, leaves_of
from skep_scheduler.state import ClusterState
from skep_scheduler.usage.accounting import borrowed
from skep_scheduler.usage.gpu_state import gang_on, gpu_state
from skep_scheduler.usage.physical_cells import UnknownCellError

FULL_DEPTH_GPUS = 256  # up to so many GPUs a tree is described down to its leaves
MAX_ROOTS = 500  # per chain


@dataclass(frozen=True, slots=True)
class OwnedCells:
    """The cells of one level that a virtual cluster owns. `bad`: free ones for which there is no
    healthy place; `lent`: free ones that opportunistic gangs must leave first."""

    total: int
    used: int
    bad: int
    lent: int

    @property
    def free(self) -> int:
        return self.total - self.used - self.bad - self.lent


def count_owned(
    state: CellState, vc: str, chain: str, roots: Sequence[Virtual]
) -> dict[int, OwnedCells]:
    """Return the counts by level, the largest cells first."""
    pool = state.chains[chain]
    clean = _clean(pool)
    levels = sorted({root.level for root in roots}, reverse=True)
    return {level: _count(state, vc, pool, level, roots, clean[level]) for level in levels}


def open_states(owned: OwnedCells, roots: Sequence[Virtual]) -> dict[Virtual, str]:
    """Return what each free root of one level that is bound to no physical cell would meet: free,
    lent or bad. Cells without a place are all alike: the last ones are taken as the bad ones."""
    unbound = [root for root in roots if root.physical is None]
    pinned = [root for root in roots if root.physical is not None and not root.used_total]
    bad = owned.bad - sum(state_of_place(root.physical) == "bad" for root in pinned)
    lent = owned.lent - sum(state_of_place(root.physical) == "lent" for root in pinned)
    free = len(unbound) - bad - lent
    states = ["free"] * free + ["lent"] * lent + ["bad"] * bad
    return dict(zip(unbound, states, strict=True))


def state_of_place(cell: Physical | None) -> str:
    """Return the state of a physical cell that its owner does not use."""
    if cell is None:
        return "free"
    if cell.bad:
        return "bad"
    return "lent" if cell.used_at(OPPORTUNISTIC) else "free"


def _count(
    state: CellState, vc: str, pool: Pool, level: int, roots: Sequence[Virtual], clean: int
) -> OwnedCells:
    mine = [root for root in roots if root.level == level]
    used = sum(root.used_total > 0 for root in mine)
    places = Counter(
        state_of_place(root.physical)
        for root in mine
        if root.physical is not None and not root.used_total
    )
    unbound = sum(root.physical is None for root in mine)
    bad = lost(state, vc, pool.shape.chain, level) if unbound else 0
    lent = max(unbound - bad - clean, 0)
    return OwnedCells(len(mine), used, bad + places["bad"], lent + places["lent"])


def _clean(pool: Pool) -> list[int]:
    """Return by level the free cells, parts of larger ones included, that are healthy and idle."""
    clean = [0] * (pool.shape.top + 1)
    stack: list[Physical] = [cell for free in pool.free for cell in free.cells]
    while stack:
        cell = stack.pop()
        if cell.bad or cell.used_total:
            stack.extend(cell.parts)
        else:
            for lower in range(1, cell.level + 1):
                clean[lower] += cell.shape.cells_in(cell.level, lower)
    return clean


@dataclass(frozen=True, slots=True)
class VirtualCell:
    """
    gpus, used, bad, lent: numbers of GPUs in the cell
    state: free, used, reserved, lent or bad
    place: address and node of the physical cell that it is bound to, or would be within what is
        bound; None for a cell without one
    children: the cells in it, None where they are left out
    gang: the id of the gang on it, for a single GPU
    """

    address: str
    type: str
    gpus: int
    pin: str | None
    state: str
    used: int
    bad: int
    lent: int
    place: tuple[str, str | None] | None
    children: tuple[VirtualCell, ...] | None
    gang: str | None


@dataclass(frozen=True, slots=True)
class OwnedType:
    """How many cells of one type a virtual cluster owns in a chain. `missing`: claimed cells that
    the cluster does not have."""

    type: str
    gpus: int
    owned: OwnedCells
    missing: int


@dataclass(frozen=True, slots=True)
class VirtualChain:
    """`more`: how many top cells follow those in `cells`."""

    chain: str
    leaf_type: str
    types: tuple[OwnedType, ...]
    cells: tuple[VirtualCell, ...]
    more: int


def virtual_cells(
    cluster: ClusterState, vc: str, chain: str = "", under: str = "", after: str = ""
) -> list[VirtualChain]:
    """Return all chains of a virtual cluster in order of their names; or only `chain`, only the
    cell with the address `under`, or only what follows the top cell `after`.

    Raises `UnknownCellError`.
    """
    roots = _roots(cluster.cells, vc)
    if under:
        roots = {name: mine for name, mine in roots.items() if _towards(mine, under)}
        if not roots:
            raise UnknownCellError(under)
    return [
        _chain(cluster, vc, name, roots[name], under, after)
        for name in sorted(roots)
        if chain in ("", name)
    ]


def borrowed_gpus(cluster: ClusterState, vc: str) -> int:
    """Return the number of GPUs that the opportunistic gangs of a virtual cluster use."""
    return sum(gpus for (name, _), gpus in borrowed(cluster).items() if name == vc)


def _roots(state: CellState, vc: str) -> dict[str, list[Virtual]]:
    """Return its preassigned cells by chain, pinned ones first."""
    roots: dict[str, list[Virtual]] = {}
    known = state.vcs.get(vc)
    for domain in (*known.pins.values(), *known.chains.values()) if known is not None else ():
        roots.setdefault(domain.chain, []).extend(domain.roots)
    return roots


def _chain(
    cluster: ClusterState, vc: str, chain: str, roots: Sequence[Virtual], under: str, after: str
) -> VirtualChain:
    counts = count_owned(cluster.cells, vc, chain, roots)
    opened: dict[Virtual, str] = {}
    for level, mine in counts.items():
        same_level = [root for root in roots if root.level == level]
        opened |= open_states(mine, same_level)
    shape, missing = cluster.cells.chains[chain].shape, _missing(cluster, vc, chain)
    shown, more = _shown(roots, under, after)
    depth = _depth([cell for cell, _ in shown] if under else roots, bool(under))
    specs = ((shape.at(level), mine) for level, mine in counts.items())
    return VirtualChain(
        chain,
        shape.leaf_type,
        tuple(OwnedType(s.type, s.leaves, mine, missing.get(s.type, 0)) for s, mine in specs),
        tuple(_tree(cell, place, opened.get(cell.root, "free"), depth) for cell, place in shown),
        more,
    )


def _missing(cluster: ClusterState, vc: str, chain: str) -> dict[str, int]:
    """Return the claimed cells by type that the cluster does not have."""
    return {
        short.cell_type: short.asked - short.got
        for short in cluster.built.shortfalls
        if short.vc == vc and short.chain == chain and not short.pin
    }


def _shown(
    roots: Sequence[Virtual], under: str, after: str
) -> tuple[list[tuple[Virtual, Physical | None]], int]:
    """Return the cells to describe, each with its place, and how many follow."""
    if under:
        return [_find(roots, under)], 0
    start = next((i + 1 for i, root in enumerate(roots) if root.address == after), 0)
    page = roots[start : start + MAX_ROOTS]
    return [(root, root.physical) for root in page], len(roots) - start - len(page)


def _depth(cells: Sequence[Virtual], parts: bool) -> int:
    """Return how many levels of these cells to describe: all where there are few GPUs, else the
    cells alone, or with their parts."""
    if sum(cell.spec.leaves for cell in cells) <= FULL_DEPTH_GPUS:
        return max((cell.level for cell in cells), default=1)
    return 2 if parts else 1


def _towards(cells: Sequence[Virtual], address: str) -> Virtual | None:
    """Return the cell that has this address, or contains the cell that has it."""
    inside = (c for c in cells if address == c.address or address.startswith(f"{c.address}/"))
    return next(inside, None)


def _find(roots: Sequence[Virtual], address: str) -> tuple[Virtual, Physical | None]:
    cell = _towards(roots, address)
    place = cell.physical if cell is not None else None
    while cell is not None and cell.address != address:
        parts = dict(_parts(cell, place))
        cell = _towards(list(parts), address)
        place = parts[cell] if cell is not None else None
    if cell is None:
        raise UnknownCellError(address)
    return cell, place


def _parts(cell: Virtual, place: Physical | None) -> Iterator[tuple[Virtual, Physical | None]]:
    """Yield each part with its place: that which it is bound to, or else one that is left."""
    if place is None:
        yield from ((part, None) for part in cell.parts)
        return
    left = (part for part in place.parts if part.virtual is None)
    for part in cell.parts:
        yield part, part.physical if part.physical is not None else next(left, None)


def _tree(cell: Virtual, place: Physical | None, opened: str, depth: int) -> VirtualCell:
    """Describe a cell. Without a place, `opened` says what its preassigned cell would meet."""
    gpus = cell.spec.leaves
    bad = place.bad if place is not None else gpus * (opened == "bad")
    lent = place.used_at(OPPORTUNISTIC) if place is not None else gpus * (opened == "lent")
    deeper = cell.level > LEAF and depth > 1
    return VirtualCell(
        address=cell.address,
        type=cell.spec.type,
        gpus=gpus,
        pin=cell.pin if cell.up is None else None,
        state=_state(cell, place, bad, lent),
        used=cell.used_total,
        bad=bad,
        lent=lent,
        place=(place.address, place.node) if place is not None else None,
        children=(
            tuple(_tree(c, p, opened, depth - 1) for c, p in _parts(cell, place))
            if deeper
            else None
        ),
        gang=gang_on(place) if cell.level == LEAF and place is not None else None,
    )


def _state(cell: Virtual, place: Physical | None, bad: int, lent: int) -> str:
    if cell.level == LEAF and place is not None:
        return gpu_state(place)
    if cell.used_total and place is not None:
        held = [leaf.holder is not None for leaf in leaves_of(place) if leaf.accounted]
        return "reserved" if all(held) else "used"
    return "bad" if bad else "lent" if lent else "free"
