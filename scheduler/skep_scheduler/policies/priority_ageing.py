"""Priority, raised a little by waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import BackfillMode, JobFacts, Keep, Key, Needs, parameter


@dataclass(frozen=True, slots=True)
class PriorityAgeing:
    """Jobs of higher priority come first. Waiting raises the rank of a job a little, so that an old
    job comes before newer ones of a slightly higher priority. The first blocked jobs get a
    reservation, and later jobs start before them only if that delays no reservation."""

    name: ClassVar[str] = "priority_ageing"
    label: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs()
    keep: ClassVar[Keep] = Keep.FIRM

    ageing_s: float = parameter(
        600.0,
        "Seconds of waiting that rank a job one priority higher.",
        minimum=1.0,
        option="ageing_s",
    )
    # Less than what lies between two priority classes, so that ageing never crosses one.
    ageing_limit: int = parameter(
        9, "Priorities that a job gains by waiting at most.", minimum=0, option="ageing_limit"
    )

    @property
    def backfill_mode(self) -> BackfillMode:
        return BackfillMode.RESERVE

    def key(self, gang: JobFacts, now: float) -> Key:
        age = now - gang.submitted_at
        aged = max(min(int(age // self.ageing_s), self.ageing_limit), 0)
        return (-gang.priority - aged,)
