"""AntMan (Xiao et al., OSDI 2020): two classes of jobs that share GPUs.

Rule, section 4: resource-guarantee jobs get GPUs on which no other of their class is.
Opportunistic jobs are put beside others where the load of the GPU is low; when the step time of
the guaranteed job rises, they are throttled. Guaranteed jobs are never preempted.

Order: class, then submission. Where jobs go, and how fast an opportunistic one runs beside others,
is the part of the mechanism, which agents do not have: it is simulated by the preset
`muri-n8g8`. This is the form of Muri's artifact, as the original has no public code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import BackfillMode, JobFacts, Keep, Key, Needs


@dataclass(frozen=True, slots=True)
class AntMan:
    """Guaranteed jobs have GPUs of their own; opportunistic ones run beside others where the load
    is low. Within a class the first submitted comes first."""

    name: ClassVar[str] = "antman"
    label: ClassVar[str] = "guaranteed jobs first"
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def key(self, gang: JobFacts, now: float) -> Key:
        return (-gang.priority,)
