"""The API tokens of jobs, and the jobs that are submitted with them: followers.

A job with `extras.skep.apiToken` has one token for all of its attempts. It is made with the job: so
a node can be sent its tasks without a write, and the token needs no other end than that of the job,
which every use of it checks. The database has its hash, and the token itself encrypted as the
secrets of jobs are; it reaches the containers as those do.

A follower has its parent, the root of its family, and its depth. Limits of the virtual cluster
bound both the depth and the number of followers of a root, so that a job which submits itself
without end stops at a number.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import ApiToken, User
from skep_platform.core import encryption
from skep_platform.core.bulk import fetch
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, Unauthorized
from skep_platform.jobs.models import Job, JobApiToken
from skep_platform.tenancy.limits import limits_of

FAMILIES = 0x5CF0  # of PostgreSQL's advisory locks: with a root, one follower of it at a time


def give_token(job: Job, scope: str) -> None:
    """Make the token of a new job, within the transaction that inserts it."""
    name = f"job {job.name}"[:100]
    secret = accounts.create_job_token(job.owner, job.pk, job.vc_id, name, scope)
    JobApiToken.objects.create(job=job, sealed=encryption.seal(secret.encode()))


def is_follower(user: User) -> bool:
    """Return whether the jobs that this user submits now are submitted with the token of a job."""
    return user.used_token is not None and user.used_token.job_id is not None


def follow(user: User, job: Job) -> None:
    """Make a new job, which is not stored yet, a follower of the one with whose token it is
    submitted, if there is one. Runs inside the transaction that inserts the job. Raises Conflict
    `followers_too_deep` and `too_many_followers`, and Unauthorized when the other job has ended."""
    token = user.used_token
    if token is None or token.job_id is None:
        return
    parent = Job.objects.filter(pk=token.job_id, finished_at=None).only("depth", "root_id").first()
    if parent is None:
        raise Unauthorized("The job of this token has ended.", code="authentication_failed")
    job.parent, job.depth = parent, parent.depth + 1
    job.root_id = parent.root_id or parent.pk
    limits = limits_of(job.vc)
    if job.depth > (most := limits["follower_depth"]):
        message = (
            f"This job would be number {job.depth} in a row of jobs that submitted each other; in "
            f"{job.vc.name} there may be {most}. Submit it yourself, or ask an admin for a higher "
            "limit follower_depth."
        )
        raise _exceeded(job, message, "followers_too_deep", "follower_depth", parent.depth, most)
    # Followers of one root are counted one after the other. Not by its row, which may be in the
    # archive: a family goes on for as long as each job is followed by the next.
    fetch("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [FAMILIES, str(job.root_id)])
    now, most = Job.objects.filter(root_id=job.root_id).count(), limits["followers"]
    if now >= most:
        message = (
            f"The first job and its followers have submitted {now} jobs; in {job.vc.name} they may "
            f"submit {most}. Submit it yourself, or ask an admin for a higher limit followers."
        )
        raise _exceeded(job, message, "too_many_followers", "followers", now, most)


def _exceeded(job: Job, message: str, code: str, limit: str, now: int, most: int) -> Conflict:
    details = {"limit": limit, "now": now, "most": most, "virtual_cluster": job.vc.name}
    return Conflict(message, code=code, **details)


def forget_tokens() -> int:
    """Delete the tokens of jobs that have ended, which are refused already. Return how many."""
    goes_on = Job.objects.filter(pk=OuterRef("job_id"), finished_at=None)
    deleted = delete_in_batches(ApiToken.objects.filter(~Exists(goes_on), job_id__isnull=False))
    delete_in_batches(JobApiToken.objects.exclude(job__finished_at=None))
    return deleted
