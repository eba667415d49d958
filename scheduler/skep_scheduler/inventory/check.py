"""Checks new claims before they are saved: what is wrong with them, and what would be left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skep_scheduler.cells.shape import CellSpec, Config, Shape
from skep_scheduler.inventory.build import Built, build
from skep_scheduler.inventory.claims import Shortfall
from skep_scheduler.inventory.pins import is_whole
from skep_scheduler.model import facts


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` is where in the assignment, such as `virtual_clusters.vision.cells[0]`."""

    code: str
    message: str
    path: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Of `total` whole cells of a type, `left` could be claimed besides (of one type at a time)."""

    chain: str
    type: str
    total: int
    left: int


@dataclass(frozen=True, slots=True)
class Checked:
    """`errors` are new, or worse than before; `shortfalls` are old: hardware went away since."""

    built: Built
    errors: tuple[Finding, ...]
    left: tuple[Left, ...]
    shortfalls: tuple[Shortfall, ...]

    @property
    def fits(self) -> bool:
        return not self.errors


def check(before: facts.Inventory | Built, after: facts.Inventory) -> Checked:
    """Whether what VCs are to own can be given to them all. `reconfigure` reports what becomes of
    running gangs under `built.config`."""
    built = build(after)
    earlier = before if isinstance(before, Built) else build(before)
    known, now = _missing(earlier), _missing(built)
    new = [short for short in built.shortfalls if now[_claim(short)] > known[_claim(short)]]
    old = tuple(short for short in built.shortfalls if short not in new)
    return Checked(built, tuple(_finding(short) for short in new), _left(built), old)


def _missing(built: Built) -> Counter[tuple[str, ...]]:
    missing: Counter[tuple[str, ...]] = Counter()
    for short in built.shortfalls:
        missing[_claim(short)] += short.asked - short.got
    return missing


def _claim(short: Shortfall) -> tuple[str, ...]:
    return short.vc, short.chain, short.cell_type, short.pin


def _finding(short: Shortfall) -> Finding:
    details = {
        "virtual_cluster": short.vc,
        "chain": short.chain,
        "cell_type": short.cell_type,
        "asked": short.asked,
        "available": short.got,
    }
    if short.pin:
        details["pin"] = short.pin
    return Finding(short.code, short.message, short.path, details)


def _left(built: Built) -> tuple[Left, ...]:
    totals = count(built.config)
    return tuple(
        Left(chain, level.type, totals[chain][level.level], built.left[chain][level.level])
        for chain, shape in built.config.shapes.items()
        for level in shape.levels
    )


def count(config: Config) -> dict[str, list[int]]:
    """The whole cells of each chain by level; index 0 is unused."""
    totals = {chain: [0] * (shape.top + 1) for chain, shape in config.shapes.items()}
    for chain, top in config.tops:
        shape = config.shapes[chain]
        _count(shape, top, shape.top, totals[chain])
    return totals


def _count(shape: Shape, cell: CellSpec, level: int, totals: list[int]) -> None:
    if is_whole(shape, cell, level):
        for lower in range(1, level + 1):
            totals[lower] += shape.cells_in(level, lower)
        return
    for child in cell.children:
        _count(shape, child, level - 1, totals)
