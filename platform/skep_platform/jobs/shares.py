"""Sharing of a single job with users and groups, who may read it and change nothing.

The owner decides, and admins. Whom a job is shared with, only they see. The rule itself is in
`jobs.visibility`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from skep_platform.accounts.models import Group, User
from skep_platform.audit import services as audit
from skep_platform.core import notifications
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.models import Job, JobShare

MOST = 100  # per job


def of_job(user: User, job_id: UUID) -> list[JobShare]:
    """Return with whom a job is shared, oldest first. Raises NotFound and Forbidden
    `may_not_share`."""
    job = _own(user, job_id)
    return list(_rows(job).order_by("created_at", "pk"))


def share(user: User, job_id: UUID, *, username: str = "", group: str = "") -> JobShare:
    """Share a job with a user or a group; sharing it again changes nothing.

    Raises NotFound, also where the user or group cannot be shared with, Forbidden `may_not_share`,
    SkepError `share_with_owner`, and Conflict `too_many_shares`."""
    job = _own(user, job_id)
    whom: dict[str, Any] = {"user": _user(username)} if username else {"group": _group(user, group)}
    if whom.get("user") == job.owner:
        raise SkepError("Its owner sees the job in any case.", code="share_with_owner")
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)  # two at once keep to MOST
        known = _rows(job).filter(**whom).first()
        if known is not None:
            return known
        if JobShare.objects.filter(job=job).count() >= MOST:
            message = (
                f"A job is shared with at most {MOST} users and groups. Share it with a group, or "
                "with all members of its virtual cluster."
            )
            raise Conflict(message, code="too_many_shares", most=MOST)
        made = JobShare.objects.create(job=job, shared_by=user, **whom)
        _record(user, job, username or group, "group" if group else "user", shared=True)
    return made


@transaction.atomic
def revoke(user: User, job_id: UUID, *, username: str = "", group: str = "") -> None:
    """End the sharing of a job with a user or a group. Raises NotFound and Forbidden
    `may_not_share`."""
    job = _own(user, job_id)
    whom = {"user__username": username} if username else {"group__name": group}
    if not JobShare.objects.filter(job=job, **whom).delete()[0]:
        raise NotFound("The job is not shared with them.")
    _record(user, job, username or group, "group" if group else "user", shared=False)


def _rows(job: Job) -> Any:
    return JobShare.objects.filter(job=job).select_related("user", "group")


def _own(user: User, job_id: UUID) -> Job:
    job = queries.find(user, job_id)
    if not queries.may_share(user, job):
        message = "Only its owner and admins may share a job."
        raise Forbidden(message, code="may_not_share")
    return job


def _user(username: str) -> User:
    found = User.objects.filter(username=username, is_active=True, deleted_at=None).first()
    if found is None:
        raise NotFound(f"There is no user named {username}.")
    return found


def _group(user: User, name: str) -> Group:
    """Find a group that the user knows of: one of the user's own, or one with a role in a virtual
    cluster of the user; admins know all."""
    known = Q(members__user=user) | Q(role_grants__vc__memberships__user=user)
    groups = Group.objects.filter(name=name)
    found = (groups if user.is_admin else groups.filter(known)).first()
    if found is None:
        message = (
            f"There is no group named {name} that you belong to or that shares a team with you."
        )
        raise NotFound(message)
    return found


def _record(user: User, job: Job, name: str, kind: str, *, shared: bool) -> None:
    """Write the audit entry, and an event that does not say with whom: readers see it."""
    who = user.get_username()
    value = {kind: name}
    audit.record(
        "job.share" if shared else "job.unshare",
        "job",
        job.pk,
        job.name,
        vc=job.vc,
        before=None if shared else value,
        after=value if shared else None,
    )
    verb = "shared it with" if shared else "ended the sharing with"
    record("job", job.pk, "job.visibility", f"{who} {verb} a {kind}.", actor=who)
    notifications.notify_topic("jobs")
    notifications.notify_topic("job", str(job.pk))
