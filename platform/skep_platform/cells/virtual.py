"""A virtual cluster's cells: how many it has of each type, and the trees of them over the physical
cells that they are bound to while they are in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from skep_platform.cells import names, owned, view
from skep_platform.cells.leaf import leaf_state, user_of
from skep_platform.core.errors import NotFound
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.cells.shape import LEAF, OPPORTUNISTIC
from skep_scheduler.cells.state import State
from skep_scheduler.cells.tree import Physical, Virtual, leaves_of

WHOLE_GPUS = 256  # up to so many a tree is told down to its leaves
MAX_ROOTS = 500  # per chain


def cells(
    user: Any, vc: VirtualCluster, chain: str = "", under: str = "", after: str = ""
) -> dict[str, Any]:
    """All chains; or one, or one cell of it (`under`), or what follows a cell (`after`). Raises
    NotFound for a cell that is not there."""
    with view.current() as now:
        roots = _roots(now.state, vc.name)
        if under:
            roots = {name: mine for name, mine in roots.items() if _towards(mine, under)}
            if not roots:
                raise NotFound(f"{vc.name} has no cell {under[:200]}.")
        chains = [
            _chain(now, vc.name, name, roots[name], under, after)
            for name in sorted(roots)
            if chain in ("", name)
        ]
        lent, short = borrowed(now.state, vc.name), now.shortfalls(vc.name)
    names.fill_in(user, [cell for row in chains for cell in row["cells"]])
    return {"chains": chains, "borrowed_in": lent, "shortfalls": short}


def borrowed(state: State, vc: str) -> int:
    """GPUs that its opportunistic jobs use."""
    groups = [g for g in state.groups.values() if g.gang.vc == vc and g.opportunistic]
    return sum(len(seat.indices) for group in groups for seat in group.seats)


def _roots(state: State, vc: str) -> dict[str, list[Virtual]]:
    """Its preassigned cells by chain, pinned ones first."""
    roots: dict[str, list[Virtual]] = {}
    known = state.vcs.get(vc)
    for domain in (*known.pins.values(), *known.chains.values()) if known is not None else ():
        roots.setdefault(domain.chain, []).extend(domain.roots)
    return roots


def _chain(
    now: view.View, vc: str, chain: str, roots: Sequence[Virtual], under: str, after: str
) -> dict[str, Any]:
    counts = owned.count(now.state, vc, chain, roots)
    opened: dict[Virtual, str] = {}
    for level, mine in counts.items():
        opened |= owned.open_states(mine, [root for root in roots if root.level == level])
    shape = now.state.chains[chain].shape
    missing = now.missing(vc, chain)
    shown, more = _shown(roots, under, after)
    levels = _levels([cell for cell, _ in shown] if under else roots, bool(under))
    return {
        "chain": chain,
        "gpu_model": now.gpu_model(shape.leaf_type),
        "types": [
            _type(now, shape.at(level), mine, missing.get(shape.at(level).type, 0))
            for level, mine in counts.items()
        ],
        "cells": [
            _tree(cell, place, opened.get(cell.root, "free"), levels) for cell, place in shown
        ],
        "more": more,
    }


def _shown(
    roots: Sequence[Virtual], under: str, after: str
) -> tuple[list[tuple[Virtual, Physical | None]], int]:
    """The cells to tell, each with its place, and how many follow."""
    if under:
        return [_find(roots, under)], 0
    start = next((i + 1 for i, root in enumerate(roots) if root.address == after), 0)
    page = roots[start : start + MAX_ROOTS]
    return [(root, root.physical) for root in page], len(roots) - start - len(page)


def _levels(cells: Sequence[Virtual], parts: bool) -> int:
    """How many levels of these cells are told: all where that is little, else the cells alone, or
    with their parts."""
    if sum(cell.spec.leaves for cell in cells) <= WHOLE_GPUS:
        return max((cell.level for cell in cells), default=1)
    return 2 if parts else 1


def _type(now: view.View, level: Any, mine: owned.Owned, missing: int) -> dict[str, Any]:
    return {
        "type": level.type,
        **now.describe(level.type),
        "gpus": level.leaves,
        "owned": mine.total + missing,
        "used": mine.used,
        "free": mine.free,
        "bad": mine.bad,
        "missing": missing,
        "borrowed_out": mine.lent,
    }


def _towards(cells: Sequence[Virtual], address: str) -> Virtual | None:
    """The one that has this address, or contains the cell that has it."""
    inside = (c for c in cells if address == c.address or address.startswith(f"{c.address}/"))
    return next(inside, None)


def _find(roots: Sequence[Virtual], address: str) -> tuple[Virtual, Physical | None]:
    """Raises NotFound."""
    cell = _towards(roots, address)
    place = cell.physical if cell is not None else None
    while cell is not None and cell.address != address:
        parts = dict(_parts(cell, place))
        cell = _towards(list(parts), address)
        place = parts[cell] if cell is not None else None
    if cell is None:
        raise NotFound(f"There is no cell {address[:200]}.")
    return cell, place


def _parts(cell: Virtual, place: Physical | None) -> Iterator[tuple[Virtual, Physical | None]]:
    """Each part with its place: that which it is bound to, or else one that is left."""
    if place is None:
        yield from ((part, None) for part in cell.parts)
        return
    left = (part for part in place.parts if part.virtual is None)
    for part in cell.parts:
        yield part, part.physical if part.physical is not None else next(left, None)


def _tree(cell: Virtual, place: Physical | None, opened: str, levels: int) -> dict[str, Any]:
    """`place` is where it is, or would be within what is bound; without one, `opened` says what
    its preassigned cell would meet."""
    gpus = cell.spec.leaves
    bad = place.bad if place is not None else gpus * (opened == "bad")
    lent = place.used_at(OPPORTUNISTIC) if place is not None else gpus * (opened == "lent")
    parts = _parts(cell, place) if cell.level > LEAF and levels > 1 else None
    return {
        "address": cell.address,
        "type": cell.spec.type,
        "gpus": gpus,
        "pin": cell.pin if cell.up is None else None,
        "state": _state(cell, place, bad, lent),
        "used": cell.used_total,
        "bad": bad,
        "lent": lent,
        "physical": {"address": place.address, "node": place.node} if place is not None else None,
        "children": parts and [_tree(c, p, opened, levels - 1) for c, p in parts],
        "job": user_of(place) if cell.level == LEAF and place is not None else None,
    }


def _state(cell: Virtual, place: Physical | None, bad: int, lent: int) -> str:
    if cell.level == LEAF and place is not None:
        return leaf_state(place)
    if cell.used_total and place is not None:
        held = [leaf.holder is not None for leaf in leaves_of(place) if leaf.accounted]
        return "reserved" if all(held) else "used"
    return "bad" if bad else "lent" if lent else "free"
