"""Finished jobs for tests of the archive, with rows in the tables that refer to jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place, release

from skep_platform.cluster.models import Device
from skep_platform.core.events import record
from skep_platform.core.models import uuid7
from skep_platform.jobs.archive import ArchivedJob
from skep_platform.jobs.models import Job, JobAttempt, JobShare, Lease, RankChange, TaskAttempt
from skep_platform.telemetry.models import (
    GpuHistory,
    GpuRollup,
    JobUse,
    MetricLog,
    TaskHistory,
    TaskRollup,
    UserMetric,
)
from skep_platform.usage.models import UsageDay


def finish(job: Job, *, days_ago: float = 100, state: str = "SUCCEEDED", **fields: Any) -> Job:
    """The job ended so long ago, all of it was counted, and its logs were deleted."""
    ended = timezone.now() - timedelta(days=days_ago)
    known = {"state": state, "started_at": ended - timedelta(hours=2), "finished_at": ended}
    counted = {"use_counted": True, "logs_deleted_at": timezone.now(), "metrics_rank": None}
    Job.objects.filter(pk=job.pk).update(**{**known, **counted, **fields})
    ended_at = {"state": state, "finished_at": ended, "released_at": ended}
    TaskAttempt.objects.filter(job=job).update(**ended_at)
    leases = Lease.objects.filter(attempt__job=job)
    leases.update(acquired_at=known["started_at"], released_at=ended, counted_until=ended)
    job.refresh_from_db()
    return job


def finished_job(owner: Any = None, vc: Any = None, **fields: Any) -> Job:
    """One that never had a place."""
    owner = owner or make_user()
    days_ago, state = fields.pop("days_ago", 100), fields.pop("state", "SUCCEEDED")
    job = make_job(vc or make_vc(members=[owner]), owner, **fields)
    return finish(job, days_ago=days_ago, state=state)


def job_that_ran(owner: Any = None, vc: Any = None, **fields: Any) -> Job:
    """One with a row in about every table: an attempt on two GPUs, use, samples and usage."""
    owner = owner or make_user()
    days_ago, state = fields.pop("days_ago", 100), fields.pop("state", "FAILED")
    job = make_job(vc or make_vc(members=[owner]), owner, gpus=2, attempt=1, **fields)
    node = make_node(gpus=2)
    attempt = place(job, list(Device.objects.filter(node=node)))
    release(attempt, "FAILED")
    finish(job, days_ago=days_ago, state=state)
    began, ended = job.started_at, job.finished_at
    assert began
    assert ended
    JobAttempt.objects.create(
        job=job,
        index=1,
        outcome=state,
        placed_at=began,
        started_at=began,
        finished_at=ended,
        reason={"code": "task_failed", "message": "Task worker-0 failed.", "details": {}},
        diagnosis={"code": 137, "name": "oom", "category": "user"},
    )
    JobUse.objects.create(job=job, gpu_hours=4.0, gpu_utilization=50.0, memory_peak_mb=900)
    RankChange.objects.create(job=job, index=1, at=began, guaranteed=True)
    JobShare.objects.create(job=job, user=make_user())
    UsageDay.objects.create(
        day=began.date(),
        job=job,
        user=job.owner,
        vc=job.vc,
        gpu_model="A100",
        guaranteed=True,
        allocated_us=14_400_000_000,
        used_us=7_200_000_000,
        known_us=14_400_000_000,
    )
    sampled(attempt)
    record("job", job.pk, "job.submitted", "The job was submitted.", actor=job.owner.username)
    record("job", job.pk, "job.finished", "The job ended.")
    return job


def sampled(attempt: TaskAttempt) -> None:
    at = (timezone.now() - timedelta(days=100)).replace(minute=0, second=0, microsecond=0)
    GpuRollup.objects.bulk_create(
        GpuRollup(
            device_id=uuid,
            attempt=attempt,
            at=at,
            seconds=3600,
            samples=100,
            utilization_sum=5000,
            utilization_max=90,
            memory_used_mb_max=1000,
            power_w_sum=20_000,
            power_samples=100,
        )
        for uuid in attempt.gpu_uuids
    )
    TaskRollup.objects.create(
        attempt=attempt,
        at=at,
        seconds=3600,
        samples=100,
        cpu_percent_sum=100,
        cpu_percent_max=2,
        memory_mb_max=900,
    )
    day = at.replace(hour=0)
    GpuHistory.objects.create(
        device_id=attempt.gpu_uuids[0],
        attempt=attempt,
        at=day,
        seconds=86400,
        samples=1000,
        utilization_sum=30_000,
        utilization_max=90,
        memory_used_mb_max=1000,
        power_samples=0,
    )
    TaskHistory.objects.create(
        attempt=attempt,
        at=day,
        seconds=86400,
        samples=1000,
        cpu_percent_sum=1000,
        cpu_percent_max=2,
        memory_mb_max=900,
    )
    MetricLog.objects.create(attempt=attempt, job=attempt.job, at=at)
    points = {"steps": [1], "times": [1], "values": [1], "count": 1}
    UserMetric.objects.create(attempt=attempt, job=attempt.job, name="loss", at=at, **points)


def archived_like(job: Job, **fields: Any) -> ArchivedJob:
    """A row of the archive, of an older job of the same owner and virtual cluster."""
    record = {"spec_text": "", "exit_reason": None, "use": None}
    lists = ("tags", "roles", "attempts", "events", "shortened")
    known: dict[str, Any] = {
        "id": uuid7(),
        "name": "last-year",
        "owner": job.owner,
        "owner_name": job.owner.username,
        "vc": job.vc,
        "vc_name": job.vc.name,
        "state": "SUCCEEDED",
        "priority_class": "test",
        "gpus": 1,
        "tasks_total": 1,
        "submitted_at": job.created_at,
        "finished_at": job.created_at,
        "archived_at": timezone.now(),
        "record": record | {name: [] for name in lists},
    }
    return ArchivedJob.objects.create(**{**known, **fields})
