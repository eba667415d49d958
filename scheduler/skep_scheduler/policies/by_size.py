"""Orders by one fact of a job: the longest first, the fewest GPUs first, the most GPUs first.

Baselines of many papers. They never preempt, and of equal jobs the one submitted first comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import (
    BackfillMode,
    JobFacts,
    Keep,
    Key,
    Knows,
    Needs,
    backfill_parameter,
)


@dataclass(frozen=True, slots=True)
class Ljf:
    """Among jobs of one priority the longest starts first, by its predicted duration or else by
    the one that it declares. Jobs of unknown duration come last."""

    name: ClassVar[str] = "ljf"
    label: ClassVar[str] = "longest first"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}), "It starts behind those whose duration is known."
    )
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        duration_s = gang.expected_s
        return -gang.priority, duration_s is None, -(duration_s or 0.0)


@dataclass(frozen=True, slots=True)
class Smallest:
    """Among jobs of one priority the one with the fewest GPUs starts first."""

    name: ClassVar[str] = "smallest"
    label: ClassVar[str] = "fewest GPUs first"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        return -gang.priority, gang.gpus


@dataclass(frozen=True, slots=True)
class Largest:
    """Among jobs of one priority the one with the most GPUs starts first."""

    name: ClassVar[str] = "largest"
    label: ClassVar[str] = "most GPUs first"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        return -gang.priority, -gang.gpus
