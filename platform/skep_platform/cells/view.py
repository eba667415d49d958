"""The scheduler's world as this process knows it, to look at and never to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skep_platform.core.errors import SkepError
from skep_scheduler.cells.shape import Shape
from skep_scheduler.cells.state import State


@dataclass(frozen=True, slots=True)
class View:
    state: State

    def gpu_model(self, shape: Shape) -> str:
        return shape.leaf_type

    def describe(self, cell_type: str) -> dict[str, Any]:
        """{"kind", "words"}"""
        return {"kind": "", "words": cell_type}

    def missing(self, vc: str, chain: str) -> Mapping[str, int]:
        """Cells by type that it was given and that the cluster does not have."""
        return {}

    def shortfalls(self, vc: str) -> list[dict[str, Any]]:
        return []


def current() -> View:
    raise SkepError("The scheduler does not tell its view yet; try again.", code="not_ready")
