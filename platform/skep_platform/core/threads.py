"""Work on the database in threads that Django knows nothing of."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")


def at_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of `work`, after which this thread holds no connection."""
    try:
        return work(*args, **kwargs)
    finally:
        close_old_connections()  # back to the pool
