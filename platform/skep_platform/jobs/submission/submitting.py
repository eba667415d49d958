"""From a job file to a waiting job, in one transaction."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, connection, transaction

from skep_agent import tracing
from skep_jobfile import STORAGE, Issue, JobFile, Problem
from skep_jobfile import TaskRole as FileRole
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.audit.models import AuditEntry
from skep_platform.core import caller, notifications, ports, user_events
from skep_platform.core.bulk import fetch, insert
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import event, record
from skep_platform.core.models import Event
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle import dependencies, messages
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.jobs.submission import (
    admission,
    allowances,
    attachments,
    deadline,
    followers,
    registry_check,
    storages,
    virtual_cluster,
)
from skep_platform.jobs.submission.attachments import Attachments
from skep_platform.jobs.submission.bounds import tidy
from skep_platform.jobs.submission.job_file import (
    InvalidJobFile,
    ReadJob,
    converted,
    examine,
)
from skep_platform.jobs.submission.prediction import command_key, predict
from skep_platform.jobs.submission.storages import AskedStorages
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.inventory import gpu_model

log = structlog.get_logger(__name__)

MAX_TOKEN = 64
MAX_NOTES = 20  # notes in the event of the submit


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a submit would answer. `forecast`: when it would start, as a reason; `notes`: what its
    author should know of a good file."""

    errors: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    forecast: Reason | None = None

    @property
    def valid(self) -> bool:
        return not self.errors


def submit(user: User, text: str, *, client_token: str = "", ignore_storage: bool = False) -> Job:
    """Create a job in state WAITING from a job file. A submit that is repeated with the same
    `client_token` returns the same job. `ignore_storage` accepts a job whose storages are not
    mounted, as `extras.skep.ignoreStorages` in the file does.

    Raises InvalidJobFile, NotFound `unknown_virtual_cluster` and `storage_not_found`, Forbidden
    `storage_forbidden`, SkepError `storage_not_mounted` or with the code of an issue
    (`storage_path_invalid`, `exceeds_quota`, `exceeds_node`, `unknown_sku_type`,
    `image_not_found`, `unknown_archive`, `deadline_cannot_be_met`, …), Conflict `job_name_taken`
    and `client_token_reused`, TooMany with the code of a limit."""
    _check_token(client_token)
    digest = digest_of(text)
    if client_token and (known := _submitted(user, client_token, digest)):
        return known
    spec = examine(text, user.pk)
    if spec.errors:
        raise InvalidJobFile(_all_problems(spec, _issues(user, spec)[1]))
    ignore_storage = ignore_storage or spec.job.extras.skep.ignore_storages
    if not ignore_storage:
        _refuse_lost_storage(spec)
    vc, asked = admitted(user, spec, ignore_storage=ignore_storage)
    with_it, issue = attachments.of(user, spec)
    if issue:
        raise refusal(issue)
    job = new_row(user, vc, spec)
    job.spec_digest, job.client_token = digest, client_token
    allowances.take(user, vc, spec.job.tasks)
    images = registry_check.look(user, vc, spec)
    for issue in images.refused:
        raise refusal(issue)
    spec.notes.extend(images.note_problems())
    admit_deadline(job, spec)
    try:
        return create(job, spec, with_it, asked)
    except IntegrityError:
        if client_token and (known := _submitted(user, client_token, digest)):
            return known
        raise name_taken(spec.job.name) from None


def _refuse_lost_storage(spec: ReadJob) -> None:
    """Refuse a job that would write into a folder which is lost with its container. Raises
    SkepError."""
    lost = [note for note in spec.notes if note.code == STORAGE]
    if lost:
        message = (
            f"{lost[0].message} Remove it from the job file, or submit the job without that "
            "storage: set extras.skep.ignoreStorages to true (skep submit --ignore-storage)."
        )
        raise SkepError(message, code=STORAGE, errors=[note.as_dict() for note in lost])


def check(user: User, text: str) -> CheckResult:
    """Return what is wrong with a job file, and when it would start. Changes nothing. Raises
    TooMany."""
    with allowances.checking(user):
        return _checked(user, text)


def _checked(user: User, text: str) -> CheckResult:
    try:
        spec = examine(text, user.pk)
    except InvalidJobFile as error:
        return CheckResult(error.problems)
    vc, found = _issues(user, spec)
    if spec.errors:
        return CheckResult(_all_problems(spec, found))
    notes = []
    if vc is not None and not found:
        images = registry_check.look(user, vc, spec)
        found, notes = images.refused, spec.problems(images.notes)
    forecast = None
    if vc is not None and not found:
        job = new_row(user, vc, spec)
        forecast = _forecast(job, spec)
        late = deadline.issue_of(job, forecast)
        if late is not None and deadline.admission_of(vc) == deadline.REFUSE:
            found = [late]
        elif late is not None:
            notes = [*notes, *spec.problems([late])]
    return CheckResult(
        _all_problems(spec, found),
        [*spec.notes, *notes],
        _summary(spec, vc),
        forecast if not found else None,
    )


def admit_deadline(job: Job, spec: ReadJob) -> None:
    """Note that the deadline of a job cannot be met, or refuse the job for it, as its virtual
    cluster says. The scheduler is asked for a job with a deadline only. Raises SkepError
    `deadline_cannot_be_met`."""
    if job.deadline_at is None:
        return
    late = deadline.issue_of(job, _forecast(job, spec))
    if late is None:
        return
    if deadline.admission_of(job.vc) == deadline.REFUSE:
        raise refusal(late)
    spec.notes.extend(spec.problems([late]))


def convert(user: User, text: str, format: str) -> dict[str, Any]:
    """Make a job file out of a Slurm script or a Kubeflow manifest: `text` and `notes`. Raises
    InvalidJobFile and TooMany."""
    with allowances.checking(user):
        return converted(text, format, user.pk)


def _issues(user: User, spec: ReadJob) -> tuple[VirtualCluster | None, list[Issue]]:
    """Return the virtual cluster of the job, and why it cannot become a job there."""
    job = spec.job
    vc = virtual_cluster.find(user, job)
    if vc is None:
        found = [admission.unknown_vc(user, job)]
    else:
        found = [*allowances.issues(user, job, vc), *admission.issues(job, vc)]
        asked = storages.of(user, job, vc)
        found += [*asked.wrong, *([] if job.extras.skep.ignore_storages else asked.missing)]
    found += dependencies.issues(user, job)
    if Job.objects.filter(owner=user, name=job.name).exists():
        found.append(Issue("job_name_taken", name_taken(job.name).message, ("name",)))
    if issue := attachments.of(user, spec)[1]:
        found.append(issue)
    return vc, found


def _all_problems(spec: ReadJob, issues: list[Issue]) -> list[Problem]:
    """Return all that is wrong with the file, in the order of the text."""
    found = [*spec.errors, *spec.problems(issues)]
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def admitted(
    user: User, spec: ReadJob, *, ignore_storage: bool
) -> tuple[VirtualCluster, AskedStorages]:
    """Return the virtual cluster of a job that is accepted, and the storages that it mounts. Raises
    what `submit` does."""
    vc = virtual_cluster.find(user, spec.job)
    if vc is None:
        raise refusal(admission.unknown_vc(user, spec.job))
    for issue in (
        *allowances.issues(user, spec.job, vc),
        *admission.issues(spec.job, vc),
        *dependencies.issues(user, spec.job),
    ):
        raise refusal(issue)
    asked = storages.of(user, spec.job, vc)
    for issue in (*asked.wrong, *([] if ignore_storage else asked.missing)):
        raise refusal(issue)
    return vc, asked


def refusal(issue: Issue) -> SkepError:
    """Return the error with which a submit answers for the first issue that it finds."""
    kind = REFUSALS.get(issue.code, SkepError)
    return kind(issue.message, code=issue.code, **issue.details)


REFUSALS = {
    "unknown_virtual_cluster": NotFound,
    storages.NOT_FOUND: NotFound,
    storages.NO_DATASET: NotFound,
    storages.FORBIDDEN: Forbidden,
}


def create(
    job: Job, spec: ReadJob, with_it: Attachments, asked: AskedStorages, *, clone_of: str = ""
) -> Job:
    """Store the row of a new job and all that belongs to it. Raises IntegrityError."""
    about: dict[str, tracing.Value] = {"skep.job.id": str(job.pk), "skep.gpus": job.gpus}
    about["skep.vc"] = job.vc.name
    with tracing.span("job.submit", None, about) as span:
        job.trace_parent, job.request_id = span.traceparent, caller.current().request_id[:64]
        _store(job, spec, with_it, asked, clone_of)
    log.info("job_submitted", job_id=str(job.pk), vc=job.vc.name, gpus=job.gpus)
    return job


def _store(
    job: Job, spec: ReadJob, with_it: Attachments, asked: AskedStorages, clone_of: str
) -> None:
    images = admission.image_references(spec.job, job.vc)
    scope = spec.job.extras.skep.token_scope
    with transaction.atomic():
        followers.follow(job.owner, job)
        insert_job(
            job,
            role_rows(job, spec, images),
            _submitted_event(job, spec, clone_of),
            _audit_entry(job, clone_of, scope),
        )
        if scope:
            followers.give_token(job, scope)
        with_it.store(job, images)
        asked.store(job)
        dependencies.store(job, spec.job)
        if spec.job.extras.skep.apps:
            ports.store_apps.call(job)
        lost = [note.message for note in spec.notes if note.code == STORAGE]
        lost += [f"{issue.message} It is not mounted." for issue in asked.missing]
        if lost:
            message = f"Warning: {' '.join(lost[:MAX_NOTES])}"
            record("job", job.pk, "job.storage_not_mounted", message)
        notifications.notify_scheduler()
        notifications.notify_topic("jobs")


def digest_of(text: str) -> str:
    """Return a digest of the text. It is keyed, so that a reader of it cannot guess the secrets of
    short files."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def name_taken(name: str) -> Conflict:
    message = f"You have a job named {name} already; names are not used again. Choose another."
    return Conflict(message, code="job_name_taken", name=name)


def _forecast(job: Job, spec: ReadJob) -> Reason | None:
    if job.awaits_dependencies:
        return job.wait_reason
    if (begins := messages.begin_time(job.not_before)) is not None:
        return begins
    return queries.to_owner(ports.forecast_start.call(job, role_rows(job, spec, defaultdict(str))))


def _submitted(user: User, client_token: str, digest: str) -> Job | None:
    job = (
        Job.objects.filter(owner=user, client_token=client_token)
        .select_related("owner", "vc")
        .first()
    )
    if job is not None and job.spec_digest != digest:
        message = "This idempotency key was used for another job file; take a new one."
        raise Conflict(message, code="client_token_reused", job_id=str(job.pk))
    return job


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


def _check_token(client_token: str) -> None:
    if len(client_token) > MAX_TOKEN or not client_token.isprintable():
        message = f"An idempotency key has at most {MAX_TOKEN} printable characters."
        raise SkepError(message, code="client_token_invalid")


def _summary(spec: ReadJob, vc: VirtualCluster | None) -> dict[str, Any]:
    job = spec.job
    return {
        "name": job.name,
        "virtual_cluster": vc.name if vc else job.defaults.virtual_cluster,
        "gpus": job.gpus,
        "tasks": job.tasks,
    }


TASKS = """
INSERT INTO jobs_task (job_id, role_id, "index", rank, retries_used)
SELECT roles.job_id, roles.id, i, roles.first_rank + i, 0
  FROM (SELECT *, sum(instances) OVER (ORDER BY position) - instances AS first_rank
          FROM inserted_roles) AS roles,
       generate_series(0, roles.instances - 1) AS i
"""


def insert_job(job: Job, roles: Sequence[TaskRole], queued: Event, audited: AuditEntry) -> None:
    """Insert a job with its roles, its tasks, its first event and its entry of the audit log.
    Foreign keys are checked at commit, so that one statement may hold them all. The job gets its
    times, which are the database's. Raises IntegrityError."""
    job_sql, job_row = insert([job])
    roles_sql, role_rows = insert(roles)
    event_sql, event_row = insert([queued])
    entry_sql, entry_row = insert([audited])
    sql = (
        f"WITH inserted_job AS ({job_sql} RETURNING *), "  # noqa: S608 no values
        f"inserted_roles AS ({roles_sql} RETURNING *), inserted_event AS ({event_sql}), "
        f"inserted_entry AS ({entry_sql}), inserted_tasks AS ({TASKS}) "
        "SELECT created_at, updated_at FROM inserted_job"
    )
    [(job.created_at, job.updated_at)] = fetch(sql, [job_row, role_rows, event_row, entry_row])
    job._state.adding = False
    job._state.db = connection.alias
    job.new_roles = roles


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
    return Job(
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
        TaskRole(
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


def words(job: Job) -> str:
    """Return the size of a job in words."""
    tasks = "1 task" if job.tasks_total == 1 else f"{job.tasks_total} tasks"
    gpus = "no GPU" if not job.gpus else "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
    return f"{tasks}, {gpus}"
