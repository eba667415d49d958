"""Jobs that make room and save nothing: the rest of their grace is not waited for.

An agent reports each task that has no process with a handler for the checkpoint signal. Such a task
goes on while another one of its gang saves, which may need it (a checkpoint of sharded weights is
gathered from all ranks). When no task that saves is left, all of them are stopped at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import connection

from skep_platform.core.bulk import insert_rows
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.jobs.life.facts import UNHANDLED, UNSAVED, Attempt
from skep_platform.jobs.life.locked import LockedJob
from skep_platform.jobs.states import AttemptState


def stop_unsaved(
    jobs: Mapping[UUID, LockedJob], changes: Sequence[tuple[Attempt, Attempt]]
) -> list[UUID]:
    """Mark the tasks that need not be waited for, of locked jobs with these changes (before,
    after); return the nodes to tell. No query unless one of the jobs makes room."""
    asked = {
        after.job_id
        for before, after in changes
        if jobs[after.job_id].row["preempting_at"] is not None
        and (after.phase == UNHANDLED != before.phase or (after.ended and not before.ended))
    }
    if not asked:
        return []
    with connection.cursor() as cursor:
        values = {
            "unhandled": UNHANDLED,
            "unsaved": UNSAVED,
            "stopping": str(AttemptState.STOPPING),
        }
        cursor.execute(MARK, {**values, "jobs": sorted(asked)})
        marked = cursor.fetchall()
    tasks = Counter(job_id for job_id, _, _ in marked)
    signals = {job_id: signal for job_id, _, signal in marked}
    insert_rows([_event(job_id, count, signals[job_id]) for job_id, count in tasks.items()])
    return sorted({node_id for _, node_id, _ in marked})


MARK = """
UPDATE jobs_taskattempt a SET phase = %(unsaved)s
  FROM jobs_job j
 WHERE j.id = a.job_id AND a.job_id = ANY(%(jobs)s)
   AND a.state = %(stopping)s AND a.phase = %(unhandled)s
   AND NOT EXISTS (
     SELECT 1 FROM jobs_taskattempt o
      WHERE o.job_id = a.job_id AND o.state = %(stopping)s
        AND o.phase NOT IN (%(unhandled)s, %(unsaved)s))
RETURNING a.job_id, a.node_id, j.checkpoint_signal
"""


def _event(job_id: UUID, tasks: int, signal: str) -> Event:
    which = "its task" if tasks == 1 else f"{tasks} of its tasks"
    message = f"No process of {which} handles {signal}: stopped without saving."
    return event("job", job_id, "job.not_saved", message, tasks=tasks, signal=signal)
