"""How large cells are.

The scheduling app, which is above this one, builds them and says so: it sets the source when it is
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellSize:
    """`gpu_model` as nodes report it."""

    gpu_model: str
    gpus: int


Source = Callable[[], Mapping[str, CellSize]]
_source: Source | None = None


def told_by(source: Source) -> None:
    """`source()` answers the size of every cell type that there is, leaf types too; quickly, for it
    is asked at each submit that names cells."""
    global _source
    _source = source


def sizes() -> Mapping[str, CellSize]:
    """Empty as long as nobody knows."""
    return _source() if _source else {}
