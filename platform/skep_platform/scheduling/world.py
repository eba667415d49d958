"""The world as this process knows it, to be read by pages and forecasts.

    with world.view() as w:
        ...

A web process keeps one and catches it up when somebody asks. The scheduler has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from skep_platform.core import garbage
from skep_platform.scheduling.source import WorldSource
from skep_scheduler.world import World

_source = WorldSource()
_lock = Lock()


@contextmanager
def view() -> Iterator[World]:
    """The world, caught up; nobody else has it meanwhile. Read it, try and undo, keep nothing of
    it, and write to the database only afterwards."""
    with _lock, garbage.paused():
        yield _source.catch_up()
