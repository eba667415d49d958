"""Shortest job first."""

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
    parameter,
)


@dataclass(frozen=True, slots=True)
class Sjf:
    """Among jobs of one priority the shortest starts first, by its predicted duration or else by
    the one that it declares. Jobs of unknown duration come last."""

    name: ClassVar[str] = "sjf"
    label: ClassVar[str] = "shortest first"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}), "It starts behind those whose duration is known."
    )
    keep: ClassVar[Keep] = Keep.FIRM

    weigh_by_gpus: str = parameter(
        "no",
        "`yes` orders by GPU time (duration times GPUs) instead of duration.",
        choices=("no", "yes"),
    )

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        duration_s = gang.expected_s
        if duration_s is None:
            return -gang.priority, True, 0.0
        weight = gang.gpus if self.weigh_by_gpus == "yes" else 1
        return -gang.priority, False, duration_s * weight
