"""How large cells are.

The scheduling app, which is above this one, builds them and says so: it sets the source when it is
loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellSize:
    """`leaf_type`: the name of its GPUs in the cells. `gpu_models`: as nodes report them, several
    where an imported file calls them the same."""

    gpu_models: tuple[str, ...]
    gpus: int
    leaf_type: str


Source = Callable[[], Mapping[str, CellSize]]
FRESH_S = 10.0
_source: Source | None = None
_remembered: tuple[float, Mapping[str, CellSize]] = (-FRESH_S, {})


def told_by(source: Source) -> None:
    """`source()` answers the size of every cell type that there is, leaf types too."""
    global _source
    _source = source


def sizes(*, fresh: bool = False) -> Mapping[str, CellSize]:
    """Remembered for some seconds; empty as long as nobody knows."""
    global _remembered
    if _source is None:
        return {}
    if fresh or time.monotonic() - _remembered[0] > FRESH_S:
        _remembered = (time.monotonic(), _source())
    return _remembered[1]
