"""Counting what finished jobs made of what they were given, once for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.core import doorbells
from skep_platform.core.errors import NotFound
from skep_platform.jobs.models import Job, TaskAttempt, TaskRole
from skep_platform.telemetry.advice import (
    IDLE_GPU_PERCENT,
    RoleUse,
    advise,
    cpu_percent,
    utilization,
)
from skep_platform.telemetry.models import JobUse

BATCH = 50  # jobs per round
SETTLE = timedelta(seconds=20)  # longer than a server keeps samples before it stores them
# GPUs that are still not clean then are counted as held until the job's end.
PATIENCE = timedelta(minutes=10)


def count_due() -> int:
    """Count jobs that finished a moment ago; returns how many. A constant number of queries, safe
    at any time: two rounds at once count the same twice and store it once."""
    jobs = list(_due().order_by("finished_at")[:BATCH])
    if not jobs:
        return 0
    ids = [job.pk for job in jobs]
    roles, hours = _role_uses(ids), _gpu_hours(ids)
    uses = [_use(job, roles.get(job.pk, []), hours.get(job.pk, 0.0)) for job in jobs]
    with transaction.atomic():
        JobUse.objects.bulk_create(uses, ignore_conflicts=True)
        Job.objects.filter(pk__in=ids).update(use_counted=True)
        for job in ids:
            doorbells.ring_topic("job", job)
    return len(jobs)


def use_of(job: Job) -> JobUse:
    """Raises NotFound `not_yet` until it was counted."""
    use = JobUse.objects.filter(job=job).first()
    if use is None:
        raise NotFound("The use of a job is told soon after its end.", code="not_yet")
    return use


def asked_by(job: Job) -> dict[str, float]:
    """GPUs of the whole job; CPUs and memory of one task, of the role that has the most."""
    most = TaskRole.objects.filter(job=job).aggregate(cpus=Max("cpu_millis"), mb=Max("memory_mb"))
    cpus, memory = most["cpus"] or 0, most["mb"] or 0
    return {"gpus": job.gpus, "cpus": cpus / 1000, "memory_mb": memory}


def _due() -> QuerySet[Job]:
    held = TaskAttempt.objects.filter(job=OuterRef("pk"), released_at=None)
    settled = Q(finished_at__lt=Now() - SETTLE) & ~Exists(held)
    return Job.objects.filter(
        settled | Q(finished_at__lt=Now() - PATIENCE),
        finished_at__isnull=False,
        use_counted=False,
    )


def _use(job: Job, roles: Sequence[RoleUse], gpu_hours: float) -> JobUse:
    return JobUse(
        job=job,
        gpu_hours=gpu_hours,
        gpu_utilization=utilization(roles),
        gpu_memory_peak_mb=_most(r.gpu_memory_peak_mb for r in roles),
        cpu_percent=cpu_percent(roles),
        memory_peak_mb=_most(r.memory_peak_mb for r in roles),
        advice=advise(roles),
    )


def _most(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)


HOURS = """
SELECT job_id, sum(jsonb_array_length(a.gpu_uuids) * extract(epoch FROM
         greatest(coalesce(a.released_at, a.finished_at, j.finished_at) - a.created_at,
                  interval '0'))) / 3600
  FROM jobs_taskattempt a JOIN jobs_job j ON j.id = a.job_id
 WHERE a.job_id = ANY(%s)
 GROUP BY 1
"""

# By role: percent, samples and peak over all attempts, then GPUs of the newest job attempt.
GPUS = """
SELECT role_id, sum(total) / sum(samples), sum(samples), max(memory),
       count(*) FILTER (WHERE newest),
       count(*) FILTER (WHERE newest AND total / samples < %s)
  FROM (SELECT a.role_id, a.index = j.attempt AS newest, sum(r.utilization_sum) AS total,
               sum(r.samples) AS samples, max(r.memory_used_mb_max) AS memory
          FROM jobs_job j
          JOIN jobs_taskattempt a ON a.job_id = j.id
          JOIN telemetry_gpurollup r ON r.attempt_id = a.id
         WHERE j.id = ANY(%s)
         GROUP BY a.id, j.attempt, r.device_id
        HAVING sum(r.samples) > 0) AS gpus
 GROUP BY 1
"""

# The peak is the kernel's where the node told it: samples may have missed it.
TASKS = """
SELECT role_id, sum(total) / nullif(sum(samples), 0), coalesce(sum(samples), 0), max(memory)
  FROM (SELECT a.role_id, sum(r.cpu_percent_sum) AS total, sum(r.samples) AS samples,
               greatest(max(r.memory_mb_max), a.memory_peak_mb) AS memory
          FROM jobs_taskattempt a
          LEFT JOIN telemetry_taskrollup r ON r.attempt_id = a.id
         WHERE a.job_id = ANY(%s)
         GROUP BY a.id) AS tasks
 GROUP BY 1
"""


def _gpu_hours(jobs: list[UUID]) -> dict[UUID, float]:
    return {job: float(hours) for job, hours in _rows(HOURS, jobs)}


def _role_uses(jobs: list[UUID]) -> dict[UUID, list[RoleUse]]:
    gpus = {row[0]: row[1:] for row in _rows(GPUS, IDLE_GPU_PERCENT, jobs)}
    tasks = {row[0]: row[1:] for row in _rows(TASKS, jobs)}
    found: dict[UUID, list[RoleUse]] = defaultdict(list)
    for role in TaskRole.objects.filter(job__in=jobs).order_by("position"):
        use = _role_use(role, gpus.get(role.pk), tasks.get(role.pk))
        found[role.job_id].append(use)
    return found


def _role_use(role: TaskRole, gpus: Any, tasks: Any) -> RoleUse:
    percent, gpu_samples, gpu_memory, seen, idle = gpus or (None, 0, None, 0, 0)
    cpu, cpu_samples, memory = tasks or (None, 0, None)
    return RoleUse(
        name=role.name,
        tasks=role.instances,
        gpus=role.gpus,
        cpus=role.cpu_millis / 1000,
        memory_mb=role.memory_mb,
        gpu_utilization=percent,
        gpu_samples=int(gpu_samples),
        gpu_memory_peak_mb=gpu_memory,
        gpus_seen=seen,
        gpus_idle=idle,
        cpu_percent=cpu,
        cpu_samples=int(cpu_samples),
        memory_peak_mb=memory,
    )


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()
