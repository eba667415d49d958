"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import BackfillMode, JobFacts, Keep, Key, Needs, parameter


@dataclass(frozen=True, slots=True)
class Fifo:
    """Jobs of one priority start in the order of their submission. Unless `backfill` says
    otherwise, no job starts before an older one on what the older one could use."""

    name: ClassVar[str] = "fifo"
    label: ClassVar[str] = "first in, first out"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = parameter(
        "block",
        "What happens behind a job that does not fit: `block` lets no later job of its virtual "
        "cluster start on what it could use; `reserve` lets those start that do not delay it; "
        "`skip` lets any start.",
        choices=("block", "reserve", "skip"),
    )

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        return (-gang.priority,)
