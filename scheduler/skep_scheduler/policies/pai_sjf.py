"""Shortest job first, by recurrence: Weng et al., "MLaaS in the Wild", NSDI 2022, section 6.1.

Key: the predicted duration of the job's group (see `recurrence`), nothing else. Unlike `sjf` it
does not use what the owner declares, so that declaring little helps no owner. FIRM and SKIP,
as in the simulator of the paper. What differs: see `recurrence`; on a server the group is what the
platform's predictor finds (name, then commands, then number of GPUs, of the owner's earlier jobs).
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

BEHIND = "It starts behind those of which earlier jobs like it are known."


@dataclass(frozen=True, slots=True)
class PaiSjf:
    """Among jobs of one priority the one starts first that is predicted to be the shortest, by
    earlier jobs that were like it. What its owner declares does not count. Jobs without a
    prediction come last."""

    name: ClassVar[str] = "pai_sjf"
    label: ClassVar[str] = "shortest by history first"
    needs: ClassVar[Needs] = Needs(frozenset({Knows.HISTORY}), BEHIND)
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        predicted = gang.predicted_s
        return -gang.priority, predicted is None, predicted or 0.0
