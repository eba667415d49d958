"""The tasks of a job attempt side by side: what each used, the last lines of each, and what the
attempt used in all. A constant number of queries for any number of tasks."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import redis
import structlog
from django.core.cache import cache
from django.db import connection
from django.db.models import Count, Q
from django.utils import timezone

from skep_platform.core.errors import NotFound
from skep_platform.jobs.models import ACTIVE_JOB_STATES, Job, TaskAttempt
from skep_platform.telemetry.downsampling import GPU_ROWS, TASK_ROWS, first_row, last_row
from skep_platform.telemetry.merged_lines import decode, last_state
from skep_platform.telemetry.store import read_chunk

MOST_RANKS = 256  # of one answer
MOST_LOGS = 16  # tasks whose last lines are in one answer
MOST_NODES = 64  # that an attempt names
NEWEST = 4  # chunks of a task that are looked into
TAIL_BYTES = 16 * 1024  # of a task
MOST_CHARACTERS = 500  # of a line
RECENT = timedelta(minutes=10)
# What was used is a sum over all rollups, millions for a long job, and is asked for every 30 s by
# each who looks at it: it is computed once in so many seconds.
KEEP_S = 60
KEEP_ENDED_S = 3600  # nothing is added to it any more

log = structlog.get_logger(__name__)


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


GPUS = f"""
SELECT attempt_id, sum(utilization_sum) / nullif(sum(samples), 0), max(memory_used_mb_max)
  FROM {GPU_ROWS} r
 WHERE attempt_id = ANY(%(attempts)s)
   AND at >= {first_row("%(since)s")} AND at < {last_row("%(until)s")} GROUP BY 1
"""  # noqa: S608 no values

RECENT_GPUS = """
SELECT attempt_id, sum(utilization_sum) / nullif(sum(samples), 0)
  FROM telemetry_gpurollup WHERE attempt_id = ANY(%s) AND at > now() - %s GROUP BY 1
"""

TASKS = f"""
SELECT attempt_id, sum(cpu_percent_sum) / nullif(sum(samples), 0), max(memory_mb_max)
  FROM {TASK_ROWS} r
 WHERE attempt_id = ANY(%(attempts)s)
   AND at >= {first_row("%(since)s")} AND at < {last_row("%(until)s")} GROUP BY 1
"""  # noqa: S608 no values


def use_by_attempt(
    job: Job, index: int, first: int, attempts: Sequence[TaskAttempt]
) -> dict[UUID, Use]:
    """Return what each of these task attempts used, which are those of `attempts_of`. It is kept
    for KEEP_S: whether the reader may see the job was checked before. Three queries where it is
    not kept."""
    pks = [attempt.pk for attempt in attempts]
    if not pks:
        return {}
    ended = _is_over(job, index) and _are_over(attempt.released_at for attempt in attempts)
    key = f"skep:rank-use:{job.pk}:{index}:{first}"
    kept = _kept(
        key, ended, lambda: _use(attempts), lambda known: all(str(pk) in known for pk in pks)
    )
    return {pk: Use(*kept[str(pk)]) for pk in pks}


def _use(attempts: Sequence[TaskAttempt]) -> dict[str, list[Any]]:
    """Return the fields of `Use` by task attempt, as they are kept."""
    pks, now = [attempt.pk for attempt in attempts], timezone.now()
    span = {
        "attempts": pks,
        "since": min(attempt.created_at for attempt in attempts),
        "until": max(attempt.released_at or now for attempt in attempts),
    }
    gpus = {row[0]: row[1:] for row in _rows(GPUS, span)}
    recent = {row[0]: row[1] for row in _rows(RECENT_GPUS, pks, RECENT)}
    tasks = {row[0]: row[1:] for row in _rows(TASKS, span)}
    found = {}
    for pk in pks:
        mean, peak = gpus.get(pk, (None, None))
        found[str(pk)] = [mean, recent.get(pk), peak, *tasks.get(pk, (None, None))]
    return found


def _is_over(job: Job, index: int) -> bool:
    return index < job.attempt or job.state not in ACTIVE_JOB_STATES


def _are_over(released: Iterable[datetime | None]) -> bool:
    """Return whether no rollup comes any more, and none is recent."""
    before = timezone.now() - RECENT
    return all(at is not None and at < before for at in released)


def _kept(
    key: str,
    ended: bool,
    make: Callable[[], Any],
    is_whole: Callable[[Any], bool] = lambda _: True,
) -> Any:
    """Return what is kept under the key, or make it and keep it. Made anew while Valkey is down."""
    try:
        known = cache.get(key)
    except redis.RedisError as error:
        log.warning("cache_down", error=type(error).__name__)
        return make()
    if known is not None and is_whole(known):
        return known
    made = make()
    with contextlib.suppress(redis.RedisError):
        cache.set(key, made, KEEP_ENDED_S if ended else KEEP_S)
    return made


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


_OF_ATTEMPT = f"""attempt_id = ANY(a.ids)
   AND at >= {first_row("a.since")} AND at < {last_row("a.until")}"""
OF_ATTEMPT = f"""
SELECT g.util, g.memory, t.cpu, greatest(t.memory, a.peak), a.hours
  FROM (SELECT array_agg(id) AS ids, min(created_at) AS since,
               max(coalesce(released_at, now())) AS until, max(memory_peak_mb) AS peak,
               sum(jsonb_array_length(gpu_uuids) * extract(epoch FROM greatest(
                 coalesce(released_at, finished_at, now()) - created_at, interval '0'))) / 3600
                 AS hours
          FROM jobs_taskattempt WHERE job_id = %(job)s AND index = %(index)s) AS a,
       LATERAL (SELECT sum(utilization_sum) / nullif(sum(samples), 0) AS util,
                       max(memory_used_mb_max) AS memory
                  FROM {GPU_ROWS} r WHERE {_OF_ATTEMPT}) AS g,
       LATERAL (SELECT sum(cpu_percent_sum) / nullif(sum(samples), 0) AS cpu,
                       max(memory_mb_max) AS memory
                  FROM {TASK_ROWS} r WHERE {_OF_ATTEMPT}) AS t
"""  # noqa: S608 no values


def use_of_attempt(job: Job, index: int) -> dict[str, Any]:
    """Return what a job attempt used in all, on which nodes it ran, and how its tasks ended. Raises
    NotFound where the job had no such attempt. Four queries; its use is kept as that of ranks."""
    attempts = TaskAttempt.objects.filter(job=job, index=index).order_by()
    per_node = attempts.values("node__name").annotate(tasks=Count("task", distinct=True))
    nodes = list(per_node.order_by("-tasks", "node__name"))
    if not nodes:
        raise NotFound(f"The job has no attempt {index}.")
    ends = attempts.values("state", "exit_code", "exit_signal", "oom_killed")
    late = Q(released_at=None) | Q(released_at__gt=timezone.now() - RECENT)
    ended = _is_over(job, index) and not attempts.filter(late).exists()
    key = f"skep:attempt-use:{job.pk}:{index}"
    util, gpu_memory, cpu, memory, hours = _kept(key, ended, lambda: _sum(job, index))
    return {
        "nodes": [{"name": n["node__name"], "tasks": n["tasks"]} for n in nodes[:MOST_NODES]],
        "nodes_total": len(nodes),
        "ends": list(ends.annotate(tasks=Count("pk")).order_by("-tasks", "state")[:20]),
        "gpu_hours": hours,
        "gpu_utilization": util,
        "gpu_memory_peak_mb": gpu_memory,
        "cpu_percent": cpu,
        "memory_peak_mb": memory,
    }


def _sum(job: Job, index: int) -> list[Any]:
    ((*use, hours),) = _rows(OF_ATTEMPT, {"job": job.pk, "index": index})
    return [*use, float(hours or 0)]


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    values = params[0] if params and isinstance(params[0], dict) else params
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()
