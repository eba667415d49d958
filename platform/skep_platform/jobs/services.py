"""All writes to jobs. Each is one transaction and may be repeated."""

from __future__ import annotations

from skep_platform.jobs.cloning import clone
from skep_platform.jobs.repair import reconcile
from skep_platform.jobs.reporting import apply_facts
from skep_platform.jobs.stopping import stop
from skep_platform.jobs.submitting import CheckResult, check, submit
from skep_platform.jobs.tags import set_tags

__all__ = [
    "CheckResult",
    "apply_facts",
    "check",
    "clone",
    "reconcile",
    "set_tags",
    "stop",
    "submit",
]
