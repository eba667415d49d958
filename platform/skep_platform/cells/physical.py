"""Physical cells for people: the tops of the chains, and what is under a cell, part by part.

An admin sees everything; others see the cells that their virtual clusters have a place in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.request import Request

from skep_platform.cells import names, paging, view
from skep_platform.cells.leaf import leaf_state, user_of
from skep_platform.core.errors import NotFound
from skep_platform.tenancy import queries as tenancy
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical, leaves_of

NOBODY = ""  # where the name of a virtual cluster is expected
MAX_CELLS = 5000  # in one answer, children included


def page(
    request: Request, chain: str, under: str, depth: int, limit: int, cursor: int
) -> dict[str, Any]:
    """Raises NotFound for a cell that is not there, or that the caller may not see."""
    user = request.user
    visible = set(tenancy.visible_to(user).values_list("name", flat=True))
    if tenancy.is_admin(user):
        visible.add(NOBODY)
    with view.current() as now:
        cells = _asked(now.state, user, visible, chain, under)
        shown = cells[cursor : cursor + limit]
        rows = [_cell(now, cell, _bounded(cell, depth, len(shown)), visible) for cell in shown]
    names.fill_in(user, rows)
    return paging.answer(request, rows, cursor, limit, more=len(cells) > cursor + limit)


def _asked(state: State, user: Any, visible: set[str], chain: str, under: str) -> list[Physical]:
    if under:
        cell = find(state, chain, under)
        if not tenancy.is_admin(user) and _owner(cell) not in visible:
            raise _no_cell(under)
        return [cell]
    if tenancy.is_admin(user):
        return list(_tops(state, chain))
    return list(_bound(state, chain, visible))


def find(state: State, chain: str, address: str) -> Physical:
    """Raises NotFound. Without a chain it is looked for in all of them."""
    for name, pool in state.chains.items():
        if chain and name != chain:
            continue
        parts: tuple[Physical, ...] = tuple(pool.tops)
        while parts:
            cell = next((p for p in parts if _leads_to(p, address)), None)
            if cell is not None and cell.address == address:
                return cell
            parts = cell.parts if cell is not None else ()
    raise _no_cell(address)


def _leads_to(cell: Physical, address: str) -> bool:
    return address == cell.address or address.startswith(f"{cell.address}/")


def _tops(state: State, chain: str) -> Iterator[Physical]:
    for name, pool in state.chains.items():
        if not chain or name == chain:
            yield from pool.tops


def _bound(state: State, chain: str, visible: set[str]) -> Iterator[Physical]:
    for name in sorted(visible):
        vc = state.vcs.get(name)
        for domain in (*vc.chains.values(), *vc.pins.values()) if vc is not None else ():
            for root in domain.roots:
                if root.physical is not None and chain in ("", domain.chain):
                    yield root.physical


def _owner(cell: Physical) -> str:
    """Whose preassigned cell it is, or lies in."""
    here: Physical | None = cell
    while here is not None:
        if here.virtual is not None:
            return here.virtual.vc
        here = here.up
    return NOBODY


def _bounded(cell: Physical, depth: int, together: int) -> int:
    """So many levels of it that the whole answer stays small."""
    cells, levels = 1, 1
    while levels < min(depth, cell.level):
        level = cell.level - levels
        cells += cell.shape.cells_in(cell.level, level)
        if cells * together > MAX_CELLS:
            return levels
        levels += 1
    return levels


def _cell(now: view.View, cell: Physical, depth: int, visible: set[str]) -> dict[str, Any]:
    owner = _owner(cell)
    row = {
        "address": cell.address,
        "type": cell.spec.type,
        "gpus": cell.spec.leaves if cell.whole else sum(1 for _ in leaves_of(cell)),
        "bad": cell.bad,
        "used": cell.used_total,
        "lent": cell.used_at(OPPORTUNISTIC),
        "virtual_cluster": owner or None if owner in visible else None,
        "pin": cell.pin if owner in visible else None,
        "node": cell.node,
        "children": None,
    }
    if cell.level == LEAF:
        return row | _leaf(now, cell)
    if depth > 1:
        row["children"] = [_cell(now, part, depth - 1, visible) for part in cell.parts]
    return row


def _leaf(now: view.View, leaf: Physical) -> dict[str, Any]:
    device = now.device(leaf)
    return {
        "uuid": str(leaf.index),
        "index": device.index if device is not None else None,
        "state": leaf_state(leaf),
        "job": user_of(leaf),
    }


def _no_cell(address: str) -> NotFound:
    return NotFound(f"There is no cell {address[:200]}.")
