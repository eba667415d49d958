"""The tasks of a job attempt side by side: what each used, the last lines of each, and what the
attempt used in all. A constant number of queries for any number of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count

from skep_platform.core.errors import NotFound
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry.merged_lines import decode, last_state
from skep_platform.telemetry.store import read_chunk

MOST_RANKS = 256  # of one answer
MOST_LOGS = 16  # tasks whose last lines are in one answer
MOST_NODES = 64  # that an attempt names
NEWEST = 4  # chunks of a task that are looked into
TAIL_BYTES = 16 * 1024  # of a task
MOST_CHARACTERS = 500  # of a line


@dataclass(frozen=True, slots=True)
class Use:
    """What a task attempt used of its GPUs and its container. None: not measured."""

    gpu_utilization: float | None = None  # percent, mean over all its GPUs
    gpu_utilization_recent: float | None = None  # of the last ten minutes
    gpu_memory_peak_mb: int | None = None  # of one GPU
    cpu_percent: float | None = None  # mean; 100 = one core
    memory_peak_mb: int | None = None


def attempts_of(job: Job, index: int, first: int, most: int) -> list[TaskAttempt]:
    """Return the newest task attempt of each rank from `first` on in a job attempt."""
    rows = TaskAttempt.objects.filter(
        job=job, index=index, task__rank__gte=first, task__rank__lt=first + most
    )
    return list(
        rows.select_related("task", "role", "node")
        .order_by("task__rank", "-retry")
        .distinct("task__rank")
    )


GPUS = """
SELECT attempt_id, sum(utilization_sum) / nullif(sum(samples), 0),
       sum(utilization_sum) FILTER (WHERE at > now() - interval '10 minutes')
         / nullif(sum(samples) FILTER (WHERE at > now() - interval '10 minutes'), 0),
       max(memory_used_mb_max)
  FROM telemetry_gpurollup WHERE attempt_id = ANY(%s) GROUP BY 1
"""

TASKS = """
SELECT attempt_id, sum(cpu_percent_sum) / nullif(sum(samples), 0), max(memory_mb_max)
  FROM telemetry_taskrollup WHERE attempt_id = ANY(%s) GROUP BY 1
"""


def use_by_attempt(attempts: Sequence[UUID]) -> dict[UUID, Use]:
    """Return what each of these task attempts used. Two queries."""
    gpus = {row[0]: row[1:] for row in _rows(GPUS, list(attempts))}
    tasks = {row[0]: row[1:] for row in _rows(TASKS, list(attempts))}
    return {
        pk: Use(*gpus.get(pk, (None, None, None)), *tasks.get(pk, (None, None))) for pk in attempts
    }


CHUNKS = """
SELECT a.id, c.key, c.size
  FROM unnest(%s::uuid[]) AS a(id),
       LATERAL (SELECT id, key, size FROM telemetry_logchunk
                 WHERE attempt_id = a.id ORDER BY id DESC LIMIT %s) AS c
 ORDER BY c.id DESC
"""


def last_lines(attempts: Sequence[UUID], lines: int) -> dict[UUID, list[str]]:
    """Return the newest lines of the log of each of these task attempts, of both streams in order
    of arrival, each cut to MOST_CHARACTERS. One query; raises Unavailable."""
    texts: dict[UUID, list[bytes]] = defaultdict(list)
    sizes: dict[UUID, int] = defaultdict(int)
    for attempt, key, size in _rows(CHUNKS, list(attempts), NEWEST):
        if sizes[attempt] < TAIL_BYTES:
            texts[attempt].append(read_chunk(key, size)[-TAIL_BYTES:])
            sizes[attempt] += size
    return {attempt: _lines(texts[attempt][::-1], lines) for attempt in attempts}


def _lines(parts: Sequence[bytes], most: int) -> list[str]:
    text = decode(b"".join(parts), at_start=False)
    found = text.removesuffix("\n").split("\n")[-most:] if text else []
    return [last_state(line)[:MOST_CHARACTERS] for line in found]


OF_ATTEMPT = """
SELECT g.util, g.memory, t.cpu, greatest(t.memory, a.peak), a.hours
  FROM (SELECT max(memory_peak_mb) AS peak,
               sum(jsonb_array_length(gpu_uuids) * extract(epoch FROM greatest(
                 coalesce(released_at, finished_at, now()) - created_at, interval '0'))) / 3600
                 AS hours
          FROM jobs_taskattempt WHERE job_id = %(job)s AND index = %(index)s) AS a,
       (SELECT sum(utilization_sum) / nullif(sum(samples), 0) AS util,
               max(memory_used_mb_max) AS memory
          FROM telemetry_gpurollup WHERE attempt_id IN (
            SELECT id FROM jobs_taskattempt WHERE job_id = %(job)s AND index = %(index)s)) AS g,
       (SELECT sum(cpu_percent_sum) / nullif(sum(samples), 0) AS cpu, max(memory_mb_max) AS memory
          FROM telemetry_taskrollup WHERE attempt_id IN (
            SELECT id FROM jobs_taskattempt WHERE job_id = %(job)s AND index = %(index)s)) AS t
"""


def use_of_attempt(job: Job, index: int) -> dict[str, Any]:
    """Return what a job attempt used in all, on which nodes it ran, and how its tasks ended. Raises
    NotFound where the job had no such attempt. Three queries."""
    attempts = TaskAttempt.objects.filter(job=job, index=index).order_by()
    per_node = attempts.values("node__name").annotate(tasks=Count("task", distinct=True))
    nodes = list(per_node.order_by("-tasks", "node__name"))
    if not nodes:
        raise NotFound(f"The job has no attempt {index}.")
    ends = attempts.values("state", "exit_code", "exit_signal", "oom_killed")
    ((util, gpu_memory, cpu, memory, hours),) = _rows(OF_ATTEMPT, {"job": job.pk, "index": index})
    return {
        "nodes": [{"name": n["node__name"], "tasks": n["tasks"]} for n in nodes[:MOST_NODES]],
        "nodes_total": len(nodes),
        "ends": list(ends.annotate(tasks=Count("pk")).order_by("-tasks", "state")[:20]),
        "gpu_hours": float(hours or 0),
        "gpu_utilization": util,
        "gpu_memory_peak_mb": gpu_memory,
        "cpu_percent": cpu,
        "memory_peak_mb": memory,
    }


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    values = params[0] if params and isinstance(params[0], dict) else params
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()
