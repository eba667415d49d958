"""Whether all VCs' cells fit into the physical cells at the same time, and what is short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skep_scheduler.cells.shape import CellSpec, Config, Shape


@dataclass(frozen=True, slots=True)
class InfeasibleClaim:
    """VCs own `needed` cells of a level, and after those of higher levels `available` are left."""

    chain: str
    level: int
    cell_type: str
    needed: int
    available: int

    def __str__(self) -> str:
        return (
            f"the VCs own {self.needed} cells of {self.cell_type} (chain {self.chain}, level "
            f"{self.level}), but only {self.available} are there beside what else they own"
        )


def spare(shape: Shape, free: Sequence[int], claims: Sequence[int]) -> list[int]:
    """Per level, the cells that remain when every claim is met (index 0 is unused).

    `free` counts the cells in free lists, `claims` what VCs may still ask for. What is left of a
    level can be split for the one below. All claims fit if, and only if, nothing is negative.
    """
    left = [0] * (shape.top + 2)
    for level in range(shape.top, 0, -1):
        width = shape.at(level + 1).width if level < shape.top else 0
        left[level] = free[level] - claims[level] + left[level + 1] * width
    return left


def infeasible_claims(config: Config) -> list[InfeasibleClaim]:
    pins = {pin for vc in config.vcs.values() for pin in vc.pins}
    return [
        claim
        for chain, shape in config.shapes.items()
        for claim in _of_chain(config, chain, shape, pins)
    ]


def _of_chain(
    config: Config, chain: str, shape: Shape, pins: set[str]
) -> Iterator[InfeasibleClaim]:
    free: Counter[int] = Counter()
    for name, top in config.tops:
        if name == chain:
            free.update(free_levels(shape, top, shape.top, pins))
    claims: Counter[int] = Counter()
    for vc in config.vcs.values():
        for share in vc.shares:
            if share.chain == chain:
                claims[share.level] += share.number
    left = 0
    for level in range(shape.top, 0, -1):
        width = shape.at(level + 1).width if level < shape.top else 0
        available = free[level] + left * width
        left = max(available - claims[level], 0)
        if claims[level] > available:
            yield InfeasibleClaim(chain, level, shape.at(level).type, claims[level], available)


def free_levels(shape: Shape, cell: CellSpec, level: int, pins: set[str]) -> Iterator[int]:
    """The levels of the largest whole cells within `cell` that no VC has pinned a part of."""
    if cell.pin in pins:
        return
    if _is_untouched(shape, cell, level, pins):
        yield level
        return
    for child in cell.children:
        yield from free_levels(shape, child, level - 1, pins)


def _is_untouched(shape: Shape, cell: CellSpec, level: int, pins: set[str]) -> bool:
    return (
        cell.pin not in pins
        and len(cell.children) == shape.at(level).width
        and all(_is_untouched(shape, child, level - 1, pins) for child in cell.children)
    )
