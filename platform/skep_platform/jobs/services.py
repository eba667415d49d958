"""All writes to jobs. Each is one transaction and may be repeated."""

from __future__ import annotations

from skep_platform.jobs.intake.cloning import clone
from skep_platform.jobs.intake.prioritising import set_priority
from skep_platform.jobs.intake.sharing import set_visibility
from skep_platform.jobs.intake.submitting import CheckResult, check, convert, submit
from skep_platform.jobs.intake.tags import set_tags
from skep_platform.jobs.life.repair import reconcile
from skep_platform.jobs.life.reporting import apply_facts, lose_forgotten
from skep_platform.jobs.life.stopping import retry_now, stop

__all__ = [
    "CheckResult",
    "apply_facts",
    "check",
    "clone",
    "convert",
    "lose_forgotten",
    "reconcile",
    "retry_now",
    "set_priority",
    "set_tags",
    "set_visibility",
    "stop",
    "submit",
]
