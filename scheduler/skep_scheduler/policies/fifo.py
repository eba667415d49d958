"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import (
    BackfillMode,
    JobFacts,
    Keep,
    Key,
    Needs,
    backfill_parameter,
)


@dataclass(frozen=True, slots=True)
class Fifo:
    """Jobs of one priority start in the order of their submission. Unless `backfill` says
    otherwise, no job starts before an older one on what the older one could use."""

    name: ClassVar[str] = "fifo"
    label: ClassVar[str] = "first in, first out"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("block")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        return (-gang.priority,)
