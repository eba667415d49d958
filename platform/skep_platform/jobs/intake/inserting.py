"""The rows of a new job in one statement, however many tasks it has."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from skep_platform.core.bulk import insert
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job, TaskRole

TASKS = """
INSERT INTO jobs_task (job_id, role_id, "index", rank, retries_used)
SELECT roles.job_id, roles.id, i, roles.first_rank + i, 0
  FROM (SELECT *, sum(instances) OVER (ORDER BY position) - instances AS first_rank
          FROM inserted_roles) AS roles,
       generate_series(0, roles.instances - 1) AS i
"""


def insert_job(job: Job, roles: Sequence[TaskRole], story: Event) -> None:
    """Insert a job with its roles and tasks, and tell its first event. Foreign keys are checked at
    commit, so that one statement may hold them all. Raises IntegrityError."""
    job_sql, job_row = insert([job])
    roles_sql, role_rows = insert(roles)
    event_sql, event_row = insert([story])
    sql = (
        f"WITH inserted_job AS ({job_sql}), inserted_roles AS ({roles_sql} RETURNING *), "
        f"told AS ({event_sql}) {TASKS}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [job_row, role_rows, event_row])
    job._state.adding = False
    job._state.db = connection.alias
    job.new_roles = roles
