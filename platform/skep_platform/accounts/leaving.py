"""That somebody may not submit any more: deactivated, deleted, or out of a virtual cluster.

The jobs app, which is above this one, stops the person's jobs; it says so when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _nobody_stops(user_id: int, actor: str) -> None:
    pass


_stop: Callable[[int, str], Any] = _nobody_stops


def stopped_by(stop: Callable[[int, str], Any]) -> None:
    """`stop(user_id, actor)` is called within the transaction in which the user left. It ends the
    jobs of that user for which there is no right any more."""
    global _stop
    _stop = stop


def left(user_id: int, actor: str = "") -> None:
    _stop(user_id, actor)
