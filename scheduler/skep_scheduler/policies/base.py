"""What a policy is."""

from __future__ import annotations

from typing import Protocol

from skep_scheduler.state import Gang, Snapshot


class Policy(Protocol):
    """Ranks; it never places. Quotas, placement and the rule that opportunistic gangs come after
    all guaranteed ones are the same for every policy."""

    @property
    def name(self) -> str:
        """Stable: admins choose by it."""

    def order(self, snapshot: Snapshot, now: float) -> list[Gang]:
        """All of `snapshot.waiting`, in the order in which a tick tries them. Must not depend on
        the order within the snapshot."""
