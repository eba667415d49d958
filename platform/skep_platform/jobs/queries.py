"""All reads of jobs, and who may do what with them.

Stored reasons and events name no other job: their details have ids, and their sentences say
"another job". When they are read, the sentences are rendered again with the names of the jobs that
the reader may see; the ids of the others are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import Coalesce

from skep_jobfile.extras import PriorityClass
from skep_platform.cluster.models import Device
from skep_platform.core.database.plans import fetch_planned
from skep_platform.core.models import Event
from skep_platform.core.ports import GpuTask, JobSeen
from skep_platform.jobs import archive, visibility
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job, JobAttempt, Lease, Task, TaskAttempt, TaskRole
from skep_platform.jobs.states import ATTEMPT, JOB, JobState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.queries import AnyUser
from skep_scheduler.explain import sentences
from skep_scheduler.explain.job_names import mentioned
from skep_scheduler.model import Code

FEW = 1000  # jobs that are named one by one
TRIGRAM = 3  # characters that the index of names needs


def visible_to(user: AnyUser) -> QuerySet[Job]:
    """Select the jobs that exist for this user (see `jobs.visibility`), all for an admin."""
    jobs = Job.objects.select_related("owner", "vc")
    return jobs if tenancy.is_admin(user) else jobs.filter(visibility.of_jobs(user))


def names_for(user: AnyUser, job_ids: Iterable[object]) -> dict[str, str]:
    """Return {job id: name} of those of the jobs that the user may see: one query, and none for no
    jobs. None is a reader who may see no job."""
    ids = {str(job_id) for job_id in job_ids}
    if not ids or user is None:
        return {}
    seen = visible_to(user).select_related(None).filter(pk__in=ids)
    return {str(pk): name for pk, name in seen.values_list("pk", "name")}


def find(user: AnyUser, job_id: UUID) -> Job:
    """Return the job. Raises NotFound, also when it exists and the user may not see it; its code is
    `job_archived` where it can be found in the archive."""
    job = visible_to(user).filter(pk=job_id).first()
    if job is None:
        raise archive.missing(user, job_id)
    return job


def may_stop(user: AnyUser, job: Job) -> bool:
    return job.owner_id == user.pk or tenancy.manages(user, job.vc)


def may_prioritise(user: AnyUser, job: Job) -> bool:
    """Return whether the user may rank it anew: VC admins and admins may, and its owner up to the
    highest priority that members may submit with."""
    owns = job.owner_id == user.pk and tenancy.may_submit(user, job.vc)
    return owns or tenancy.manages(user, job.vc)


def asked_class(job: Job) -> str:
    """Return the priority class that the job file asks for."""
    placing = job.spec.get("extras", {}).get("hivedScheduler", {})
    return str(placing.get("jobPriorityClass") or PriorityClass.TEST)


def may_regain_guarantee(job: Job) -> bool:
    """Return whether it was submitted with a guarantee and waits without it."""
    return in_queue(job) and asked_class(job) != PriorityClass.OPPO


def may_exempt(user: AnyUser, job: Job) -> bool:
    """Return whether the user may exempt it from the idle rule: VC admins and admins may."""
    return tenancy.manages(user, job.vc)


def may_share(user: AnyUser, job: Job) -> bool:
    """Return whether the user may change who sees it: its owner and admins may."""
    return job.owner_id == user.pk or tenancy.is_admin(user)


def may_exec(user: AnyUser, job: Job) -> bool:
    """Return whether the user may run commands in its containers: its owner and superusers may."""
    return job.owner_id == user.pk or user.is_superuser


def search(
    jobs: QuerySet[Job],
    *,
    states: Collection[str] = (),
    virtual_clusters: Collection[str] = (),
    owners: Collection[str] = (),
    tags: Sequence[str] = (),
    name: str = "",
    text: str = "",
    cause: Q | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Job]:
    """Filter the jobs. Empty filters let all pass; a job has all of the `tags` and exactly this
    `name`; `text` is looked for in the name, and at its beginning where it has less than three
    characters; `cause` is a condition on the diagnosis; `since` and `until` (not included) bound
    when it was submitted."""
    if since:
        jobs = jobs.filter(created_at__gte=since)
    if until:
        jobs = jobs.filter(created_at__lt=until)
    if cause is not None:
        jobs = jobs.filter(few_first(cause))
    if states:
        jobs = jobs.filter(state__in=states)
    if virtual_clusters:
        jobs = jobs.filter(vc__name__in=virtual_clusters)
    if owners:
        jobs = jobs.filter(owner__username__in=owners)
    if tags:
        jobs = jobs.filter(few_first(Q(tags__contains=list(tags))))
    if name:  # of whoever: one for each owner at most
        jobs = jobs.filter(few_first(Q(name=name)))
    if text:
        jobs = jobs.filter(named(text) if name else few_first(named(text)))
    return jobs


def count_up_to(jobs: QuerySet[Job], among: Sequence[Q], most: int) -> int:
    """Return the number of jobs to which one of the alternatives applies (none: of all), or
    `most` + 1 where there are more. One query, which reads at most so many rows of each."""
    # Without an order the database takes whichever index is cheapest.
    ids = jobs.order_by().values("pk")
    if not among:
        return int(ids[: most + 1].count())
    first, *others = [ids.filter(q)[: most + 1] for q in among]
    return min(int(first.union(*others).count()), most + 1)


def named(text: str) -> Q:
    """Match jobs with this text in the name; the index has no entries for less than a trigram, but
    for the beginnings of words."""
    how = "icontains" if len(text) >= TRIGRAM else "istartswith"
    return Q(**{f"name__{how}": text})


def few_first(matches: Q) -> Q:
    """Match the same jobs, one by one where they are few: the database guesses how many it will
    find on its way from the newest job to the oldest, and walks past all of them for none."""
    found = fetch_planned(Job.objects.filter(matches).order_by().values_list("pk")[: FEW + 1])
    return Q(pk__in=[pk for (pk,) in found]) if len(found) <= FEW else matches


def in_queue(job: Job) -> bool:
    """Return whether its tasks have no present attempts: not placed yet, or waiting for a retry."""
    return job.placed_at is None and job.state == JobState.WAITING


def roles_with_states(job: Job) -> list[tuple[TaskRole, dict[str, int]]]:
    """Return the roles in the order of the job file, and how many of their tasks are in each
    state."""
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
    """Select the present attempts of its tasks, without those of tasks that are tried again
    alone."""
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
    """Return the state of a task by its newest attempt (with its task). In an incremental job that
    may be one of the job's earlier attempts, or one that is tried again: the task waits then."""
    if newest is None:
        return JobState.WAITING
    return task_state(job, newest.index, newest.state, newest.task.not_before)


def task_state(job: Job, attempt: int, state: str, not_before: datetime | None) -> str:
    """Return the same by columns: of the newest attempt, and when its task is tried again."""
    if attempt != job.attempt or in_queue(job):
        return JobState.WAITING
    again = job.state in JOB.active and not_before is not None
    return JobState.WAITING if again and state in ATTEMPT.terminal else state


def tasks(job: Job, *, roles: Collection[str] = (), states: Collection[str] = ()) -> QuerySet[Task]:
    """Select the job's tasks with these roles and states; without a present attempt a task is
    WAITING."""
    rows = Task.objects.filter(job=job, index__lt=F("role__instances")).select_related("role")
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
    """Return the newest attempt of each task, by task id; one query."""
    rows = newest_of([task.pk for task in tasks]).select_related("node", "task")
    return {attempt.task_id: attempt for attempt in rows}


def newest_of(task_ids: Sequence[int]) -> QuerySet[TaskAttempt]:
    """Select the newest attempt of each task."""
    rows = TaskAttempt.objects.filter(task__in=task_ids)
    return rows.order_by("task", "-index", "-retry").distinct("task")


# Of a placement that goes on.
NO_END = {"outcome": "", "retry": "", "finished_at": None, "reason": None, "diagnosis": None}


def present_attempt(job: Job) -> dict[str, Any] | None:
    """Return the placement that goes on, in the form of those that have ended."""
    if job.placed_at is None or job.finished_at is not None:
        return None
    if JobAttempt.objects.filter(job=job, index=job.attempt).exists():
        return None
    return {
        **NO_END,
        "index": job.attempt,
        "placed_at": job.placed_at,
        "started_at": job.started_at,
        "reason": job.exit_reason,
        "diagnosis": job.diagnosis if job.exit_reason else None,
    }


def job_attempt(user: AnyUser, job: Job, index: int) -> dict[str, Any] | None:
    """Return one placement of the job as this reader may know it."""
    fields = ("index", "outcome", "retry", "placed_at", "started_at", "finished_at")
    rows = JobAttempt.objects.filter(job=job, index=index)
    found = rows.values(*fields, "reason", "diagnosis").first()
    if found is None and index == job.attempt:
        found = present_attempt(job)
    if found is None:  # its tasks are there, and its row is not written yet
        placed = TaskAttempt.objects.filter(job=job, index=index).order_by("created_at").first()
        if placed is None:
            return None
        times = {"placed_at": placed.created_at, "started_at": placed.started_at}
        return {**NO_END, "index": index, **times}
    (found["reason"],) = reasons_for_reader(user, [found["reason"]])
    return found


def events(job: Job) -> QuerySet[Event]:
    return Event.objects.filter(subject_type=Event.Subject.JOB, subject_id=str(job.pk))


def queue() -> QuerySet[Job]:
    """Select the jobs that wait for the scheduler, in the order of the queue."""
    return Job.objects.filter(
        state=JobState.WAITING, placed_at=None, stop_requested_at=None, awaits_dependencies=False
    ).order_by(F("priority").desc(), "created_at")


def placeable() -> QuerySet[Job]:
    """Select the jobs of the queue, and incremental jobs of whose tasks some have no place yet."""
    incomplete = Q(unplaced__gt=0, placed_at__isnull=False, state__in=JOB.active)
    staying = Q(preempting_at=None, exit_reason__isnull=True)
    waiting = Q(state=JobState.WAITING, placed_at=None, awaits_dependencies=False)
    return Job.objects.filter(waiting | (incomplete & staying), stop_requested_at=None)


def bad_gpus(job: Job) -> list[dict[str, Any]]:
    """Return the GPUs that the job holds and that failed, at most MOST_BAD. No query for a job
    without a placement."""
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


def jobs_on_gpus(user: AnyUser, nodes: Sequence[UUID]) -> list[JobSeen]:
    """Return the job of each GPU of these nodes that is leased now, by the UUID of the GPU."""
    leases = Lease.objects.filter(device__node__in=nodes, released_at=None)
    return _jobs_seen(user, leases, "device_id", "attempt__job")


def jobs_of_attempts(user: AnyUser, attempts: Sequence[UUID]) -> list[JobSeen]:
    """Return the job of each of these task attempts, by the id of the attempt."""
    return _jobs_seen(user, TaskAttempt.objects.filter(pk__in=attempts), "pk", "job")


def _jobs_seen(user: AnyUser, rows: QuerySet[Any], of: str, job: str) -> list[JobSeen]:
    may_see = visibility.of_jobs(user, f"{job}__")
    seen = ExpressionWrapper(may_see, output_field=BooleanField())
    columns = (of, "seen", f"{job}_id", f"{job}__name", f"{job}__vc__name")
    return [JobSeen(*row) for row in rows.annotate(seen=seen).order_by().values_list(*columns)]


def tasks_on_gpus(gpus: Sequence[str]) -> list[GpuTask]:
    """Return the task of each of these GPUs that is leased now."""
    rows = Lease.objects.filter(device__in=gpus, released_at=None).order_by("device_id")
    columns = ("device_id", "attempt__job_id", "attempt__role__name", "attempt__task__index")
    return [
        GpuTask(gpu, job_id, f"{role}-{index}")
        for gpu, job_id, role, index in rows.values_list(*columns)
    ]


def leased_gpus() -> QuerySet[Lease, str]:
    """Select the UUIDs of the GPUs that are leased now."""
    return Lease.objects.filter(released_at=None).values_list("device_id", flat=True)


def attempts_on(node: Any) -> QuerySet[TaskAttempt]:
    """Select the task attempts that are not released on a node (its id, or an expression)."""
    return TaskAttempt.objects.filter(node=node, released_at=None)


def gpus_in_use(virtual_clusters: Sequence[UUID]) -> list[tuple[UUID, str, int]]:
    """Return how many GPUs of which model each of these virtual clusters uses."""
    leases = Lease.objects.filter(attempt__job__vc__in=virtual_clusters, released_at=None)
    rows = leases.values_list("attempt__job__vc_id", "device__model").order_by()
    return list(rows.annotate(gpus=Count("device", distinct=True)))


def jobs_in(virtual_cluster: UUID) -> int:
    """Return how many jobs were ever submitted to a virtual cluster, as far as they are known."""
    archived = archive.ArchivedJob.objects.filter(vc=virtual_cluster).count()
    return Job.objects.filter(vc=virtual_cluster).count() + archived


def goes_on(job_id: UUID) -> bool:
    """Return whether a job exists and has not ended. One query."""
    return Job.objects.filter(pk=job_id, finished_at=None).exists()


Names = Mapping[str, str]
# Of a job's row: reasons that may be about other jobs.
REASONS = ("wait_reason", "downgraded", "exit_reason")
# What older rows have beside or instead of ids.
OLDER = ("name", "by_name", "virtual_cluster", "named")


def jobs_for_reader(user: AnyUser, jobs: Sequence[Job]) -> Sequence[Job]:
    """Return the jobs with the reasons in their rows as this reader may know them; one query, and
    only where reasons mention other jobs. The rows are to be shown, not saved."""
    reasons = [reason for job in jobs for name in REASONS if (reason := getattr(job, name))]
    names = _names_in(user, (reason["details"] for reason in reasons))
    for job in jobs:
        for name in REASONS:
            setattr(job, name, _reason_for(getattr(job, name), names))
        if job.owner_id == user.pk:
            job.wait_reason = to_owner(job.wait_reason)
    return jobs


def reasons_for_reader(user: AnyUser, reasons: Sequence[Reason | None]) -> list[Reason | None]:
    """Return the reasons, which may be None, as this reader may know them."""
    names = _names_in(user, (reason["details"] for reason in reasons if reason))
    return [_reason_for(reason, names) for reason in reasons]


def events_for_reader(user: AnyUser, events: Sequence[Event]) -> list[Event]:
    """Return the events of a job as this reader may know them. Nothing is stored."""
    names = _names_in(user, (event.data for event in events))
    for event in events:
        code = messages.code_of_event(event.kind, event.data)
        event.message = _message_for(code, event.message, event.data, names)
        event.data = _details_for(event.data, names)
    return list(events)


def _names_in(user: AnyUser, details: Iterable[Mapping[str, Any]]) -> Names:
    return names_for(user, {pk for one in details for pk in _job_ids(one)})


def _job_ids(details: Mapping[str, Any]) -> set[str]:
    """Return the ids of the jobs in it; `by` is a user where a user stopped the job."""
    return {pk for pk in mentioned(details) if UUID_TEXT.fullmatch(pk)}


UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _reason_for(reason: Reason | None, names: Names) -> Reason | None:
    if reason is None:
        return None
    details = reason["details"]
    if not _job_ids(details):
        if reason["code"] != messages.NEVER_HOLDS:
            return reason
        details = {}  # of an older version: it has the name of the other job
    message = _message_for(reason["code"], reason["message"], details, names)
    return {**reason, "message": message, "details": _details_for(details, names)}


def to_owner(reason: Reason | None) -> Reason | None:
    """Address the owner of a job, where a reason is about what its owner holds."""
    if reason is None or reason["code"] not in (Code.USER_GPU_LIMIT, Code.USER_JOB_LIMIT):
        return reason
    details = {**reason["details"], "owner": ""}
    return {**reason, "message": sentences.sentence(reason["code"], details), "details": details}


def _message_for(code: str, message: str, details: Mapping[str, Any], names: Names) -> str:
    if "told_at" in details and "needs" in details:  # the scheduler's: why it waits
        return sentences.sentence(code, details, names)
    return messages.for_reader(code, message, details, names)


def _details_for(details: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the details with ids and names of those jobs only that the reader may see."""
    ids = _job_ids(details)
    if not ids:
        return dict(details)
    shown = {key: value for key, value in details.items() if key not in OLDER}
    if "used_by" in details:
        shown["used_by"] = [_holder(holder, names) for holder in details["used_by"]]
    for key in ("leaving", "victims"):
        if isinstance(details.get(key), list):
            shown[key] = [names.get(pk) for pk in details[key]]
    if (by := details.get("by")) in ids:
        del shown["by"]
        if by in names:
            shown |= {"by": by, "by_name": names[by]}
        else:
            shown.pop("state", None)  # of that job
    return shown


def _holder(holder: Mapping[str, Any], names: Names) -> dict[str, Any]:
    gang = holder["gang"] if holder["gang"] in names else None
    return {**holder, "gang": gang, "name": names.get(holder["gang"])}
