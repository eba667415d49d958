"""A job's use of GPUs, CPU and memory over time: rollups, and the newest live value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import redis
import structlog
from django.db import connection
from django.utils import timezone

from skep_platform.core.doorbells import valkey
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry.rollups import gpu_live_key, task_live_key
from skep_platform.telemetry.use import BUCKET_S

log = structlog.get_logger(__name__)

MAX_POINTS = 300  # per series
MAX_ALL_POINTS = 20_000  # in one answer
MIN_POINTS = 20

# [seconds since the epoch, percent, MB]
Point = tuple[float, float, int]


@dataclass(slots=True)
class GpuSeries:
    """One GPU while one attempt held it: percent of the time busy, and MB of its memory."""

    uuid: str
    attempt: TaskAttempt
    points: list[Point] = field(default_factory=list)


@dataclass(slots=True)
class TaskSeries:
    """One attempt's container: percent of a core, and MB of memory."""

    attempt: TaskAttempt
    points: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobMetrics:
    step_s: int
    gpus: list[GpuSeries]
    tasks: list[TaskSeries]


GPUS = """
SELECT attempt_id, device_id, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       sum(utilization_sum) / sum(samples), max(memory_used_mb_max)
  FROM telemetry_gpurollup
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s
 GROUP BY 1, 2, 3 ORDER BY 3
"""

TASKS = """
SELECT attempt_id, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       sum(cpu_percent_sum) / sum(samples), max(memory_mb_max)
  FROM telemetry_taskrollup
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s
 GROUP BY 1, 2 ORDER BY 2
"""


def job_metrics(job: Job, since: datetime | None) -> JobMetrics:
    """Every series from `since` (default: the job's start), one point per `step_s` seconds; the
    step grows with the range and the number of series, so that an answer stays small."""
    since = since or job.started_at or job.created_at
    attempts = list(
        TaskAttempt.objects.filter(job=job)
        .select_related("task", "role", "node")
        .order_by("task__rank", "index")
    )
    gpus = {(a.pk, uuid): GpuSeries(uuid, a) for a in attempts for uuid in a.gpu_uuids}
    tasks = {a.pk: TaskSeries(a) for a in attempts}
    step = _step((timezone.now() - since).total_seconds(), len(gpus) + len(tasks))
    values: dict[str, Any] = {"step": step, "attempts": list(tasks), "since": since}
    with connection.cursor() as cursor:
        cursor.execute(GPUS, values)
        for attempt, uuid, at, percent, memory in cursor.fetchall():
            if series := gpus.get((attempt, uuid)):
                series.points.append(_point(at, percent, memory))
        cursor.execute(TASKS, values)
        for attempt, at, percent, memory in cursor.fetchall():
            tasks[attempt].points.append(_point(at, percent, memory))
    _add_live(gpus, tasks)
    return JobMetrics(
        step, [s for s in gpus.values() if s.points], [s for s in tasks.values() if s.points]
    )


def _step(seconds: float, series: int) -> int:
    points = max(MIN_POINTS, min(MAX_POINTS, MAX_ALL_POINTS // max(1, series)))
    return BUCKET_S * max(1, math.ceil(seconds / BUCKET_S / points))


def _point(at: Any, percent: float, memory: int) -> Point:
    return float(at), round(percent, 1), memory


def _add_live(gpus: dict[tuple[UUID, str], GpuSeries], tasks: dict[UUID, TaskSeries]) -> None:
    """The newest values of attempts that still hold their GPUs; none when Valkey is down."""
    held = [s for s in gpus.values() if s.attempt.released_at is None]
    alive = [s for s in tasks.values() if s.attempt.released_at is None]
    wanted = [(gpu_live_key(s.attempt.node_id), s.uuid) for s in held]
    wanted += [(task_live_key(s.attempt.node_id), str(s.attempt.pk)) for s in alive]
    values = _live(wanted)
    for gpu, value in zip(held, values, strict=False):
        _append(gpu.points, value, "util")
    for task, value in zip(alive, values[len(held) :], strict=False):
        _append(task.points, value, "cpu")


def _live(wanted: Iterable[tuple[str, str]]) -> list[bytes | None]:
    pipeline = valkey().pipeline(transaction=False)
    for key, name in wanted:
        pipeline.hget(key, name)
    try:
        return cast("list[bytes | None]", pipeline.execute())
    except (redis.RedisError, OSError) as error:
        log.warning("live_values_unread", error=type(error).__name__)
        return []


def _append(points: list[Point], value: bytes | None, name: str) -> None:
    if value is None:
        return
    live = json.loads(value)
    if not points or live["t"] > points[-1][0]:
        points.append((live["t"], live[name], live["mem"]))
