"""Opening a job to others than its owner, its managers and admins, and closing it again."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Forbidden
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job

WORDS = {
    "": "as its virtual cluster says",
    "owner": "its owner, the managers of its virtual cluster and admins only",
    "members": "the members of its virtual cluster",
    "everyone": "every user",
}


@transaction.atomic
def set_visibility(user: User, job_id: UUID, visibility: str) -> Job:
    """Say who else may see a job: a `tenancy.Visibility`, or "" for what its virtual cluster
    says. Raises NotFound, and Forbidden `may_not_share`."""
    job = queries.find(user, job_id)
    if not queries.may_share(user, job):
        message = "Only its owner and admins may say who sees a job."
        raise Forbidden(message, code="may_not_share")
    if job.visibility != visibility:
        Job.objects.filter(pk=job.pk).update(visibility=visibility)
        job.visibility = visibility
        who = user.get_username()
        message = f"{who} changed who may see it: {WORDS[visibility]}."
        record("job", job.pk, "job.visibility", message, actor=who, visibility=visibility)
        doorbells.ring_topic("jobs")
        doorbells.ring_topic("job", str(job.pk))
    return job
