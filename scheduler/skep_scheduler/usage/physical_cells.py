"""The physical cells of a cluster as plain data: their trees, and counts by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Physical, leaves_of
from skep_scheduler.state import ClusterState
from skep_scheduler.usage.gpu_state import gang_on, gpu_state


class UnknownCellError(LookupError):
    """Raised for the address of a cell that does not exist, or that was not asked for."""


@dataclass(frozen=True, slots=True)
class PhysicalCell:
    """
    gpus, bad, used, lent: numbers of GPUs in the cell
    owner: the virtual cluster whose preassigned cell it is or lies in; "" for none
    pin: the name of the pin that it is bound to
    children: the cells in it, None where they were not asked for
    uuid, index, state, gang: of a single GPU; `index` is None if no node reports the GPU
    """

    address: str
    type: str
    gpus: int
    bad: int
    used: int
    lent: int
    owner: str
    pin: str | None
    node: str | None
    children: tuple[PhysicalCell, ...] | None = None
    uuid: str | None = None
    index: int | None = None
    state: str | None = None
    gang: str | None = None


@dataclass(frozen=True, slots=True)
class LevelCount:
    """The cells of one type: in all, owned by each virtual cluster, left to be owned, and with a
    bad GPU."""

    type: str
    level: int
    gpus: int
    is_node: bool
    total: int
    owned: dict[str, int]
    left: int
    bad: int


@dataclass(frozen=True, slots=True)
class ChainCounts:
    """A tree of cell types, from the single GPU (level 1) upwards."""

    name: str
    leaf_type: str
    nodes: int
    levels: tuple[LevelCount, ...]


def chains(cluster: ClusterState) -> list[ChainCounts]:
    """Return all chains in order of their names, with the numbers of their cells."""
    return [_chain(cluster, pool) for _, pool in sorted(cluster.cells.chains.items())]


def physical_cells(
    cluster: ClusterState,
    chain: str = "",
    under: str = "",
    *,
    owners: Collection[str] | None = None,
    depth: int = 1,
    first: int = 0,
    limit: int = 100,
    limit_cells: int = 5000,
) -> tuple[list[PhysicalCell], bool]:
    """Return a page of the top cells, or the cell at the address `under`, and whether more follow.

    `owners` restricts it to the preassigned cells of these virtual clusters. Each cell is described
    with `depth` levels, or fewer, so that the answer has no more than about `limit_cells` cells.

    Raises `UnknownCellError`.
    """
    state = cluster.cells
    if under:
        cells = [_find(state, chain, under)]
        if owners is not None and _owner(cells[0]) not in owners:
            raise UnknownCellError(under)
    elif owners is None:
        cells = list(_tops(state, chain))
    else:
        cells = list(_bound(state, chain, owners))
    page = cells[first : first + limit]
    rows = [_cell(cluster, cell, _bounded(cell, depth, len(page), limit_cells)) for cell in page]
    return rows, len(cells) > first + limit


def _chain(cluster: ClusterState, pool: Pool) -> ChainCounts:
    shape = pool.shape
    bad, left = _bad(pool), cluster.built.left[shape.chain]
    owned = {name: _owned(cluster.cells, shape.chain, name) for name in sorted(cluster.cells.vcs)}
    levels = tuple(
        LevelCount(
            level.type,
            level.level,
            level.leaves,
            level.is_node,
            pool.total[level.level],
            {name: mine[level.level] for name, mine in owned.items() if mine[level.level]},
            left[level.level],
            bad[level.level],
        )
        for level in shape.levels
    )
    return ChainCounts(shape.chain, shape.leaf_type, pool.total[shape.node_level], levels)


def _owned(state: CellState, chain: str, vc: str) -> Counter[int]:
    known = state.vcs[vc]
    domains = (*known.chains.values(), *known.pins.values())
    return Counter(r.level for domain in domains if domain.chain == chain for r in domain.roots)


def _bad(pool: Pool) -> Counter[int]:
    """Return the complete cells with a bad GPU by level. Only cells with one are walked."""
    bad: Counter[int] = Counter()
    stack: list[Physical] = [top for top in pool.tops if top.bad]
    while stack:
        cell = stack.pop()
        bad[cell.level] += cell.whole
        stack.extend(part for part in cell.parts if part.bad)
    return bad


def _find(state: CellState, chain: str, address: str) -> Physical:
    for name, pool in state.chains.items():
        if chain and name != chain:
            continue
        parts: tuple[Physical, ...] = tuple(pool.tops)
        while parts:
            cell = next((p for p in parts if _leads_to(p, address)), None)
            if cell is not None and cell.address == address:
                return cell
            parts = cell.parts if cell is not None else ()
    raise UnknownCellError(address)


def _leads_to(cell: Physical, address: str) -> bool:
    return address == cell.address or address.startswith(f"{cell.address}/")


def _tops(state: CellState, chain: str) -> Iterator[Physical]:
    for name, pool in state.chains.items():
        if not chain or name == chain:
            yield from pool.tops


def _bound(state: CellState, chain: str, owners: Collection[str]) -> Iterator[Physical]:
    for name in sorted(owners):
        vc = state.vcs.get(name)
        for domain in (*vc.chains.values(), *vc.pins.values()) if vc is not None else ():
            for root in domain.roots:
                if root.physical is not None and chain in ("", domain.chain):
                    yield root.physical


def _owner(cell: Physical) -> str:
    here: Physical | None = cell
    while here is not None:
        if here.virtual is not None:
            return here.virtual.vc
        here = here.up
    return ""


def _bounded(cell: Physical, depth: int, together: int, limit_cells: int) -> int:
    """Return how many levels of each of `together` such cells make no more than `limit_cells`."""
    cells, levels = 1, 1
    while levels < min(depth, cell.level):
        cells += cell.shape.cells_in(cell.level, cell.level - levels)
        if cells * together > limit_cells:
            return levels
        levels += 1
    return levels


def _cell(cluster: ClusterState, cell: Physical, depth: int) -> PhysicalCell:
    leaf = cell.level == LEAF
    deeper = depth > 1 and not leaf
    return PhysicalCell(
        address=cell.address,
        type=cell.spec.type,
        gpus=cell.spec.leaves if cell.whole else sum(1 for _ in leaves_of(cell)),
        bad=cell.bad,
        used=cell.used_total,
        lent=cell.used_at(OPPORTUNISTIC),
        owner=_owner(cell),
        pin=cell.pin,
        node=cell.node,
        children=tuple(_cell(cluster, p, depth - 1) for p in cell.parts) if deeper else None,
        uuid=str(cell.index) if leaf else None,
        index=_index(cluster, cell) if leaf else None,
        state=gpu_state(cell) if leaf else None,
        gang=gang_on(cell) if leaf else None,
    )


def _index(cluster: ClusterState, leaf: Physical) -> int | None:
    """Return the number of a GPU on its node, None if no node has it: a HiveD file may name it."""
    node = cluster.nodes.get(leaf.node or "")
    devices = node.devices if node is not None else ()
    return next((device.index for device in devices if device.uuid == leaf.index), None)


def nodes_of(cluster: ClusterState, vc: str) -> set[str]:
    """Return the nodes on which a virtual cluster has its cells, or may be given those that have
    no place yet."""
    known = cluster.cells.vcs.get(vc)
    nodes: set[str] = set()
    for domain in (*known.chains.values(), *known.pins.values()) if known is not None else ():
        for root in domain.roots:
            tops = [root.physical] if root.physical else _tops(cluster.cells, domain.chain)
            nodes.update(leaf.node for top in tops for leaf in leaves_of(top) if leaf.node)
            if root.physical is None:
                break  # of the whole chain, all others are there too
    return nodes
