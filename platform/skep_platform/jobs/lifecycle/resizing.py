"""The size of elastic jobs: with how many tasks of its elastic role a job starts.

It is chosen by the policy of the virtual cluster at each start. A running job that shall have
another size is asked to leave as a preempted one is, and gets it when it starts again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from skep_platform.jobs.lifecycle import messages, preempting
from skep_platform.jobs.models import TaskRole
from skep_scheduler.model import Resize


@dataclass(frozen=True, slots=True)
class Size:
    """A number of tasks of the elastic role of a job."""

    role: int
    instances: int


def sizes(wanted: Mapping[UUID, Mapping[str, int]]) -> dict[UUID, Size]:
    """Return the size of each of these jobs, `wanted` as a number of tasks by role. A job is left
    out if it is not elastic, if that is not within its range, or if other roles would change. One
    query, or none."""
    if not wanted:
        return {}
    found: dict[UUID, Size] = {}
    wrong: set[UUID] = set()
    columns = ("pk", "job", "name", "instances", "elastic_min", "elastic_max")
    for role, job, name, instances, fewest, most in TaskRole.objects.filter(
        job__in=wanted
    ).values_list(*columns):
        tasks = wanted[job].get(name, 0)
        if fewest is not None and most is not None and fewest <= tasks <= most:
            found[job] = Size(role, tasks)
        elif tasks != instances:
            wrong.add(job)
    return {job: size for job, size in found.items() if job not in wrong}


def write(sizes_by_job: Mapping[UUID, Size]) -> None:
    """Store the sizes of jobs that are locked and start now, in the caller's transaction: of the
    role, of the job, and the rows of tasks that it did not have before. One statement, or none."""
    if not sizes_by_job:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            WRITE,
            {
                "roles": [size.role for size in sizes_by_job.values()],
                "instances": [size.instances for size in sizes_by_job.values()],
            },
        )


# The elastic role is the last one of its job, so that the ranks of the others stay.
WRITE = """
WITH sizes AS (
    SELECT * FROM unnest(%(roles)s::bigint[], %(instances)s::int[]) AS sizes (role, instances)
), resized AS (
    UPDATE jobs_taskrole r
       SET instances = sizes.instances, min_succeeded = sizes.instances
      FROM sizes, jobs_taskrole before
     WHERE r.id = sizes.role AND before.id = r.id
 RETURNING r.job_id, r.id, r.gpus, r.instances, r.instances - before.instances AS more
), jobs AS (
    UPDATE jobs_job j
       SET tasks_total = j.tasks_total + resized.more, gpus = j.gpus + resized.more * resized.gpus
      FROM resized WHERE j.id = resized.job_id
 RETURNING j.id, j.tasks_total
)
INSERT INTO jobs_task (job_id, role_id, "index", rank, retries_used)
SELECT resized.job_id, resized.id, i, jobs.tasks_total - resized.instances + i, 0
  FROM resized JOIN jobs ON jobs.id = resized.job_id,
       generate_series(0, resized.instances - 1) AS i
ON CONFLICT DO NOTHING
"""


def ask(resizes: Collection[Resize], now: datetime) -> list[UUID]:
    """Ask running jobs to leave, so that they start again at another size. Return those that were
    asked."""
    reasons = {UUID(one.gang): messages.resized(one) for one in resizes}
    return preempting.ask(reasons, now)
