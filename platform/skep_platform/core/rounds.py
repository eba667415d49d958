"""Several periodic tasks by one message.

A message through the broker costs beat and a worker more than most of what is done every few
seconds. `schedule.beat` therefore sends the short tasks that are due at the same time together, as
one round, and the worker runs them one after the other. Each is a task of its own as before: it is
counted and measured by its name, and when it fails, the next ones run.

A task that hangs, for instance on a lock, holds up one thread: the next round leaves it out while
it runs in this process. What talks to other servers or takes long is no part of a round. The round
looks whether there is anything to do (`sent_when`), and only then sends its message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog
from celery import current_app

from skep_platform.core import failures, metrics
from skep_platform.core.logs import rarely

log = structlog.get_logger(__name__)

_due: dict[str, Callable[[], bool]] = {}  # by name of a task
_running: set[str] = set()
_lock = threading.Lock()


def sent_when(task: str, is_due: Callable[[], bool]) -> None:
    """Have rounds send the task by a message of its own, whenever `is_due` returns True."""
    _due[task] = is_due


def run(tasks: Sequence[str], expires_s: float) -> None:
    """Run these tasks by name, or send those that have a message of their own, which expires after
    `expires_s` seconds. Raises nothing that one of them raises."""
    for task in tasks:
        with _alone(task) as alone:
            if alone:
                _run(task, expires_s)
            else:
                rarely(log, task, "task_still_runs", name=task)


def _run(task: str, expires_s: float) -> None:
    try:
        if (is_due := _due.get(task)) is None:
            with structlog.contextvars.bound_contextvars(task=task), metrics.measured(task):
                current_app.tasks[task].run()
        elif is_due():
            current_app.send_task(task, expires=expires_s, retry=False)
    except Exception as error:
        log.exception("task_failed", name=task)
        if task in _due:  # all others are counted where they run
            metrics.TASKS.labels(task, "FAILURE").inc()
        failures.leave_broken(error)


@contextmanager
def _alone(task: str) -> Iterator[bool]:
    """Yield whether the task does not run yet in a round of this process."""
    with _lock:
        alone = task not in _running
        _running.add(task)
    try:
        yield alone
    finally:
        if alone:
            with _lock:
                _running.discard(task)
