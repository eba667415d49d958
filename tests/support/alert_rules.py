"""Alert rules, what meets them, and who is notified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connection
from django.db.models import Model
from django.utils import timezone
from psycopg import sql
from tests.support.jobs_world import attempts_of, placed, report
from tests.support.platform_factories import make_node

from skep_platform.cluster.models import Device, Node
from skep_platform.jobs.models import Job
from skep_platform.notifications import collecting
from skep_platform.notifications.models import Notification
from skep_platform.operations import rules
from skep_platform.operations.models import AlertRule
from skep_platform.telemetry.models import GpuRollup


def rule(kind: str, **fields: Any) -> AlertRule:
    return rules.create(**{"name": kind, "kind": kind} | fields)


def sicken(node: Node, gpus: int = 1) -> None:
    found = Device.objects.filter(node=node).order_by("index")[:gpus]
    Device.objects.filter(pk__in=[d.pk for d in found]).update(health="BAD")


def sent(user: Any) -> list[str]:
    """Return what a user was notified of."""
    collecting.collect()
    return [n["message"] for one in Notification.objects.filter(user=user) for n in one.items]


def running_job(user: Any, vc: Any, minutes: int) -> Job:
    """A job with two GPUs that has run for so long."""
    make_node("n1")
    job = placed(user, vc, gpus=2)
    report(attempts_of(job), "running")
    begun = timezone.now() - timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(begun_at=begun, placed_at=begun)
    return Job.objects.get(pk=job.pk)


def idle_job(user: Any, vc: Any, percent: float = 1.0, minutes: int = 12) -> Job:
    """A job whose GPUs were this busy for so long."""
    job = running_job(user, vc, minutes)
    (attempt,) = attempts_of(job)
    begun = job.begun_at
    GpuRollup.objects.bulk_create(
        GpuRollup(
            device_id=uuid,
            attempt=attempt,
            at=begun + timedelta(minutes=n),
            seconds=60,
            samples=12,
            utilization_sum=percent * 12,
            utilization_max=percent,
            memory_used_mb_max=1,
        )
        for uuid in attempt.gpu_uuids
        for n in range(minutes)
    )
    return job


@contextmanager
def locked_elsewhere(row: Model) -> Iterator[None]:
    """Have another transaction hold a row; a statement of this one that waits for it fails at once.
    Both need what was committed."""
    params = connection.get_connection_params()
    known = {name: params[name] for name in ("host", "port", "dbname", "user", "password")}
    with psycopg.connect(**{k: v for k, v in known.items() if v}) as other:
        table = sql.Identifier(row._meta.db_table)
        lock = sql.SQL("SELECT FROM {} WHERE id = %s FOR UPDATE").format(table)
        other.execute(lock, [row.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
            other.rollback()
