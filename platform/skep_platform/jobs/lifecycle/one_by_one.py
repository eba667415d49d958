"""The same change to many jobs at once, of which one that fails stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import structlog
from django.db import connection, transaction

from skep_platform.core.failures import is_of_all

log = structlog.get_logger(__name__)


def change(step: str, jobs: Sequence[UUID], act: Callable[[Sequence[UUID]], object]) -> None:
    """Change jobs, all of them in one transaction. Where that fails, each half is tried by itself,
    down to the job that is to blame: it is logged and left as it is. `step` names the change in the
    log. Raises what no job is to blame for, as that the database is away."""
    if not jobs:
        return
    try:
        with transaction.atomic():
            act(jobs)
    except Exception as error:
        if is_of_all(error):
            raise
        if not connection.in_atomic_block and not connection.is_usable():
            raise
        if len(jobs) == 1:
            log.exception("job_not_repaired", step=step, job_id=str(jobs[0]))
            return
        half = len(jobs) // 2
        change(step, jobs[:half], act)
        change(step, jobs[half:], act)
