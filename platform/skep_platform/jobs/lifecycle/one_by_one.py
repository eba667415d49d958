"""The same change to many jobs at once, of which one that fails stops none of the others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from uuid import UUID

import structlog

from skep_platform.core import one_by_one

FIRST_PAUSE_S, MOST_PAUSE_S = 5.0, 600.0
MOST_FAILED = 1000  # of all steps; the oldest are forgotten, and tried at once
log = structlog.get_logger(__name__)


def change(step: str, jobs: Sequence[UUID], act: Callable[[Sequence[UUID]], object]) -> None:
    """Change jobs as `core.one_by_one` does. The one that is to blame is logged and left as it is;
    `step` names the change in the log."""

    def leave_out(pk: UUID) -> None:
        log.exception("job_not_repaired", step=step, job_id=str(pk))
        _failed.add(step, pk)

    one_by_one.change(jobs, act, leave_out)


def change_due(
    step: str,
    find: Callable[[int], Sequence[UUID]],
    limit: int,
    act: Callable[[Sequence[UUID]], object],
) -> None:
    """Change at most `limit` of the jobs that are due. `find` returns them in one order, at most as
    many as it is asked for. One that this process could not change is passed over for a while, so
    that any number of such jobs holds up none of those behind them."""
    left_out = paused(step)
    due = [pk for pk in find(limit + len(left_out)) if pk not in left_out]
    change(step, due[:limit], act)


def paused(step: str) -> set[UUID]:
    """Return the jobs that this process could not change a moment ago."""
    return _failed.paused(step)


class _Failed:
    """Jobs that could not be changed, by step: each is tried again after a pause that doubles. Safe
    for threads."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[tuple[str, UUID], tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def add(self, step: str, pk: UUID) -> None:
        with self._lock:
            _, pause = self._jobs.pop((step, pk), (0.0, FIRST_PAUSE_S / 2))
            pause = min(2 * pause, MOST_PAUSE_S)
            self._jobs[step, pk] = (time.monotonic() + pause, pause)
            while len(self._jobs) > MOST_FAILED:
                self._jobs.popitem(last=False)

    def paused(self, step: str) -> set[UUID]:
        now = time.monotonic()
        with self._lock:
            return {pk for (at, pk), (until, _) in self._jobs.items() if at == step and until > now}


_failed = _Failed()
