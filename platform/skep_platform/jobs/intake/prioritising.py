"""Another priority for a job that waits or runs."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, Forbidden
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB


@transaction.atomic
def set_priority(user: User, job_id: UUID, priority: int) -> Job:
    """Rank a job anew within its virtual cluster, 0 to 1000. Raises NotFound, Forbidden
    `may_not_prioritise`, and Conflict `job_ended` or `job_opportunistic`."""
    job = queries.find(user, job_id)
    if not queries.may_prioritise(user, job):
        message = f"Only managers of {job.vc.name} and admins may change the priority of a job."
        raise Forbidden(message, code="may_not_prioritise")
    Job.objects.select_for_update(no_key=True).get(pk=job.pk)
    job.refresh_from_db(fields=["state", "priority"])
    if job.state not in JOB.active:
        raise Conflict(f"The job has ended: it is {job.state}.", code="job_ended", state=job.state)
    if job.priority < 0:
        message = "An opportunistic job has no rank; submit it with another jobPriorityClass."
        raise Conflict(message, code="job_opportunistic")
    if job.priority != priority:
        who, before = user.get_username(), job.priority
        Job.objects.filter(pk=job.pk).update(priority=priority)
        job.priority = priority
        message = f"{who} changed its priority from {before} to {priority}."
        record("job", job.pk, "job.priority", message, actor=who, before=before, after=priority)
        doorbells.ring_scheduler()
        doorbells.ring_topic("jobs")
        doorbells.ring_topic("job", str(job.pk))
    return job
