"""Shortest remaining time first.

Rule: run the jobs with the least remaining time `r_j` (seconds at the size asked for); a running
job yields to a waiting one whose `r_j` is smaller. Of all orders with preemption it has the least
mean completion time on one GPU. No parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import BackfillMode, JobFacts, Keep, Key, Knows, Needs

UNKNOWN = float("inf")  # who gives no duration comes last


@dataclass(frozen=True, slots=True)
class Srtf:
    """Among jobs of one priority the one with the least remaining time runs, also instead of one
    that has longer to run and can be preempted. Jobs of unknown duration come last."""

    name: ClassVar[str] = "srtf"
    label: ClassVar[str] = "shortest remaining time first"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}), "It starts behind those whose duration is known."
    )
    keep: ClassVar[Keep] = Keep.DISPLACE

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def key(self, gang: JobFacts, now: float) -> Key:
        left = gang.left_s
        return -gang.priority, UNKNOWN if left is None else left
