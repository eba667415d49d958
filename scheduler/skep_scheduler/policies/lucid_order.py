"""The order of Lucid: Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for
Deep Learning Training Jobs", ASPLOS 2023, section 3.5.

Key: predicted duration times GPUs, the least first. FIRM and SKIP: Lucid never preempts. What
differs: Lucid predicts by an additive model of user, name, GPUs, hour and weekday, and renews the
prediction while a job waits; ours is the median of the job's group at submission (`recurrence`).
Its profiling and its packing of two jobs on one GPU are not part of the order.
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
from skep_scheduler.policies.pai_sjf import BEHIND


@dataclass(frozen=True, slots=True)
class LucidOrder:
    """Among jobs of one priority the one starts first that is predicted to use the least GPU time
    (duration times GPUs), by earlier jobs that were like it. Jobs without a prediction come
    last."""

    name: ClassVar[str] = "lucid_order"
    label: ClassVar[str] = "least GPU time by history first"
    needs: ClassVar[Needs] = Needs(frozenset({Knows.HISTORY}), BEHIND)
    keep: ClassVar[Keep] = Keep.FIRM

    backfill: str = backfill_parameter("skip")

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode(self.backfill)

    def key(self, gang: JobFacts, now: float) -> Key:
        predicted = gang.predicted_s
        return -gang.priority, predicted is None, (predicted or 0.0) * gang.gpus
