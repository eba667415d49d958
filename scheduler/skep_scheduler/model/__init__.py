"""What the scheduler is given and what it answers: the one vocabulary of all its parts."""

from __future__ import annotations

from skep_scheduler.model.codes import Cancel, Code, Downgrade
from skep_scheduler.model.errors import InvariantError
from skep_scheduler.model.facts import (
    Allocation,
    Claim,
    Device,
    ElasticRange,
    Gang,
    Inventory,
    Member,
    Node,
    Pin,
    PolicyChoice,
    TaskAllocation,
    UserLimits,
    VirtualCluster,
)
from skep_scheduler.model.options import DEFAULTS, Options
from skep_scheduler.model.plan import (
    Placement,
    Plan,
    Preemption,
    Reason,
    Resize,
    TaskPlacement,
    Victim,
)

__all__ = [
    "DEFAULTS",
    "Allocation",
    "Cancel",
    "Claim",
    "Code",
    "Device",
    "Downgrade",
    "ElasticRange",
    "Gang",
    "InvariantError",
    "Inventory",
    "Member",
    "Node",
    "Options",
    "Pin",
    "Placement",
    "Plan",
    "PolicyChoice",
    "Preemption",
    "Reason",
    "Resize",
    "TaskAllocation",
    "TaskPlacement",
    "UserLimits",
    "Victim",
    "VirtualCluster",
]
