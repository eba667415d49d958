"""A job once more: as it is, under another name, or with other values in its job file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from skep_jobfile import Path
from skep_platform.accounts.models import User
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import Conflict, Forbidden
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import allowances, attachments, storages
from skep_platform.jobs.submission.job_file import read, renamed, revised
from skep_platform.jobs.submission.storing import create, new_row
from skep_platform.jobs.submission.submitting import (
    NAME_TAKEN,
    admit_deadline,
    admitted,
    check_token,
    digest_of,
    not_stored,
    refusal,
    submitted_before,
)

NUMBERED = re.compile(r"(.*)-([0-9]{1,18})")
MAX_BASE = 235  # characters of a name that a number is put behind
TRIES = 10  # to find a number that no other clone takes at the same moment


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """A request for a clone that may be repeated: its idempotency key, or "", and a digest of what
    it asks for. The job file of the clone cannot be compared: its name has another number."""

    client_token: str
    digest: str

    def answered(self, user: User) -> Job | None:
        """Return the job that this request made before. Raises Conflict `client_token_reused`."""
        if not self.client_token:
            return None
        return submitted_before(user, self.client_token, self.digest)


def request(client_token: str, *asked: object) -> CloneRequest:
    """Return a request for what is `asked`. Raises SkepError `client_token_invalid`."""
    check_token(client_token)
    return CloneRequest(client_token, digest_of(repr(asked)))


def clone(user: User, job_id: UUID, name: str = "", *, client_token: str = "") -> Job:
    """Create a job, WAITING, like this one; where no name is given, under its own with a number.
    A clone that is repeated with the same `client_token` returns the same job.

    Raises NotFound, Forbidden `may_not_clone`, and what `submit` raises."""
    asked = request(client_token, "clone", job_id, name)
    return asked.answered(user) or clone_of(user, own(user, job_id), name, asked)


def own(user: User, job_id: UUID) -> Job:
    """Return a job that the user may clone. Raises NotFound and Forbidden `may_not_clone`."""
    source = queries.find(user, job_id)
    if source.owner_id != user.pk:
        message = "Only its owner may clone a job: it comes with secrets. Submit its file instead."
        raise Forbidden(message, code="may_not_clone")
    return source


def clone_of(
    user: User,
    source: Job,
    name: str,
    asked: CloneRequest,
    *,
    changes: Sequence[tuple[Path, Any]] = (),
    avoid_nodes: Mapping[str, float] | None = None,
) -> Job:
    """Create a job like `source`, of the same owner, with other values at some paths of its job
    file. `avoid_nodes`: as in `Job.avoid_nodes`. Raises what `submit` raises."""
    for _ in range(0 if name else TRIES - 1):
        try:
            return _cloned(user, source, _next_name(source), asked, changes, avoid_nodes)
        except Conflict as error:  # another clone may have got this number at the same moment
            if error.code != NAME_TAKEN:
                raise
    return _cloned(user, source, name or _next_name(source), asked, changes, avoid_nodes)


def _cloned(
    user: User,
    source: Job,
    name: str,
    asked: CloneRequest,
    changes: Sequence[tuple[Path, Any]],
    avoid_nodes: Mapping[str, float] | None,
) -> Job:
    text = renamed(source.spec_text, name, user.pk)
    if changes:
        text = revised(text, changes, user.pk)
    spec = read(text, user.pk)
    vc, mounts = admitted(user, spec, ignore_storage=True)
    if lost := storages.lost(source, mounts):
        raise refusal(lost)
    job = new_row(user, vc, spec)
    allowances.take(user, vc, spec.job.tasks)
    job.spec_digest, job.client_token = asked.digest, asked.client_token
    job.tags = source.tags
    job.avoid_nodes = dict(avoid_nodes or {})
    admit_deadline(job, spec)
    try:
        with_it = attachments.of_clone(source)
        return create(job, spec, with_it, mounts, clone_of=source.name)
    except IntegrityError:
        if known := asked.answered(user):  # the same request, which was sent twice at once
            return known
        raise not_stored(job) from None


def _next_name(source: Job) -> str:
    """Return the name of the source with the next free number. One row is read, however many
    clones there are."""
    found = NUMBERED.fullmatch(source.name)
    base = (found[1] if found else source.name)[:MAX_BASE]
    [(highest,)] = fetch(HIGHEST, {"owner": source.owner_id, "prefix": f"{base}-"})
    return f"{base}-{(highest or 1) + 1}"


HIGHEST = """
SELECT max(substr(name, length(%(prefix)s) + 1)::bigint)
  FROM jobs_job
 WHERE owner_id = %(owner)s AND starts_with(name, %(prefix)s)
   AND substr(name, length(%(prefix)s) + 1) ~ '^[0-9]{1,18}$'
"""
