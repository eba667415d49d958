"""Python's collector of cycles beside a large heap that lives on.

Each of its full passes walks all that is alive: with 10,000 nodes it took three quarters of the
scheduler's time, and found nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """While much is built, or tried and undone. Threads that overlap may end a pause early, and
    never keep it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def spare() -> None:
    """What is alive now is expected to live on, as after `set_aside`, without a pass now: what is
    dead and refers to itself stays until the next `set_aside`."""
    gc.freeze()


def set_aside() -> None:
    """What is alive now is expected to live on: later passes leave it out. What was set aside
    before and is dead by now is freed."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
