"""The queue above the cells: who starts now, who must make room, and why and how long others wait.

    plan(world, now, settings=DEFAULTS) -> Plan
    explain(world, gang, now, settings=DEFAULTS) -> Placement | Preemption | Reason   # a dry run
    forecast.queue(world, vc, now, limit=100, settings=DEFAULTS, after=0) -> VcQueue

All of them work on the world itself by trial and undo, and leave it as it was. They are not made
for threads: one at a time per world.
"""

from __future__ import annotations

from skep_scheduler.answer import (
    Placement,
    Plan,
    Preemption,
    Reason,
    TaskPlacement,
    Victim,
)
from skep_scheduler.queue import forecast
from skep_scheduler.queue.codes import Code, Downgrade
from skep_scheduler.queue.settings import DEFAULTS, Settings
from skep_scheduler.queue.tick import explain, plan

__all__ = [
    "DEFAULTS",
    "Code",
    "Downgrade",
    "Placement",
    "Plan",
    "Preemption",
    "Reason",
    "Settings",
    "TaskPlacement",
    "Victim",
    "explain",
    "forecast",
    "plan",
]
