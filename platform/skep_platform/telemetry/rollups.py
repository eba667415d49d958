"""Storing the use of GPUs and containers: newest values in Valkey, sums per minute in the database.

Only what a node may speak of is stored: its own devices, attempts that are on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

import redis
import structlog
from django.db import connection

from skep_platform.core.doorbells import valkey
from skep_platform.telemetry.appending import parse_id
from skep_platform.telemetry.use import BUCKET_S, Buckets, Live, Sum

log = structlog.get_logger(__name__)

LIVE_S = 60


def gpu_live_key(node_id: object) -> str:
    """Hash of GPU UUID -> JSON {"t": seconds since the epoch, "util": percent, "mem": MB}."""
    return f"skep:gpu:live:{node_id}"


def task_live_key(node_id: object) -> str:
    """Hash of attempt id -> JSON {"t": seconds since the epoch, "cpu": percent, "mem": MB}."""
    return f"skep:task:live:{node_id}"


def store_live(live: Live) -> None:
    """Never fails for a broker that is down: the next values follow in seconds."""
    if not live:
        return
    pipeline = valkey().pipeline(transaction=False)
    for node_id, (gpus, tasks) in live.items():
        for key, values in ((gpu_live_key(node_id), gpus), (task_live_key(node_id), tasks)):
            if values:
                pipeline.hset(key, mapping=cast(Any, values))
                pipeline.expire(key, LIVE_S)
    try:
        pipeline.execute()
    except (redis.RedisError, OSError) as error:
        log.warning("live_values_lost", error=type(error).__name__)


GPUS = """
INSERT INTO telemetry_gpurollup AS r (device_id, attempt_id, at, seconds, samples,
                                      utilization_sum, utilization_max, memory_used_mb_max)
SELECT v.device, v.attempt, v.at, %s, v.samples, v.total, v.top, v.memory
  FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::timestamptz[], %s::int[], %s::float8[],
              %s::float8[], %s::int[]) v (node, device, attempt, at, samples, total, top, memory)
  JOIN cluster_device d ON d.uuid = v.device AND d.node_id = v.node
  LEFT JOIN jobs_taskattempt a ON a.id = v.attempt
 WHERE v.attempt IS NULL OR a.node_id = v.node
 ORDER BY v.device, v.attempt, v.at
    ON CONFLICT (device_id, at, attempt_id) DO UPDATE
   SET samples = r.samples + excluded.samples,
       utilization_sum = r.utilization_sum + excluded.utilization_sum,
       utilization_max = greatest(r.utilization_max, excluded.utilization_max),
       memory_used_mb_max = greatest(r.memory_used_mb_max, excluded.memory_used_mb_max)
"""

TASKS = """
INSERT INTO telemetry_taskrollup AS r (attempt_id, at, seconds, samples, cpu_percent_sum,
                                       cpu_percent_max, memory_mb_max)
SELECT v.attempt, v.at, %s, v.samples, v.total, v.top, v.memory
  FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::int[], %s::float8[], %s::float8[],
              %s::int[]) v (node, attempt, at, samples, total, top, memory)
  JOIN jobs_taskattempt a ON a.id = v.attempt AND a.node_id = v.node
 ORDER BY v.attempt, v.at
    ON CONFLICT (attempt_id, at) DO UPDATE
   SET samples = r.samples + excluded.samples,
       cpu_percent_sum = r.cpu_percent_sum + excluded.cpu_percent_sum,
       cpu_percent_max = greatest(r.cpu_percent_max, excluded.cpu_percent_max),
       memory_mb_max = greatest(r.memory_mb_max, excluded.memory_mb_max)
"""


def store(buckets: Buckets) -> None:
    """Add these sums to the rollups. Two processes may add to the same rows: both go through them
    in one order, so that they cannot deadlock."""
    gpus, tasks = buckets.gpus, buckets.tasks
    with connection.cursor() as cursor:
        if gpus:
            keys = [(n, uuid, parse_id(held), _time(at)) for n, uuid, held, at in gpus]
            cursor.execute(GPUS, [BUCKET_S, *_columns(keys), *_sums(gpus.values())])
        if tasks:
            task_keys = [(n, parse_id(attempt), _time(at)) for n, attempt, at in tasks]
            cursor.execute(TASKS, [BUCKET_S, *_columns(task_keys), *_sums(tasks.values())])


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _sums(sums: Iterable[Sum]) -> list[list[Any]]:
    return _columns([(s.samples, s.total, s.top, s.memory_mb) for s in sums])
