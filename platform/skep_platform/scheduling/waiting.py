"""Storing why jobs wait: only what is news, and never all of a long queue at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from skep_platform.core.bulk import update_rows
from skep_platform.jobs.life import stories
from skep_platform.jobs.models import Job
from skep_scheduler.queue import Code, Reason

REFRESH_S = 10.0  # numbers of a reason may be this old; a new code is stored at once
MOST = 500  # rows per tick
STILL_WAITING = """
t.stop_requested_at IS NULL AND (
    t.state = 'WAITING' AND t.placed_at IS NULL OR t.unplaced > 0 AND t.preempting_at IS NULL)
"""


class Reasons:
    """Remembers what it stored; a new process stores every reason once."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[Reason, float]] = {}

    def store(self, reasons: Mapping[str, Reason]) -> int:
        """Write the news among the reasons (by job id, in the order of the queue); returns the
        number of rows written."""
        self._stored = {job: known for job, known in self._stored.items() if job in reasons}
        now = time.monotonic()
        news = [job for job, reason in reasons.items() if self._is_news(job, reason, now)][:MOST]
        rows = [{"id": job, "wait_reason": plain(reasons[job])} for job in news]
        for job in news:
            self._stored[job] = (reasons[job], now)
        return update_rows(Job, ("wait_reason",), rows, STILL_WAITING)

    def _is_news(self, job: str, reason: Reason, now: float) -> bool:
        if reason.code == Code.BACKOFF:
            return False  # who made it wait has said so, and why
        if job not in self._stored:
            return True
        known, at = self._stored[job]
        if known.code != reason.code:
            return True
        return now - at >= REFRESH_S and _content(known) != _content(reason)


def _content(reason: Reason) -> tuple[str, dict[str, Any]]:
    """Without the moment at which it was told: that alone is no news."""
    details = {key: value for key, value in reason.details.items() if key != "told_at"}
    return reason.message, details


def plain(reason: Reason) -> stories.Reason:
    """As it is stored and shown."""
    return stories.reason(str(reason.code), reason.message, **reason.details)
