"""The same change to many jobs at once, of which one that fails stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from skep_platform.core import one_by_one

log = structlog.get_logger(__name__)


def change(step: str, jobs: Sequence[UUID], act: Callable[[Sequence[UUID]], object]) -> None:
    """Change jobs as `core.one_by_one` does. The one that is to blame is logged and left as it is;
    `step` names the change in the log."""
    one_by_one.change(
        jobs, act, lambda pk: log.exception("job_not_repaired", step=step, job_id=str(pk))
    )
