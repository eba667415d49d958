"""The beat of which any number may run: one sends, the others stand by."""

from __future__ import annotations

from typing import Any

import structlog
from celery import beat

from skep_platform.core import liveness
from skep_platform.core.leadership import LEASE_S, RENEW_S, Leader

log = structlog.get_logger(__name__)


class LeadingScheduler(beat.Scheduler):
    """Sends what is due while it leads. Its schedule lies in memory: after a takeover each task is
    sent once, and all of them are made to be repeated."""

    leader: Leader | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one task that is due. Returns the seconds until the next look."""
        liveness.touch()
        if self.leader is None:  # a lazy scheduler, of which Celery makes one, never ticks
            self.leader = Leader("beat")
            self.leader.start()
        if not self.leader.leads():
            return RENEW_S
        return min(super().tick(*args, **kwargs), LEASE_S)

    def _ensure_connected(self) -> Any:
        liveness.touch_while_connecting(self.connection)
        return super()._ensure_connected()  # type: ignore[misc]

    def close(self) -> None:
        if self.leader is not None:
            self.leader.resign()
        super().close()
