"""Which cells virtual clusters could not be given if a node were away.

It is not fixed beforehand whose cells lie on which node, so a loss is shared: each virtual cluster
that owns such cells may be the one that has to wait.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import Physical
from skep_scheduler.state import ClusterState

Losses = dict[str, dict[str, int]]  # virtual cluster -> cell type -> cells


def drain_impact(cluster: ClusterState, node: str) -> Losses:
    """Return the cells that each virtual cluster would lose without `node`, beside those that it
    has lost already. Nothing is changed."""
    state = cluster.cells
    leaves = state.nodes.get(node, [])
    away = {above for leaf in leaves for above in _path(leaf)}
    lost: dict[str, dict[str, int]] = defaultdict(dict)
    for chain in sorted({leaf.shape.chain for leaf in leaves}):
        pool = state.chains[chain]
        before, after = _short(state, pool, set()), _short(state, pool, away)
        for name, owned in _owned(state, chain).items():
            for level, number in owned.items():
                if less := min(number, after[level] - before[level]):
                    lost[name][pool.shape.at(level).type] = less
    for cell in away:
        root = cell.virtual.root if cell.virtual is not None else None
        if root is not None and root.pin and root.physical is cell and not cell.bad:
            lost[root.vc][cell.spec.type] = lost[root.vc].get(cell.spec.type, 0) + 1
    return dict(sorted(lost.items()))


def _short(state: CellState, pool: Pool, away: set[Physical]) -> Counter[int]:
    """Return the cells by level that all virtual clusters together own and cannot be given."""
    healthy: Counter[int] = Counter()
    for top in pool.tops:
        healthy.update(_healthy(top, away))
    owned: Counter[int] = Counter()
    for mine in _owned(state, pool.shape.chain).values():
        owned.update(mine)
    short: Counter[int] = Counter()
    left = 0
    for level in range(pool.shape.top, 0, -1):
        width = pool.shape.at(level + 1).width if level < pool.shape.top else 0
        available = healthy[level] + left * width
        short[level] = max(owned[level] - available, 0)
        left = max(available - owned[level], 0)
    return short


def _owned(state: CellState, chain: str) -> dict[str, Counter[int]]:
    """Return the cells by virtual cluster and level, without pinned ones."""
    return {
        name: Counter(root.level for root in vc.chains[chain].roots)
        for name, vc in state.vcs.items()
        if chain in vc.chains
    }


def _healthy(cell: Physical, away: set[Physical]) -> Iterator[int]:
    """Yield the levels of the largest cells that are complete, healthy and belong to no pin."""
    if cell.virtual is not None and cell.virtual.root.pin and cell.virtual.up is None:
        return
    if cell.whole and not cell.bad and cell not in away and not _has_pin(cell):
        yield cell.level
        return
    for child in cell.parts:
        yield from _healthy(child, away)


def _has_pin(cell: Physical) -> bool:
    """Whether a pinned cell lies in it: it is split although nothing of it need be in use."""
    return cell.split and any(_is_pinned(part) or _has_pin(part) for part in cell.parts)


def _is_pinned(cell: Physical) -> bool:
    virtual = cell.virtual
    return virtual is not None and virtual.pin is not None and virtual.up is None


def _path(leaf: Physical) -> Iterator[Physical]:
    cell: Physical | None = leaf
    while cell is not None:
        yield cell
        cell = cell.up
