"""How long this node may go on without the server: the rules, for whoever counts by them."""

from __future__ import annotations

from dataclasses import dataclass

from skep_agent.protocol import MAX_ABSENCE_S


@dataclass(slots=True)
class Lease:
    """All times are seconds of the monotonic clock. Each method returns whether `until` changed.

    The thread that speaks with the server counts by one of these, and the core, which receives the
    same events later, by another.
    """

    until: float | None = None  # None before any server was met
    length_s: float = 0.0  # as the present session's server grants it
    renewed_at: float = 0.0  # when the newest acknowledged heartbeat, or the Hello, was sent

    def welcomed(self, length_s: float, sent_at: float, now: float) -> bool:
        """A session begins, whose Hello was sent at `sent_at`."""
        self.length_s, self.renewed_at = length_s, sent_at
        until = sent_at + length_s
        if self.until is not None and self.until > until:
            # The planned absence is over. The server keeps to it until it has seen a heartbeat of
            # this session, so the lease may begin now: the Hello may have waited for long.
            until = min(self.until, now + length_s)
        return self._set(until)

    def acknowledged(self, sent_at: float) -> bool:
        """The server has a heartbeat that was sent at `sent_at`."""
        if sent_at <= self.renewed_at:
            return False
        self.renewed_at = sent_at
        return self.seen(sent_at + self.length_s)

    def extended(self, for_s: float) -> bool:
        """The server stays away on purpose. From the last renewal, which the server knows of, not
        from now: the word may have been under way for long. Received twice, it is the same."""
        if not for_s > 0:  # nor for what is no number
            return False
        return self.seen(self.renewed_at + self.length_s + min(for_s, float(MAX_ABSENCE_S)))

    def seen(self, until: float) -> bool:
        """It is known to run at least so long."""
        return (self.until is None or until > self.until) and self._set(until)

    def _set(self, until: float) -> bool:
        changed = until != self.until
        self.until = until
        return changed
