"""When to start a dead child again: a pure decision on times, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
# A child that lived this long was well: its next death starts from the shortest delay again.
STEADY_S = 60.0


@dataclass(slots=True)
class Restarts:
    """How often one child was started again, and how long to wait the next time."""

    count: int = 0
    in_a_row: int = 0

    def after_death(self, lived_s: float) -> float:
        """Record a death and return the delay before the next start."""
        if lived_s >= STEADY_S:
            self.in_a_row = 0
        self.count += 1
        self.in_a_row += 1
        return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(self.in_a_row - 1, 16))
