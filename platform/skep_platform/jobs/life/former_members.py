"""Jobs of people who may not submit to their virtual cluster any more: they are stopped.

Whoever was deactivated or is no member any more (an admin needs no membership) has no right to go
on using GPUs. Waiting jobs end at once; running ones end with their usual grace, or finish where
SKEP_FORMER_MEMBERS_JOBS says so. What a request leaves undone, a periodic task does.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from skep_platform.jobs.life import stories
from skep_platform.jobs.life.locked import lock
from skep_platform.jobs.life.stopping import stop_locked
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB
from skep_platform.tenancy.models import Membership

AT_ONCE = 500  # jobs of one person that are stopped within the request; the task takes the rest
PER_ROUND = 200


def stop_of(user_id: int, actor: str = "") -> int:
    """Stop the jobs of one person for which there is no right any more; returns how many. Runs
    inside the caller's transaction."""
    return _stop(_orphaned().filter(owner_id=user_id), AT_ONCE, actor)


def stop_all() -> int:
    """Stop such jobs of everybody, a bounded number of them; returns how many."""
    with transaction.atomic():
        return _stop(_orphaned(), PER_ROUND, "")


def _orphaned() -> QuerySet[Job]:
    member = Membership.objects.filter(vc=OuterRef("vc"), user=OuterRef("owner"))
    jobs = Job.objects.filter(
        Q(owner__is_active=False) | Q(~Exists(member), owner__is_superuser=False),
        state__in=JOB.active,
        stop_requested_at=None,
    )
    finish = settings.SKEP_FORMER_MEMBERS_JOBS == "finish"
    return jobs.filter(placed_at=None) if finish else jobs


def _stop(jobs: QuerySet[Job], most: int, actor: str) -> int:
    columns = ("pk", "owner__username", "owner__is_active", "vc__name")
    who = {pk: rest for pk, *rest in jobs.order_by("pk").values_list(*columns)[:most]}
    stopped = 0
    for job in lock(Job.objects.filter(pk__in=who)):
        if job.row["state"] in JOB.active and job.row["stop_requested_at"] is None:
            name, active, vc = who[job.id]
            why = stories.former_member(name, vc, deactivated=not active)
            stop_locked(job, why, actor=actor)
            stopped += 1
    return stopped
