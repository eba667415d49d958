"""Times that tests are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from unittest import mock

import time_machine
from django.utils import timezone

from skep_platform.core import bulk


@contextmanager
def every_clock_at(at: datetime, *, tick: bool = True) -> Iterator[None]:
    """It is this time for this process and, where rows are deleted by their age, for the
    database."""
    with (
        time_machine.travel(at, tick=tick),
        mock.patch.object(bulk, "database_time", timezone.now),
    ):
        yield
