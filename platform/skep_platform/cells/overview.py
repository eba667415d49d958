"""All cell types, how many cells of each there are, and pinned cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from skep_platform.cells import view
from skep_platform.cells.assignment import stored
from skep_platform.cluster import layouts
from skep_platform.tenancy import queries as tenancy
from skep_scheduler import usage
from skep_scheduler.cells.pool import Pool
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical


def cells(user: Any) -> dict[str, Any]:
    layout, pins = layouts.current(), stored().pins
    visible = set(tenancy.visible_to(user).values_list("name", flat=True))
    admin = tenancy.is_admin(user)
    with view.current() as now:
        pools = [pool for _, pool in sorted(now.state.chains.items())]
        chains = [_chain(now, pool, visible, admin) for pool in pools]
        uses = usage.measure(now.world)
    return {
        "revision": layout.revision,
        "source": "file" if layout.text else "inventory",
        "chains": chains,
        "pins": [
            {
                "name": pin.name,
                "cell_type": pin.cell_type,
                "node": pin.node,
                "device": pin.device,
                "virtual_cluster": pin.vc or None,
            }
            for pin in pins
            if admin or pin.vc in visible
        ],
        "gpus": [
            {"virtual_cluster": vc, "gpu_model": model} | asdict(use)
            for (vc, model), use in sorted(uses.items())
            if vc in visible
        ],
    }


def _chain(now: view.View, pool: Pool, visible: set[str], admin: bool) -> dict[str, Any]:
    shape = pool.shape
    owned, bad = _owned(now.state, shape.chain, visible), _bad(pool)
    left = now.world.built.left[shape.chain]
    return {
        "chain": shape.chain,
        "gpu_model": now.gpu_model(shape.leaf_type),
        "nodes": pool.total[shape.node_level],
        "levels": [
            {
                "type": level.type,
                "level": level.level,
                "gpus": level.leaves,
                "is_node": level.is_node,
                **now.describe(level.type),
            }
            for level in shape.levels
        ],
        "totals": [
            {
                "type": level.type,
                "total": pool.total[level.level],
                "owned": owned[level.level],
                "left": left[level.level] if admin else None,
                "bad": bad[level.level],
            }
            for level in shape.levels
        ],
    }


def _owned(state: State, chain: str, visible: set[str]) -> Counter[int]:
    """Cells by level that were given to virtual clusters as such."""
    owned: Counter[int] = Counter()
    for name in visible & state.vcs.keys():
        vc = state.vcs[name]
        domains = [*vc.chains.values(), *vc.pins.values()]
        owned.update(r.level for d in domains if d.chain == chain for r in d.roots)
    return owned


def _bad(pool: Pool) -> Counter[int]:
    """Whole cells by level with a bad GPU: looks only where there are some."""
    bad: Counter[int] = Counter()
    stack: list[Physical] = [top for top in pool.tops if top.bad]
    while stack:
        cell = stack.pop()
        bad[cell.level] += cell.whole
        stack.extend(part for part in cell.parts if part.bad)
    return bad
