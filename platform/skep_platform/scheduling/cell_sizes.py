"""How large cells are, told to those who admit jobs."""

from __future__ import annotations

from collections.abc import Mapping

from skep_platform.jobs.intake.cell_sizes import CellSize
from skep_platform.scheduling import world


def sizes() -> dict[str, CellSize]:
    """By cell type, as the cells are now."""
    with world.view() as known:
        built = known.built
        return {
            level.type: CellSize(
                _models(built.models, shape.leaf_type), level.leaves, shape.leaf_type
            )
            for shape in built.config.shapes.values()
            for level in shape.levels
        }


def _models(models: Mapping[str, frozenset[str]], leaf_type: str) -> tuple[str, ...]:
    return tuple(sorted(models.get(leaf_type, ()))) or (leaf_type,)
