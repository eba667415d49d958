"""All reads of jobs, and who may do what with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from skep_platform.cluster.models import Device
from skep_platform.core.errors import NotFound
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job, Lease, Task, TaskAttempt, TaskRole
from skep_platform.jobs.states import ATTEMPT, JOB, JobState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy import visibility
from skep_platform.tenancy.queries import AnyUser

FEW = 1000  # jobs that are named one by one


def visible_to(user: AnyUser) -> QuerySet[Job]:
    """The jobs that exist for this user (see `tenancy.visibility`), all for an admin."""
    jobs = Job.objects.select_related("owner", "vc")
    return jobs if tenancy.is_admin(user) else jobs.filter(visibility.of_jobs(user))


def names_for(user: AnyUser, job_ids: Iterable[object]) -> dict[str, str]:
    """{job id: name} of those of the jobs that the user may see, in one query, or none for no
    jobs."""
    ids = {str(job_id) for job_id in job_ids}
    if not ids:
        return {}
    seen = visible_to(user).select_related(None).filter(pk__in=ids)
    return {str(pk): name for pk, name in seen.values_list("pk", "name")}


def find(user: AnyUser, job_id: UUID) -> Job:
    """Raises NotFound, also when it exists and the user may not know."""
    job = visible_to(user).filter(pk=job_id).first()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def may_stop(user: AnyUser, job: Job) -> bool:
    return job.owner_id == user.pk or tenancy.manages(user, job.vc)


def may_prioritise(user: AnyUser, job: Job) -> bool:
    """Rank it anew: whoever answers for all jobs of its virtual cluster."""
    return tenancy.manages(user, job.vc)


def may_share(user: AnyUser, job: Job) -> bool:
    """Open it to others, or close it again: its owner alone says who may read it."""
    return job.owner_id == user.pk or tenancy.is_admin(user)


def may_exec(user: AnyUser, job: Job) -> bool:
    """Reach into its containers: what is in them is its owner's alone."""
    return job.owner_id == user.pk or user.is_superuser


def search(
    jobs: QuerySet[Job],
    *,
    states: Collection[str] = (),
    virtual_clusters: Collection[str] = (),
    owners: Collection[str] = (),
    tags: Sequence[str] = (),
    text: str = "",
) -> QuerySet[Job]:
    """Empty filters let all pass; a job has all of the `tags`; `text` is looked for in the name."""
    if states:
        jobs = jobs.filter(state__in=states)
    if virtual_clusters:
        jobs = jobs.filter(vc__name__in=virtual_clusters)
    if owners:
        jobs = jobs.filter(owner__username__in=owners)
    if tags:
        jobs = jobs.filter(_tagged(list(tags)))
    return jobs.filter(name__icontains=text) if text else jobs


def _tagged(tags: list[str]) -> Q:
    """Jobs with all of these tags, one by one where they are few: the database guesses how many it
    will find on its way from the newest job to the oldest, and walks past all of them for none."""
    few = list(Job.objects.filter(tags__contains=tags).values_list("pk", flat=True)[: FEW + 1])
    return Q(pk__in=few) if len(few) <= FEW else Q(tags__contains=tags)


def in_queue(job: Job) -> bool:
    """Its tasks have no present attempts: not placed yet, or waiting for a retry."""
    return job.placed_at is None and job.state == JobState.WAITING


def roles_with_states(job: Job) -> list[tuple[TaskRole, dict[str, int]]]:
    """The roles in the order of the job file, and how many of their tasks are in which state."""
    if job.new_roles is not None and in_queue(job):
        return [(role, _with_unplaced(role, {})) for role in job.new_roles]
    states: dict[int, dict[str, int]] = defaultdict(dict)
    if not in_queue(job):
        present = _present(job).filter(job=job)
        rows = present.values_list("role_id", "state").annotate(n=Count("id")).order_by()
        for role_id, state, count in rows:
            states[role_id][state] = count
    roles = TaskRole.objects.filter(job=job).order_by("position")
    return [(role, _with_unplaced(role, states[role.pk])) for role in roles]


def _present(job: Job) -> QuerySet[TaskAttempt]:
    """Attempts of the job's present attempt, without those of tasks that are tried again alone."""
    newer = TaskAttempt.objects.filter(
        task=OuterRef("task"), index=OuterRef("index"), retry__gt=OuterRef("retry")
    )
    found = TaskAttempt.objects.filter(~Exists(newer), index=job.attempt)
    if job.state in JOB.active:
        found = found.exclude(state__in=ATTEMPT.terminal, task__not_before__isnull=False)
    return found


def _with_unplaced(role: TaskRole, states: dict[str, int]) -> dict[str, int]:
    unplaced = role.instances - sum(states.values())
    return states | ({JobState.WAITING.value: unplaced} if unplaced else {})


def state_of(job: Job, newest: TaskAttempt | None) -> str:
    """Of a task, by its newest attempt (with its task). Of an incremental job that may be one of
    the job's earlier attempts, or one that is tried again: the task waits for a place."""
    if newest is None or newest.index != job.attempt or in_queue(job):
        return JobState.WAITING
    again = job.state in JOB.active and newest.task.not_before is not None
    return JobState.WAITING if again and newest.state in ATTEMPT.terminal else newest.state


def tasks(job: Job, *, roles: Collection[str] = (), states: Collection[str] = ()) -> QuerySet[Task]:
    """The job's tasks with their state, which is that of the present attempt, or WAITING."""
    rows = Task.objects.filter(job=job).select_related("role")
    if roles:
        rows = rows.filter(role__name__in=roles)
    if states and in_queue(job):
        return rows if JobState.WAITING in states else rows.none()
    if states:
        present = _present(job).filter(task=OuterRef("pk"))
        state = Coalesce(Subquery(present.values("state")[:1]), Value(JobState.WAITING.value))
        rows = rows.annotate(newest_state=state).filter(newest_state__in=states)
    return rows


def newest_attempts(tasks: Sequence[Task]) -> dict[int, TaskAttempt]:
    """By task id, one query."""
    rows = (
        TaskAttempt.objects.filter(task__in=[task.pk for task in tasks])
        .select_related("node", "task")
        .order_by("task", "-index", "-retry")
        .distinct("task")
    )
    return {attempt.task_id: attempt for attempt in rows}


def events(job: Job) -> QuerySet[Event]:
    return Event.objects.filter(subject_type=Event.Subject.JOB, subject_id=str(job.pk))


def queue() -> QuerySet[Job]:
    """Jobs that wait for the scheduler."""
    return Job.objects.filter(
        state=JobState.WAITING, placed_at=None, stop_requested_at=None
    ).order_by(F("priority").desc(), "created_at")


def placeable() -> QuerySet[Job]:
    """Those, and incremental jobs of whose tasks some have no place yet."""
    incomplete = Q(unplaced__gt=0, placed_at__isnull=False, state__in=JOB.active)
    staying = Q(preempting_at=None, exit_reason__isnull=True)
    waiting = Q(state=JobState.WAITING, placed_at=None)
    return Job.objects.filter(waiting | (incomplete & staying), stop_requested_at=None)


def bad_gpus(job: Job) -> list[dict[str, Any]]:
    """The GPUs that the job holds and that failed, at most MOST_BAD. No query for a job without a
    placement."""
    if job.placed_at is None or not job.gpus or job.state not in JOB.active:
        return []
    rows = (
        Lease.objects.filter(attempt__job=job, released_at=None)
        .exclude(device__health=Device.Health.HEALTHY)
        .order_by("device__node__name", "device__index")
        .values_list(
            *("device__node__name", "device__index", "device_id", "device__problem"),
            *("attempt__role__name", "attempt__task__index"),
        )[:MOST_BAD]
    )
    return [
        {"node": node, "index": n, "uuid": uuid, "problem": problem, "task": f"{role}-{index}"}
        for node, n, uuid, problem, role, index in rows
    ]


MOST_BAD = 20
