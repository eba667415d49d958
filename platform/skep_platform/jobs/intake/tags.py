"""Words to find jobs by."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Forbidden, SkepError
from skep_platform.jobs import queries
from skep_platform.jobs.intake.tag_rules import check_tags, tidy
from skep_platform.jobs.models import Job


def set_tags(user: User, job_id: UUID, tags: Sequence[str]) -> Job:
    """Raises NotFound, Forbidden, and SkepError `too_many_tags` or `invalid_tag`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only its owner, managers of its virtual cluster and admins may tag a job."
        raise Forbidden(message)
    if trouble := next(check_tags(tags, ()), None):
        raise SkepError(trouble.message, code=trouble.code)
    job.tags = tidy(tags)
    Job.objects.filter(pk=job.pk).update(tags=job.tags)
    doorbells.ring_topic("jobs")
    doorbells.ring_topic("job", str(job.pk))
    return job
