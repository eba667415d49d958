"""The rows of a new job out of its job file, and how they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import structlog
from django.db import DataError, IntegrityError, InternalError, connection, transaction

from skep_agent import tracing
from skep_jobfile import STORAGE, JobFile
from skep_jobfile import TaskRole as FileRole
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.audit.models import AuditEntry
from skep_platform.core import caller, notifications, ports, user_events
from skep_platform.core.bulk import fetch, insert, new
from skep_platform.core.events import event, record
from skep_platform.core.group_commit import Expected, GroupCommit
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import dependencies, messages
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.jobs.submission import admission, allowances, followers
from skep_platform.jobs.submission.attachments import Attachments
from skep_platform.jobs.submission.bounds import tidy
from skep_platform.jobs.submission.job_file import ReadJob
from skep_platform.jobs.submission.prediction import command_key, predict
from skep_platform.jobs.submission.storages import AskedStorages
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.inventory import gpu_model

log = structlog.get_logger(__name__)

MAX_NOTES = 20  # notes in the event of the submit
DEFAULT_STOP_GRACE_S = 30
MAX_COUNT = 2**31 - 1  # what a column holds; a count beyond all tasks means never
# Never stored: secrets, and how to log in at registries.
SECRET: Any = {"secrets": True, "prerequisites": {"__all__": {"auth"}}}


def new_row(user: User, vc: VirtualCluster, spec: ReadJob) -> Job:
    """Return the row of a new job, not stored yet, with what is known of how long it runs."""
    job = job_row(user, vc, spec)
    if found := predict(user, job.name, job.command_key, job.gpus):
        job.prediction = found.as_json()
        # What the owner declares says more than jobs that only had as many GPUs.
        if found.source != "gpus" or job.duration_s is None:
            job.predicted_s = found.median_s
    job.max_duration_s = allowances.longest(vc, job.max_duration_s)
    return job


def job_row(user: User, vc: VirtualCluster, read: ReadJob) -> Job:
    """Return the row of a new job out of its job file, not stored yet. No query."""
    spec, skep = read.job, read.job.extras.skep
    files = skep.working_files
    return new(
        Job,
        name=spec.name,
        owner=user,
        vc=vc,
        priority_class=str(spec.priority_class),
        priority=spec.priority,
        spec_text=read.spec_text,
        spec=spec.model_dump(mode="json", exclude_none=True, exclude=SECRET),
        tags=tidy(spec.extras.tags),
        gpus=spec.gpus,
        tasks_total=spec.tasks,
        visibility=skep.visibility or "",
        notified_events=_notified_events(spec),
        duration_s=skep.duration,
        command_key=command_key(spec),
        max_duration_s=skep.max_duration,
        deadline_at=skep.deadline,
        network_mode=skep.network or "",
        rdma=any(role.infiniband for role in spec.task_roles.values()),
        environment=read.environment,
        work_dir=skep.work_dir or (files.path if files else ""),
        barrier_s=skep.barrier,
        incremental=spec.incremental,
        awaits_dependencies=bool(skep.depends_on),
        not_before=skep.begin,
        wait_reason=dependencies.wait_reason(spec) or messages.begin_time(skep.begin),
        lazy_preemption=spec.lazy_preemption,
        pinned_cell=spec.pinned_cell,
        preemptible=skep.preemptible,
        within=skep.within_one_cell or "",
        stop_grace_s=min(DEFAULT_STOP_GRACE_S, vc.max_stop_grace_s)
        if skep.stop_grace is None
        else skep.stop_grace,
        checkpoint_signal=skep.checkpoint.signal if skep.checkpoint else "",
        checkpoint_grace_s=skep.checkpoint.grace if skep.checkpoint else 0,
        metrics_rank=spec.metrics_rank,
    )


def _notified_events(spec: JobFile) -> int:
    wanted = spec.extras.job_status_change_notification
    names = {
        "job.started": wanted.running,
        "job.succeeded": wanted.succeeded,
        "job.stopped": wanted.stopped,
        "job.failed": wanted.failed,
        "job.retried": wanted.retried,
    }
    return user_events.mask(name for name, on in names.items() if on)


def role_rows(job: Job, read: ReadJob, images: Mapping[str, str]) -> list[TaskRole]:
    """Return the rows of its roles, not stored yet. `images` has the reference to pull, by uri."""
    spec = read.job
    return [
        new(
            TaskRole,
            job=job,
            name=name,
            position=position,
            instances=role.instances,
            gpus=role.resource_per_instance.gpu,
            gpu_model=gpu_model(spec.sku_of(name)),
            cell_type=spec.demand_of(name).cell_type or "",
            cells=spec.demand_of(name).cells,
            within=spec.demand_of(name).cell,
            affinity_group=spec.demand_of(name).affinity_group_name or "",
            cpu_millis=max(round(role.resource_per_instance.cpu * 1000), 1),
            memory_mb=role.resource_per_instance.memory_mb,
            shm_mb=role.shm_mb,
            parallelism=spec.parallelism_of(name),
            rdma=role.infiniband,
            ports=_ports(role),
            image=images[spec.image_of(role).uri],
            command=read.commands[name],
            min_failed=min(role.min_failed, MAX_COUNT),
            min_succeeded=min(role.min_succeeded, MAX_COUNT),
            task_retries=max(min(role.task_retry_count, MAX_COUNT), -2) if spec.incremental else 0,
            elastic_min=elastic.min if (elastic := spec.elastic_of(name)) else None,
            elastic_max=elastic.max if elastic else None,
            asked_instances=role.instances if elastic else None,
        )
        for position, (name, role) in enumerate(spec.task_roles.items())
    ]


def _ports(role: FileRole) -> dict[str, int]:
    """Return the ports that were asked for; each task has some more."""
    asked = role.resource_per_instance
    return asked.ports if "ports" in asked.model_fields_set else {}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A new job, not stored yet, and what is stored with it."""

    job: Job
    spec: ReadJob
    with_it: Attachments
    asked: AskedStorages


def create(
    job: Job, spec: ReadJob, with_it: Attachments, asked: AskedStorages, *, clone_of: str = ""
) -> Job:
    """Store the row of a new job and all that belongs to it. Raises IntegrityError."""
    with _submitting(job):
        _store(Prepared(job, spec, with_it, asked), clone_of)
    log.info("job_submitted", job_id=str(job.pk), vc=job.vc.name, gpus=job.gpus)
    return job


def create_all(new: Sequence[Prepared]) -> bool:
    """Store new jobs with one statement. Return False where nothing is stored: one of them cannot
    be, or needs more than that statement."""
    if not all(_is_alone(one, _lost_storages(one)) for one in new):
        return False
    rows = []
    for one in new:
        with _submitting(one.job):
            images = admission.image_references(one.spec.job, one.job.vc)
            rows.append(_rows(one.job, one.spec, images, "", None))
    try:
        with transaction.atomic():
            _insert_and_notify(rows)
    except IntegrityError:
        return False
    for one in new:
        job = one.job
        log.info("job_submitted", job_id=str(job.pk), vc=job.vc.name, gpus=job.gpus)
    return True


@contextmanager
def _submitting(job: Job) -> Iterator[None]:
    """Trace what is done inside as the submit of the job, which gets the ids of it."""
    about: dict[str, tracing.Value] = {"skep.job.id": str(job.pk), "skep.gpus": job.gpus}
    about["skep.vc"] = job.vc.name
    with tracing.span("job.submit", None, about) as span:
        job.trace_parent, job.request_id = span.traceparent, caller.current().request_id[:64]
        yield


def _lost_storages(new: Prepared) -> list[str]:
    """Return why storages of a new job are not mounted."""
    lost = [note.message for note in new.spec.notes if note.code == STORAGE]
    return lost + [f"{issue.message} It is not mounted." for issue in new.asked.missing]


def _is_alone(new: Prepared, lost: Sequence[str]) -> bool:
    """Return whether the statement that inserts a job stores all of it. That one is a transaction
    by itself: one around it would cost two more round trips."""
    skep, job = new.spec.job.extras.skep, new.job
    more = skep.token_scope or new.with_it.any or new.asked.found or job.awaits_dependencies
    return not (more or lost or skep.apps or followers.is_follower(job.owner))


def _store(new: Prepared, clone_of: str) -> None:
    job, spec = new.job, new.spec
    images = admission.image_references(spec.job, job.vc)
    scope = spec.job.extras.skep.token_scope
    lost = _lost_storages(new)
    alone = _is_alone(new, lost)
    if alone and not connection.in_atomic_block:
        _group_commit(job.vc_id).run(_rows(job, spec, images, clone_of, scope))
        return
    with transaction.atomic():
        followers.follow(job.owner, job)
        insert_jobs([_rows(job, spec, images, clone_of, scope)])
        if not alone:
            _store_more(job, spec, new.with_it, new.asked, images, lost)
        notifications.notify_queue()


def _rows(
    job: Job, spec: ReadJob, images: Mapping[str, str], clone_of: str, scope: str | None
) -> NewJob:
    return NewJob(
        job,
        role_rows(job, spec, images),
        _submitted_event(job, spec, clone_of),
        _audit_entry(job, clone_of, scope),
    )


@lru_cache(maxsize=1_000)
def _group_commit(_: UUID) -> GroupCommit[NewJob]:
    """Return what stores jobs that are submitted to a virtual cluster at the same time. Those of
    another one do not wait while its row is locked."""
    errors = (IntegrityError, DataError, InternalError)
    return GroupCommit(_insert_and_notify, errors, expected=_submits)


_submits = Expected()


def about_to_store() -> AbstractContextManager[None]:
    """Announce that a job is about to be stored inside: the next ones that are stored wait for it,
    if only for a moment."""
    return _submits.announced()


def _insert_and_notify(rows: Sequence[NewJob]) -> None:
    insert_jobs(rows)
    notifications.notify_queue()


def _store_more(
    job: Job,
    spec: ReadJob,
    with_it: Attachments,
    asked: AskedStorages,
    images: Mapping[str, str],
    lost: Sequence[str],
) -> None:
    """Store what only some jobs have. `lost`: why storages are not mounted."""
    if scope := spec.job.extras.skep.token_scope:
        followers.give_token(job, scope)
    with_it.store(job, images)
    asked.store(job)
    dependencies.store(job, spec.job)
    if spec.job.extras.skep.apps:
        ports.store_apps.call(job)
    if lost:
        message = f"Warning: {' '.join(lost[:MAX_NOTES])}"
        record("job", job.pk, "job.storage_not_mounted", message)


@dataclass(frozen=True, slots=True)
class NewJob:
    """The rows of a job that is not stored yet: itself, its roles, its first event and its entry of
    the audit log."""

    job: Job
    roles: Sequence[TaskRole]
    queued: Event
    audited: AuditEntry


TASKS = """
INSERT INTO jobs_task (job_id, role_id, "index", rank, retries_used)
SELECT roles.job_id, roles.id, i, roles.first_rank + i, 0
  FROM (SELECT *, sum(instances) OVER (PARTITION BY job_id ORDER BY position) - instances
               AS first_rank
          FROM inserted_roles) AS roles,
       generate_series(0, roles.instances - 1) AS i
"""


def insert_jobs(new_jobs: Sequence[NewJob]) -> None:
    """Insert jobs with all of their rows and their tasks: all of them or none. Foreign keys are
    checked at commit, so that one statement may hold them all. The jobs get their times, which are
    the database's. Raises IntegrityError."""
    job_sql, job_rows = insert([one.job for one in new_jobs])
    roles_sql, role_rows = insert([role for one in new_jobs for role in one.roles])
    event_sql, event_rows = insert([one.queued for one in new_jobs])
    entry_sql, entry_rows = insert([one.audited for one in new_jobs])
    found = fetch(
        _insert_all(job_sql, roles_sql, event_sql, entry_sql),
        [job_rows, role_rows, event_rows, entry_rows],
    )
    times = {pk: (created, updated) for pk, created, updated in found}
    for one in new_jobs:
        job = one.job
        job.created_at, job.updated_at = times[job.pk]
        job._state.adding = False
        job._state.db = connection.alias
        job.new_roles = one.roles


@lru_cache
def _insert_all(job_sql: str, roles_sql: str, event_sql: str, entry_sql: str) -> str:
    return (
        f"WITH inserted_job AS ({job_sql} RETURNING *), "  # noqa: S608 no values
        f"inserted_roles AS ({roles_sql} RETURNING *), inserted_event AS ({event_sql}), "
        f"inserted_entry AS ({entry_sql}), inserted_tasks AS ({TASKS}) "
        "SELECT id, created_at, updated_at FROM inserted_job"
    )


def _submitted_event(job: Job, spec: ReadJob, clone_of: str) -> Event:
    origin = f", a clone of {clone_of}" if clone_of else ""
    origin += ", by another job of its owner" if job.parent_id else ""
    message = f"Submitted to {job.vc.name}{origin}: {words(job)}. It waits for a place."
    notes = [f"{note.path}: {note.message}" for note in spec.notes[:MAX_NOTES]]
    if notes:
        message += f" Please note: {' '.join(notes)}"
    data = {"notes": notes} if notes else {}
    actor = job.owner.get_username()
    return event("job", job.pk, "job.queued", message, actor=actor, **data)


def _audit_entry(job: Job, clone_of: str, api_token: str | None) -> AuditEntry:
    action = "job.clone" if clone_of else "job.submit"
    facts = {"gpus": job.gpus, "tasks": job.tasks_total, "priority": job.priority}
    origin: dict[str, Any] = {"clone_of": clone_of} if clone_of else {}
    origin |= {"parent": str(job.parent_id)} if job.parent_id else {}
    origin |= {"api_token": api_token} if api_token else {}
    return audit.entry(action, "job", job.pk, job.name, vc=job.vc, after=facts, **origin)


def words(job: Job) -> str:
    """Return the size of a job in words."""
    tasks = "1 task" if job.tasks_total == 1 else f"{job.tasks_total} tasks"
    gpus = "no GPU" if not job.gpus else "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
    return f"{tasks}, {gpus}"
