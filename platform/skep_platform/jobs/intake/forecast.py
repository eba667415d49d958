"""When a job would start if it were submitted now.

The scheduling app, which is above this one, says so: it sets the source when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skep_platform.jobs.life.stories import Reason
from skep_platform.jobs.models import Job, TaskRole

Source = Callable[[Job, Sequence[TaskRole]], Reason]
_source: Source | None = None


def told_by(source: Source) -> None:
    """`source(job, roles)`, of rows that are not stored, answers {code, message, details}; code
    "starts_now" when it fits."""
    global _source
    _source = source


def of(job: Job, roles: Sequence[TaskRole]) -> Reason | None:
    return _source(job, roles) if _source else None
