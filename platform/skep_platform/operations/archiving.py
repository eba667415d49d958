"""Moving finished jobs to the archive, and deleting archived ones whose time is over.

A job is moved `SKEP_JOB_ARCHIVE_DAYS` after its end, and not before its logs and its samples by the
minute were deleted by their own retention: no byte of a log is left without a row, and no batch has
many samples to delete. It stays while anything still counts on it: a task attempt that is not
released, a lease whose GPU time is not counted for good, a job that waits for it or was submitted
by it and has not ended.

A batch is one transaction with a constant number of statements. It writes the rows of the archive
and deletes all rows of the jobs. GPU time goes on in the sums of users and virtual clusters, use of
GPUs as samples of the GPUs alone; events and audit entries have a retention of their own.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Model, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from skep_jobfile.addresses import without_credentials
from skep_platform.core import notifications
from skep_platform.core.bulk import deletion_time, fetch
from skep_platform.core.failures import is_of_all, is_undone
from skep_platform.core.models import Event
from skep_platform.interactive.models import App, AppSession
from skep_platform.jobs import queries
from skep_platform.jobs.archive import ArchivedJob
from skep_platform.jobs.image_saves import ImageSave
from skep_platform.jobs.models import (
    GangNetwork,
    Job,
    JobApiToken,
    JobAttempt,
    JobDependency,
    JobFiles,
    JobSecrets,
    JobShare,
    JobStorage,
    Lease,
    PortLease,
    RankChange,
    Task,
    TaskAttempt,
    TaskRole,
)
from skep_platform.jobs.states import JOB
from skep_platform.scheduling.models import (
    AttainedService,
    ExpectedStart,
    Nomination,
    PreemptionCooldown,
    ReservedStart,
)
from skep_platform.telemetry import downsampling
from skep_platform.telemetry.models import JobUse, MetricLog, TaskHistory, TaskRollup, UserMetric
from skep_platform.usage import counting
from skep_platform.usage.models import JobUsage

log = structlog.get_logger(__name__)

LOCK = 0x5CEF  # of PostgreSQL's advisory locks: one process at a time
JOBS = 200  # at most in one batch
ROWS = 20_000  # of task attempts and samples that a batch deletes, about; one job may have more
BUDGET_S = 30.0  # per run; the next one goes on
DELETED = 1000  # archived jobs that one statement deletes
# Of a record, beside the job file, which has a limit of its own (SKEP_MAX_SPEC_BYTES).
MOST_BYTES = 256 * 1024
ROLES, ATTEMPTS, NODES, EVENTS, TEXT = 100, 100, 100, 200, 2000
USE = (*("gpu_hours", "gpu_utilization", "gpu_memory_peak_mb", "cpu_percent", "memory_peak_mb"),)

# What is deleted with a job: each model, and its column that leads to the job or to one of the
# rows that are found by the job. Those that refer to others come before them.
OF_ATTEMPTS: tuple[tuple[type[Model], str], ...] = (
    (TaskRollup, "attempt"),
    (TaskHistory, "attempt"),
    (Lease, "attempt"),
    (PortLease, "attempt"),
)
OF_JOBS: tuple[tuple[type[Model], str], ...] = (
    *((model, "job") for model in (UserMetric, MetricLog, JobUse, JobUsage)),
    *((model, "job") for model in (AttainedService, Nomination, PreemptionCooldown)),
    *((model, "job") for model in (ExpectedStart, ReservedStart)),
    *((model, "job") for model in (App, GangNetwork, TaskAttempt, Task, TaskRole, JobAttempt)),
    *((model, "job") for model in (RankChange, JobShare, JobStorage, JobFiles, JobApiToken)),
    *((JobSecrets, "job"), (JobDependency, "job"), (JobDependency, "upstream")),
)

DUE = """
SELECT j.id, j.tasks_total * greatest(j.attempt, 1) + octet_length(j.spec_text) / 1000
           + coalesce(u.gpu_hours, 0)
  FROM jobs_job j LEFT JOIN telemetry_jobuse u ON u.job_id = j.id
 WHERE j.finished_at < %(before)s AND j.state = ANY(%(ended)s)
   AND j.id <> ALL(%(left_out)s::uuid[])
   AND j.logs_deleted_at IS NOT NULL AND j.use_counted AND j.diagnosing_at IS NULL
   AND NOT EXISTS (SELECT FROM telemetry_logchunk c WHERE c.job_id = j.id)
   AND NOT EXISTS (SELECT FROM jobs_taskattempt a WHERE a.job_id = j.id AND a.released_at IS NULL)
   AND NOT EXISTS (SELECT FROM jobs_taskattempt a JOIN jobs_lease l ON l.attempt_id = a.id
                    WHERE a.job_id = j.id
                      AND (l.released_at IS NULL OR l.counted_until IS NULL
                           OR l.counted_until <> l.released_at))
   AND NOT EXISTS (SELECT FROM jobs_taskattempt a JOIN jobs_portlease p ON p.attempt_id = a.id
                    WHERE a.job_id = j.id AND p.released_at IS NULL)
   AND NOT EXISTS (SELECT FROM jobs_jobdependency d JOIN jobs_job w ON w.id = d.job_id
                    WHERE d.upstream_id = j.id AND w.finished_at IS NULL)
   AND NOT EXISTS (SELECT FROM jobs_job f WHERE f.parent_id = j.id AND f.finished_at IS NULL)
 ORDER BY j.finished_at, j.id LIMIT %(most)s
   FOR UPDATE OF j SKIP LOCKED
"""

PLACES = """
SELECT job_id, index, array_length(nodes, 1), nodes[1:%s]
  FROM (SELECT a.job_id, a.index, array_agg(DISTINCT n.name ORDER BY n.name) AS nodes
          FROM jobs_taskattempt a JOIN cluster_node n ON n.id = a.node_id
         WHERE a.job_id = ANY(%s::uuid[]) GROUP BY 1, 2) placed
"""


def archive_old() -> int:
    """Move jobs whose time has come, oldest first, for a bounded time; return how many. Two runs at
    once do no harm: one of them does nothing."""
    before = archived_before()
    if before is None:
        return 0
    until, moved = time.monotonic() + BUDGET_S, 0
    most, left_out = JOBS, list[UUID]()
    while time.monotonic() < until:
        taken: list[UUID] = []
        try:
            _archive_some(before, most, left_out, taken)
        except Exception as error:
            undone = is_undone(error)  # by another transaction: none of the jobs is to blame
            if not taken or (is_of_all(error) and not undone):
                raise
            if len(taken) == 1 and not undone:  # it stays, and those behind it are moved
                log.exception("job_not_archived", job_id=str(taken[0]))
                left_out.append(taken[0])
            most = max(len(taken) // 2, 1)
            continue
        if not taken:
            break
        moved, most = moved + len(taken), JOBS if most == JOBS else min(2 * most, JOBS)
    return moved


def archived_before() -> datetime | None:
    """Return when a job must have ended to be archived now; None: none is."""
    days = settings.SKEP_JOB_ARCHIVE_DAYS
    if days <= 0:
        return None
    kept = (days, settings.SKEP_LOG_RETENTION_DAYS, settings.SKEP_METRIC_RETENTION_DAYS)
    return deletion_time() - timedelta(days=max(kept))


def delete_old() -> int:
    """Delete archived jobs that are older than `SKEP_JOB_ARCHIVE_KEEP_DAYS`, for a bounded time;
    return how many. 0: keep them for ever."""
    days = settings.SKEP_JOB_ARCHIVE_KEEP_DAYS
    if days <= 0:
        return 0
    until, deleted = time.monotonic() + BUDGET_S, 0
    over = ArchivedJob.objects.filter(archived_at__lt=deletion_time() - timedelta(days=days))
    while time.monotonic() < until:
        oldest = list(over.order_by("archived_at").values_list("pk", flat=True)[:DELETED])
        deleted += _delete(ArchivedJob, pk__in=oldest) if oldest else 0
        if len(oldest) < DELETED:
            break
    return deleted


@transaction.atomic
def _archive_some(before: datetime, most: int, left_out: Sequence[UUID], taken: list[UUID]) -> None:
    """Move at most `most` jobs, and add their ids to `taken` before anything can fail."""
    if not fetch("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])[0][0]:
        return
    counting.wait_for_count()  # before rows are locked, as whoever changes usage does
    taken += _due(before, most, left_out)
    if not taken:
        return
    ArchivedJob.objects.bulk_create(_rows(taken))
    _delete_jobs(taken)
    notifications.notify_topic("jobs")


def _due(before: datetime, most: int, left_out: Sequence[UUID]) -> list[UUID]:
    """Lock the next jobs and return their ids: at least one, and no more than a batch takes."""
    params = {"before": before, "ended": sorted(JOB.terminal), "most": most}
    params["left_out"] = list(left_out)
    found: list[UUID] = []
    rows = 0.0
    for pk, weight in fetch(DUE, params):
        rows += weight
        if found and rows > ROWS:
            break
        found.append(pk)
    return found


def _delete_jobs(ids: Sequence[UUID]) -> None:
    attempts = TaskAttempt.objects.filter(job__in=ids).values("pk")
    counting.merge_jobs(ids)
    downsampling.forget_jobs(ids)
    Job.objects.filter(parent__in=ids).update(parent=None)
    ImageSave.objects.filter(job__in=ids).update(job=None, attempt=None)
    _delete(AppSession, app__in=App.objects.filter(job__in=ids).values("pk"))
    for model, column in OF_ATTEMPTS:
        _delete(model, **{f"{column}__in": attempts})
    for model, column in OF_JOBS:
        _delete(model, **{f"{column}__in": ids})
    _delete(Job, pk__in=ids)


def _delete(model: Any, **found: Any) -> int:
    """Delete rows by one statement, without a look at what refers to them: the caller did that, and
    the database refuses what was left out."""
    rows = model.objects.filter(**found)
    return int(rows._raw_delete(rows.db))


def _rows(ids: Sequence[UUID]) -> Iterator[ArchivedJob]:
    now = timezone.now()
    roles, attempts, events = _roles(ids), _attempts(ids), _events(ids)
    uses = {use["job_id"]: use for use in JobUse.objects.filter(pk__in=ids).values("job_id", *USE)}
    jobs = Job.objects.filter(pk__in=ids).select_related("owner", "vc")
    for job in jobs.defer("spec", "environment", "wait_reason", "prediction"):
        use = uses.get(job.pk)
        yield ArchivedJob(
            id=job.pk,
            owner_name=job.owner.username,
            vc_name=job.vc.name,
            submitted_at=job.created_at,
            archived_at=now,
            record=bounded({
                # Jobs of before this was refused may have credentials in addresses.
                "spec_text": without_credentials(job.spec_text),
                "tags": job.tags,
                "roles": roles[job.pk],
                "attempts": attempts[job.pk],
                "exit_reason": _reason(job.exit_reason),
                "events": events[job.pk],
                "use": {name: use[name] for name in USE} if use else None,
            }),
            **{name: getattr(job, name) for name in COPIED},
        )  # fmt: skip


# Columns that both tables have.
COPIED = (
    *("name", "owner_id", "vc_id", "visibility", "state", "priority_class", "gpus", "tasks_total"),
    *("started_at", "finished_at"),
)
# In this order a record that is too large loses the half of its lists.
SHORTENED = ("events", "attempts", "roles")


def bounded(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with `shortened`: the names of its lists that lost their last entries, the
    oldest ones of events and attempts, so that it takes no more than MOST_BYTES beside the job
    file."""
    lists = {name: record[name] for name in SHORTENED}
    kept = {"roles": ROLES, "attempts": ATTEMPTS, "events": EVENTS}
    found = {name: rows[: kept[name]] for name, rows in lists.items()}
    for name in SHORTENED:
        while found[name] and _size(found) > MOST_BYTES:
            found[name] = found[name][: len(found[name]) // 2]
    shortened = [name for name in SHORTENED if len(found[name]) < len(lists[name])]
    return {**record, **found, "shortened": sorted(shortened)}


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str, ensure_ascii=False).encode())


def _newest(rows: QuerySet[Any], of: str, order: str, most: int) -> QuerySet[Any]:
    """Select the newest rows of each job, and one more that shows that there are others."""
    number = Window(RowNumber(), partition_by=F(of), order_by=F(order).desc())
    return rows.annotate(number=number).filter(number__lte=most + 1).order_by(of, f"-{order}")


def _roles(ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    rows = TaskRole.objects.filter(job__in=ids).order_by("job", "position")
    for role in rows:
        found[role.job_id].append({
            "name": role.name,
            "instances": role.instances,
            "gpus": role.gpus,
            "gpu_model": role.gpu_model,
            "cell_type": role.cell_type,
            "cpus": role.cpu_millis / 1000,
            "memory_mb": role.memory_mb,
            "image": without_credentials(role.image),
            "command": without_credentials(role.command)[:TEXT],
        })  # fmt: skip
    return found


def _attempts(ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    """Return the newest attempts of each job, newest first."""
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    places = {(job, index): rest for job, index, *rest in fetch(PLACES, [NODES, list(ids)])}
    for attempt in _newest(JobAttempt.objects.filter(job__in=ids), "job", "index", ATTEMPTS):
        count, nodes = places.get((attempt.job_id, attempt.index), (0, []))
        diagnosis = attempt.diagnosis or {}
        found[attempt.job_id].append({
            "index": attempt.index,
            "outcome": attempt.outcome,
            "retry": attempt.retry,
            "placed_at": _time(attempt.placed_at),
            "started_at": _time(attempt.started_at),
            "finished_at": _time(attempt.finished_at),
            "nodes": nodes,
            "nodes_total": count,
            "reason": _reason(attempt.reason),
            "diagnosis_code": diagnosis.get("code"),
            "diagnosis_name": diagnosis.get("name", ""),
        })  # fmt: skip
    return found


def _events(ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    """Return the newest events of each job, newest first."""
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    of_jobs = Event.objects.filter(
        subject_type=Event.Subject.JOB, subject_id__in=[str(pk) for pk in ids]
    )
    for event in queries.events_for_reader(
        None, list(_newest(of_jobs, "subject_id", "id", EVENTS))
    ):
        found[UUID(event.subject_id)].append({
            "at": _time(event.at),
            "kind": event.kind,
            "message": event.message[:TEXT],
            "actor": event.actor,
            "count": event.count,
        })  # fmt: skip
    return found


def _reason(reason: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what every reader may know of a reason, without its details."""
    [shown] = queries.reasons_for_reader(None, [reason])
    return {"code": shown["code"], "message": shown["message"][:TEXT]} if shown else None


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
