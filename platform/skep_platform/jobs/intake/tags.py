"""Words to find jobs by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from uuid import UUID

from skep_jobfile import Path, Trouble
from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Forbidden, SkepError
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job

MAX_TAGS = 20
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")


def check_tags(tags: Sequence[str], path: Path) -> Iterator[Trouble]:
    """What is wrong with them."""
    if len(tags) > MAX_TAGS:
        yield Trouble("too_many_tags", f"A job has at most {MAX_TAGS} tags.", path)
    for index, tag in enumerate(tags):
        if not TAG.fullmatch(tag):
            message = (
                "A tag has up to 64 letters, digits and . _ : / -, and begins with a letter "
                "or digit."
            )
            yield Trouble("invalid_tag", message, (*path, index))


def tidy(tags: Sequence[str]) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(tags))


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
