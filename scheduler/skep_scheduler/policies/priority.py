"""Higher priority first, then who submitted earlier."""

from __future__ import annotations

from skep_scheduler.state import Gang, Snapshot


class Priority:
    name = "priority"

    def order(self, snapshot: Snapshot, now: float) -> list[Gang]:
        return sorted(snapshot.waiting, key=lambda g: (-g.priority, g.submitted_at, g.id))
