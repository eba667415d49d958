"""Earliest deadline first.

Rule: run the jobs with the least deadline `d_j`; a running job yields to a waiting one whose
deadline is earlier. Jobs without a deadline come last, by submission. (Liu and Layland, 1973:
optimal on one machine as long as all deadlines can be met.) `admission` is ours, after ElasticFlow
(Gu et al., ASPLOS 2023, section 4): a job that cannot meet its deadline is refused at submission.

A live job declares its deadline as `extras.skep.deadline`. Differs from the paper in that jobs are
gangs, so that a later job may start beside an earlier one that does not fit, and live in that a job
which has waited long comes first and a running job is not displaced at once.
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
    parameter,
)


@dataclass(frozen=True, slots=True)
class Edf:
    """Among jobs of one priority the one with the earliest deadline runs, also instead of one with
    a later deadline. Jobs without a deadline come last."""

    name: ClassVar[str] = "edf"
    label: ClassVar[str] = "earliest deadline first"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DEADLINE}), "It starts behind those that have a deadline."
    )
    keep: ClassVar[Keep] = Keep.DISPLACE

    admission: str = parameter(
        "warn",
        "What happens to a job that is submitted with a deadline which cannot be met: `warn` "
        "accepts it with a note, `refuse` refuses it, with the earliest deadline that it can meet.",
        choices=("warn", "refuse"),
    )

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.SKIP

    def key(self, gang: JobFacts, now: float) -> Key:
        deadline = gang.deadline_at
        return -gang.priority, float("inf") if deadline is None else deadline
