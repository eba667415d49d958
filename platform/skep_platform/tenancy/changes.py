"""That what virtual clusters own has changed.

The cluster app, which is above this one, counts the changes; the cells app, above that, knows
whether all of it fits the cluster's cells. Both say so when they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from skep_scheduler import facts

Claims = tuple[tuple[facts.VirtualCluster, ...], tuple[facts.Pin, ...]]


def _nobody_counts() -> None:
    pass


def _nobody_checks(before: Claims) -> None:
    pass


_count: Callable[[], object] = _nobody_counts
_check: Callable[[Claims], object] = _nobody_checks


def counted_by(count: Callable[[], object]) -> None:
    """`count()` is called within the transaction of every change."""
    global _count
    _count = count


def checked_by(check: Callable[[Claims], object]) -> None:
    """`check(before)` is called within the transaction in which a claim was raised, after it was
    written. It raises SkepError where not all claims fit any more."""
    global _check
    _check = check


def changed() -> None:
    _count()


def raised(before: Claims) -> None:
    """Raises SkepError."""
    _check(before)
