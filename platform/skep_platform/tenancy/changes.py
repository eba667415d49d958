"""That what virtual clusters own has changed.

The cluster app, which is above this one, counts the changes; the cells app, above that, knows
whether all of it fits the cluster's cells. Both say so when they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable


def _nothing() -> object:
    return None


_count: Callable[[], object] = _nothing
_check: Callable[[], object] = _nothing


def counted_by(count: Callable[[], object]) -> None:
    """`count()` is called within the transaction of every change."""
    global _count
    _count = count


def checked_by(check: Callable[[], object]) -> None:
    """`check()` is called within the transaction in which a claim was raised, after it was
    written. It raises SkepError where not all claims fit."""
    global _check
    _check = check


def changed() -> None:
    _count()


def raised() -> None:
    """Raises SkepError."""
    _check()
