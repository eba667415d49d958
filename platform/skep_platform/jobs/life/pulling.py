"""A pull that goes on, for the story of its job: a quarter, half, three quarters."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from skep_platform.core.bulk import insert_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.life import stories
from skep_platform.jobs.life.facts import Attempt
from skep_platform.jobs.models import TaskAttempt

MARKS = (25, 50, 75)  # percent
KIND = "job.pulling"


def tell(changes: Iterable[tuple[Attempt, Attempt]]) -> None:
    """Each mark once per job, by the task that passes it first; none after a higher one. No query
    where none is passed."""
    passed: dict[UUID, tuple[int, UUID]] = {}
    for before, after in changes:
        mark = _mark(before, after)
        if mark and mark > passed.get(after.job_id, (0, after.id))[0]:
            passed[after.job_id] = mark, after.id
    if passed:
        _tell(passed)


def _mark(before: Attempt, after: Attempt) -> int:
    """The highest that was passed just now; 0: none."""
    if after.phase != "pulling":
        return 0
    old, new = before.pull_percent or 0, after.pull_percent or 0
    return max((mark for mark in MARKS if old < mark <= new), default=0)


def _tell(passed: dict[UUID, tuple[int, UUID]]) -> None:
    told = _told(passed)
    news = {job: found for job, found in passed.items() if found[0] > told.get(str(job), 0)}
    if not news:
        return
    attempts = TaskAttempt.objects.filter(pk__in=[attempt for _, attempt in news.values()])
    nodes = dict(attempts.values_list("pk", "node__name"))
    insert_rows(
        [
            event("job", job, KIND, stories.pulling(mark, nodes[attempt]), percent=mark)
            for job, (mark, attempt) in news.items()
        ]
    )


def _told(jobs: Iterable[UUID]) -> dict[str, int]:
    """The highest mark that each job's story has."""
    rows = Event.objects.filter(
        subject_type=Event.Subject.JOB, subject_id__in=[str(job) for job in jobs], kind=KIND
    )
    return dict(rows.order_by("id").values_list("subject_id", "data__percent"))
