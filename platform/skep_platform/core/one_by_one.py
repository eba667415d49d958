"""One change of many things at once, of which one that fails stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import connection, transaction

from skep_platform.core.failures import is_of_all

T = TypeVar("T")


def change(
    things: Sequence[T], act: Callable[[Sequence[T]], object], leave_out: Callable[[T], object]
) -> None:
    """Change things, all of them in one transaction. Where that fails, each half is tried alone,
    down to the one that is to blame: `leave_out` is called for it while its error is handled, to
    log it. Raises what none of them is to blame for, as that the database is away."""
    if not things:
        return
    try:
        with transaction.atomic():
            act(things)
    except Exception as error:
        if is_of_all(error):
            raise
        if not connection.in_atomic_block and not connection.is_usable():
            raise
        if len(things) == 1:
            leave_out(things[0])
            return
        half = len(things) // 2
        change(things[:half], act, leave_out)
        change(things[half:], act, leave_out)
