"""Which physical cell is behind a virtual one. Nothing is bound for bad hardware: what a virtual
cell would get is derived when it is asked for."""

from __future__ import annotations

from skep_scheduler.cells.tree import Cell, Physical, Virtual


def backing_cell(cell: Cell) -> Physical | None:
    """The physical cell behind a cell: itself, the one it is bound to, or the one it would get.

    None for a virtual cell that is open: not bound, and nothing bad under what contains it.
    """
    if isinstance(cell, Physical):
        return cell
    assert isinstance(cell, Virtual)
    if cell.physical is not None or cell.up is None:
        return cell.physical
    under = backing_cell(cell.up)
    if under is None or not under.bad:
        return None
    return dict(children_with_backing(cell.up, under))[cell]


def children_with_backing(cell: Cell, under: Physical | None) -> list[tuple[Cell, Physical | None]]:
    """Return each child with its backing cell. Unbound children get the healthiest parts left."""
    if isinstance(cell, Physical):
        return [(child, child) for child in cell.parts]
    assert isinstance(cell, Virtual)
    if under is None or not under.bad:
        return [(child, child.physical) for child in cell.parts]
    left = iter(sorted((p for p in under.parts if p.virtual is None), key=lambda p: p.bad))
    return [
        (child, child.physical if child.physical is not None else next(left))
        for child in cell.parts
    ]
