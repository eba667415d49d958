"""Shortest remaining service first.

Rule: run the jobs with the least remaining service `r_j * n_j`, with `r_j` the remaining time
(seconds) and `n_j` the GPUs that job j asks for; a running job yields to a waiting one with less.
It is the baseline of Tiresias (NSDI 2019) and the order of Muri-S (SIGCOMM 2022). No parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import BackfillMode, JobFacts, Keep, Key, Knows, Needs
from skep_scheduler.policies.srtf import UNKNOWN


@dataclass(frozen=True, slots=True)
class Srsf:
    """Among jobs of one priority the one with the least remaining GPU time (remaining time times
    GPUs) runs, also instead of one that has more left and can be preempted."""

    name: ClassVar[str] = "srsf"
    label: ClassVar[str] = "shortest remaining service first"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION}), "It starts behind those whose duration is known."
    )
    keep: ClassVar[Keep] = Keep.DISPLACE

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def key(self, gang: JobFacts, now: float) -> Key:
        left = gang.left_s
        return -gang.priority, UNKNOWN if left is None else left * gang.gpus
