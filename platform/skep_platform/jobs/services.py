"""All writes to jobs. Each is one transaction and may be repeated.

Submitting and the life of a job have modules of their own; here are the changes to a submitted job:
its tags, who sees it, its priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.core import notifications
from skep_platform.core.errors import Conflict, Forbidden, SkepError
from skep_platform.core.events import record
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle.repair import reconcile
from skep_platform.jobs.lifecycle.reporting import (
    apply_facts,
    apply_facts_of_nodes,
    lose_forgotten_of_nodes,
)
from skep_platform.jobs.lifecycle.stopping import audited, retry_now, stop
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB
from skep_platform.jobs.steering import (
    end_retries,
    move,
    run_again,
    run_opportunistically,
)
from skep_platform.jobs.submission.bounds import check_tags, tidy
from skep_platform.jobs.submission.cloning import clone
from skep_platform.jobs.submission.submitting import CheckResult, check, convert, submit
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.limits import limit

__all__ = [
    "CheckResult",
    "apply_facts",
    "apply_facts_of_nodes",
    "check",
    "clone",
    "convert",
    "end_retries",
    "lose_forgotten_of_nodes",
    "move",
    "reconcile",
    "retry_now",
    "run_again",
    "run_opportunistically",
    "set_idle_exempt",
    "set_priority",
    "set_tags",
    "set_visibility",
    "stop",
    "submit",
]


@transaction.atomic
def set_tags(user: User, job_id: UUID, tags: Sequence[str]) -> Job:
    """Replace the tags of a job. Raises NotFound, Forbidden, and SkepError `too_many_tags` or
    `invalid_tag`."""
    job = queries.find(user, job_id)
    if not queries.may_stop(user, job):
        message = "Only its owner, VC admins and admins may tag a job."
        raise Forbidden(message)
    if issue := next(check_tags(tags, ()), None):
        raise SkepError(issue.message, code=issue.code)
    before, job.tags = job.tags, tidy(tags)
    Job.objects.filter(pk=job.pk).update(tags=job.tags)
    audited(job, "job.tags.update", before={"tags": before}, after={"tags": job.tags})
    notifications.notify_topic("jobs")
    notifications.notify_topic("job", str(job.pk))
    return job


WORDS = {
    "": "as its virtual cluster says",
    "owner": "its owner, VC admins and admins only",
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
        before, after = {"visibility": job.visibility}, {"visibility": visibility}
        audited(job, "job.visibility.update", before=before, after=after)
        Job.objects.filter(pk=job.pk).update(visibility=visibility)
        job.visibility = visibility
        who = user.get_username()
        message = f"{who} changed who may see it: {WORDS[visibility]}."
        record("job", job.pk, "job.visibility", message, actor=who, visibility=visibility)
        notifications.notify_topic("jobs")
        notifications.notify_topic("job", str(job.pk))
    return job


@transaction.atomic
def set_idle_exempt(user: User, job_id: UUID, exempt: bool) -> Job:
    """Say whether a job may keep GPUs that it does not use, whatever the idle rule of its virtual
    cluster. Raises NotFound, and Forbidden `may_not_exempt`."""
    job = queries.find(user, job_id)
    if not queries.may_exempt(user, job):
        message = f"Only VC admins of {job.vc.name} and admins may exempt a job from the idle rule."
        raise Forbidden(message, code="may_not_exempt")
    if job.idle_exempt != exempt:
        before, after = {"idle_exempt": job.idle_exempt}, {"idle_exempt": exempt}
        audited(job, "job.idle.update", before=before, after=after)
        Job.objects.filter(pk=job.pk).update(idle_exempt=exempt, idle_warned_at=None)
        job.idle_exempt = exempt
        who = user.get_username()
        verb = "exempted it from" if exempt else "made it subject to"
        message = f"{who} {verb} the idle rule of {job.vc.name}."
        record("job", job.pk, "job.idle_exempt", message, actor=who, exempt=exempt)
        notifications.notify_topic("job", str(job.pk))
    return job


@transaction.atomic
def set_priority(user: User, job_id: UUID, priority: int) -> Job:
    """Rank a job anew within its virtual cluster, 0 to 1000. Raises NotFound, Forbidden
    `may_not_prioritise` and `priority_too_high`, and Conflict `job_ended` or `job_opportunistic`.

    A job that waits as opportunistic because its owner asked for that, and was submitted with a
    guarantee, gets it back."""
    job = queries.find(user, job_id)
    if not queries.may_prioritise(user, job):
        message = "Only its owner, VC admins and admins may change the priority of a job."
        raise Forbidden(message, code="may_not_prioritise")
    Job.objects.select_for_update(no_key=True).get(pk=job.pk)
    job.refresh_from_db(fields=["state", "priority", "priority_class", "placed_at"])
    if job.state not in JOB.active:
        raise Conflict(f"The job has ended: it is {job.state}.", code="job_ended", state=job.state)
    if job.priority < 0 and not queries.may_regain_guarantee(job):
        message = "An opportunistic job has no rank; submit it with another jobPriorityClass."
        raise Conflict(message, code="job_opportunistic")
    if not tenancy.manages(user, job.vc) and priority > (most := limit(job.vc, "max_priority")):
        message = (
            f"Priority {priority} is above {most}, the highest that members of {job.vc.name} may "
            "give. Ask a VC admin, or give a lower one."
        )
        raise Forbidden(message, code="priority_too_high", priority=priority, most=most)
    if job.priority != priority:
        who, before = user.get_username(), job.priority
        job.priority_class = job.priority_class if before >= 0 else queries.asked_class(job)
        Job.objects.filter(pk=job.pk).update(priority=priority, priority_class=job.priority_class)
        job.priority = priority
        message = f"{who} changed its priority from {before} to {priority}."
        record("job", job.pk, "job.priority", message, actor=who, before=before, after=priority)
        was, now = {"priority": before}, {"priority": priority}
        audited(job, "job.priority.update", before=was, after=now)
        notifications.notify_scheduler()
        notifications.notify_topic("jobs")
        notifications.notify_topic("job", str(job.pk))
    return job
