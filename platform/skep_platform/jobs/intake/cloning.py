"""Submitting a job once more, with the secrets and working files that it came with."""

from __future__ import annotations

import re
from uuid import UUID

from django.db import IntegrityError

from skep_platform.accounts.models import User
from skep_platform.core.errors import Forbidden
from skep_platform.jobs import queries
from skep_platform.jobs.intake import allowances, belongings
from skep_platform.jobs.intake.job_file import read, renamed
from skep_platform.jobs.intake.rows import job_row
from skep_platform.jobs.intake.submitting import admitted, create, digest_of, name_taken
from skep_platform.jobs.models import Job

NUMBERED = re.compile(r"(.*)-([0-9]{1,9})")
MAX_BASE = 240  # characters of a name that a number is put behind


def clone(user: User, job_id: UUID, name: str = "") -> Job:
    """A new job, WAITING, like this one; where no name is given, its own with a number.

    Raises NotFound, Forbidden `may_not_clone`, and what `submit` raises."""
    source = queries.find(user, job_id)
    if source.owner_id != user.pk:
        message = "Only its owner may clone a job: it comes with secrets. Submit its file instead."
        raise Forbidden(message, code="may_not_clone")
    text = renamed(source.spec_text, name or _next_name(source), user.pk)
    spec = read(text, user.pk)
    vc = admitted(user, spec)
    job = job_row(user, vc, spec)
    allowances.take(user, vc, spec.job.tasks)
    job.spec_digest, job.tags = digest_of(text), source.tags
    try:
        return create(job, spec, belongings.of_clone(source), clone_of=source.name)
    except IntegrityError:
        raise name_taken(spec.job.name) from None


def _next_name(source: Job) -> str:
    found = NUMBERED.fullmatch(source.name)
    base = (found[1] if found else source.name)[:MAX_BASE]
    names = Job.objects.filter(owner=source.owner_id, name__startswith=f"{base}-")
    numbers = [
        int(known[2])
        for name in names.values_list("name", flat=True)
        if (known := NUMBERED.fullmatch(name)) and known[1] == base
    ]
    return f"{base}-{max(numbers, default=1) + 1}"
