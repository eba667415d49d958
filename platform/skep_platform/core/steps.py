"""A periodic task of several steps: one that fails keeps none of the others from running."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from skep_platform.core import failures, metrics

log = structlog.get_logger(__name__)


def run(task: str, *steps: Callable[[], object]) -> None:
    """Run all steps of a task. One that fails is logged and counted by its name; the first error is
    raised at the end, so that the task counts as failed."""
    failed: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            name = f"{step.__module__.rpartition('.')[2]}.{step.__name__}"
            log.exception("task_step_failed", name=task, step=name)
            metrics.FAILED_STEPS.labels(task, name).inc()
            failures.leave_broken(error)
            failed = failed or error
    if failed is not None:
        raise failed
