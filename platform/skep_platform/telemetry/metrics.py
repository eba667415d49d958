"""The use of GPUs and containers that the page of a job shows: sums per minute with their parts of
10 s, and the newest values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import redis
import structlog
from django.utils import timezone

from skep_platform.core.bulk import fetch
from skep_platform.core.notifications import valkey
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry import downsampling
from skep_platform.telemetry.rollups import BUCKET_S, FINE_S, gpu_live_key, task_live_key

log = structlog.get_logger(__name__)

MAX_POINTS = 360  # per series: an hour of FINE_S
MAX_ALL_POINTS = 20_000  # in one answer
MIN_POINTS = 20

# Of the newest values, as they follow the time in a point; what has no newest value is null.
GPU_VALUES = ("util", "mem", "power")
TASK_VALUES = ("cpu", "mem", "received", "sent", "read", "written")

# [seconds since the epoch, percent, MB, and W, or four times bytes per second]
Point = tuple[float | None, ...]


@dataclass(slots=True)
class GpuSeries:
    """One GPU while one attempt held it: percent of the time busy, MB of its memory, and W."""

    uuid: str
    attempt: TaskAttempt
    points: list[Point] = field(default_factory=list)


@dataclass(slots=True)
class TaskSeries:
    """One attempt's container: percent of a core, MB of memory, and bytes per second that it
    received, sent, read from disks and wrote to them."""

    attempt: TaskAttempt
    points: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobMetrics:
    step_s: int
    gpus: list[GpuSeries]
    tasks: list[TaskSeries]


# Watts of the samples that had them, and bytes per second of the seconds that were measured: a
# counter that is new or was set back says nothing of the time before.
_POWER_SAMPLES = "nullif(coalesce(power_samples, samples), 0)"


def _measured_s(number: int) -> str:
    """Return the seconds of a row in which bytes were measured; `number`: which, from 1 on."""
    share = f"byte_samples[{number}]::float8 / nullif(samples, 0)"
    return f"nullif(seconds * coalesce({share}, 1), 0)"


def _rate(column: str, number: int) -> str:
    """Return the bytes per second of several rows."""
    measured = f"sum({_measured_s(number)}) FILTER (WHERE {column} IS NOT NULL)"
    return f"sum({column}) / {measured}"


GPUS = f"""
SELECT attempt_id, device_id, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       sum(utilization_sum) / nullif(sum(samples), 0), max(memory_used_mb_max),
       sum(power_w_sum) / sum({_POWER_SAMPLES}) FILTER (WHERE power_w_sum IS NOT NULL)
  FROM {downsampling.GPU_ROWS} r
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s AND at < %(until)s
 GROUP BY 1, 2, 3 ORDER BY 3
"""  # noqa: S608

TASKS = f"""
SELECT attempt_id, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       sum(cpu_percent_sum) / nullif(sum(samples), 0), max(memory_mb_max),
       {_rate("network_rx_bytes", 1)}, {_rate("network_tx_bytes", 2)},
       {_rate("disk_read_bytes", 3)}, {_rate("disk_written_bytes", 4)}
  FROM {downsampling.TASK_ROWS} r
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s AND at < %(until)s
 GROUP BY 1, 2 ORDER BY 2
"""  # noqa: S608

# Rows of a minute, with their parts.
FINE_GPUS = f"""
SELECT attempt_id, device_id, extract(epoch FROM at), utilization_sum / nullif(samples, 0),
       memory_used_mb_max, power_w_sum / {_POWER_SAMPLES}, fine
  FROM telemetry_gpurollup
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s AND at < %(until)s
 ORDER BY at
"""  # noqa: S608

FINE_TASKS = f"""
SELECT attempt_id, extract(epoch FROM at), cpu_percent_sum / nullif(samples, 0), memory_mb_max,
       network_rx_bytes / {_measured_s(1)}, network_tx_bytes / {_measured_s(2)},
       disk_read_bytes / {_measured_s(3)}, disk_written_bytes / {_measured_s(4)}, fine
  FROM telemetry_taskrollup
 WHERE attempt_id = ANY(%(attempts)s) AND at >= %(since)s AND at < %(until)s
 ORDER BY at
"""  # noqa: S608


def job_metrics(job: Job, since: datetime | None, until: datetime | None = None) -> JobMetrics:
    """Every series from `since` (default: the job's start) to `until` (default: now), one point per
    `step_s` seconds; the step grows with the range and the number of series, so that an answer
    stays small. It is FINE_S within the first hour of an attempt."""
    now = timezone.now()
    since = since or job.started_at or job.created_at
    ends = min(until or now, job.finished_at or now, now)
    attempts = list(
        TaskAttempt.objects.filter(job=job)
        .select_related("task", "role", "node")
        .order_by("task__rank", "index")
    )
    gpus = {(a.pk, uuid): GpuSeries(uuid, a) for a in attempts for uuid in a.gpu_uuids}
    tasks = {a.pk: TaskSeries(a) for a in attempts}
    coarsest = downsampling.coarsest(since)
    step = _step((ends - since).total_seconds(), len(gpus) + len(tasks), coarsest)
    # From the beginning of the row in which it lies: a job that began within it has points.
    rows = _floor(since, coarsest)
    values = {"step": step, "attempts": list(tasks), "since": rows, "until": until or now}
    if step == FINE_S:
        step = _read_fine(gpus, tasks, values)
    else:
        _read(gpus, tasks, values)
    if until is None:
        _add_live(gpus, tasks)
    return JobMetrics(
        step, [s for s in gpus.values() if s.points], [s for s in tasks.values() if s.points]
    )


def _floor(moment: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() // seconds * seconds, UTC)


def _read(
    gpus: Mapping[tuple[UUID, str], GpuSeries],
    tasks: Mapping[UUID, TaskSeries],
    values: Mapping[str, Any],
) -> None:
    for attempt, uuid, at, *measured in fetch(GPUS, values):
        if series := gpus.get((attempt, uuid)):
            series.points.append(_point(at, measured))
    for attempt, at, *measured in fetch(TASKS, values):
        tasks[attempt].points.append(_point(at, measured))


def _read_fine(
    gpus: Mapping[tuple[UUID, str], GpuSeries],
    tasks: Mapping[UUID, TaskSeries],
    values: Mapping[str, Any],
) -> int:
    """Read the parts of buckets; where a bucket has none, it stands for all of them. Return the
    step: that of whole buckets where none has parts."""
    of_gpus = [row for row in fetch(FINE_GPUS, values) if row[:2] in gpus]
    of_tasks = fetch(FINE_TASKS, values)
    step = FINE_S if any(row[-1] for row in (*of_gpus, *of_tasks)) else BUCKET_S
    for attempt, uuid, at, *measured, fine in of_gpus:
        gpus[attempt, uuid].points += _points(at, measured, fine, step)
    for attempt, at, *measured, fine in of_tasks:
        tasks[attempt].points += _points(at, measured, fine, step)
    return step


def _points(at: Any, measured: Sequence[Any], fine: str | None, step: int) -> Iterator[Point]:
    if fine is None:
        for slot in range(0, BUCKET_S, step):
            yield _point(float(at) + slot, measured)
        return
    for slot, values in sorted((int(slot), values) for slot, values in json.loads(fine).items()):
        yield _point(float(at) + slot, values)


def _step(seconds: float, series: int, coarsest: int) -> int:
    """Return the seconds between two points: a multiple of those of the `coarsest` row in the
    range, so that points of older and of newer rows stand for the same time."""
    points = max(MIN_POINTS, min(MAX_POINTS, MAX_ALL_POINTS // max(1, series)))
    if seconds <= FINE_S * points and coarsest == BUCKET_S:
        return FINE_S
    return coarsest * max(1, math.ceil(seconds / coarsest / points))


def _point(at: Any, measured: Sequence[Any]) -> Point:
    percent, memory, *more = measured
    return (
        float(at),
        round(percent or 0.0, 1),
        memory,
        *(None if value is None else round(float(value), 1) for value in more),
    )


def _add_live(gpus: dict[tuple[UUID, str], GpuSeries], tasks: dict[UUID, TaskSeries]) -> None:
    """The newest values of attempts that still hold their GPUs; none when Valkey is down."""
    held = [s for s in gpus.values() if s.attempt.released_at is None]
    alive = [s for s in tasks.values() if s.attempt.released_at is None]
    wanted = [(gpu_live_key(s.attempt.node_id), s.uuid) for s in held]
    wanted += [(task_live_key(s.attempt.node_id), str(s.attempt.pk)) for s in alive]
    values = _live(wanted)
    for gpu, value in zip(held, values, strict=False):
        _append(gpu.points, value, GPU_VALUES)
    for task, value in zip(alive, values[len(held) :], strict=False):
        _append(task.points, value, TASK_VALUES)


def _live(wanted: Iterable[tuple[str, str]]) -> list[bytes | None]:
    pipeline = valkey().pipeline(transaction=False)
    for key, name in wanted:
        pipeline.hget(key, name)
    try:
        return cast("list[bytes | None]", pipeline.execute())
    except (redis.RedisError, OSError) as error:
        log.warning("live_values_unread", error=type(error).__name__)
        return []


def _append(points: list[Point], value: bytes | None, names: Sequence[str]) -> None:
    if value is None:
        return
    live = json.loads(value)
    if not points or live["t"] > cast(float, points[-1][0]):
        points.append((live["t"], *(live.get(name) for name in names)))
