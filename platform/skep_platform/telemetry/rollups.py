"""The use of GPUs and containers over time: samples of the nodes that are connected to this
process, summed up in memory; newest values in Valkey and sums per minute in the database; and what
a job reads of both.

Only what a node may report is stored: its own devices, attempts that are on it.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import redis
import structlog
from django.db import connection
from django.utils import timezone

from skep_agent.protocol import Samples
from skep_platform.core.notifications import valkey
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry.appending import parse_id

BUCKET_S = 60
MAX_GPUS = 256  # per node; a rogue agent cannot fill the memory with inventions
MAX_INT = 2**31 - 1
GPU_UUID = re.compile(r"[A-Za-z0-9/_.:-]{1,80}")


@dataclass(slots=True)
class Sum:
    """Samples of one GPU or container within one bucket."""

    samples: int = 0
    total: float = 0.0  # percent
    top: float = 0.0  # percent
    memory_mb: int = 0  # the most that was used

    def add(self, percent: float, memory_mb: int) -> None:
        self.samples += 1
        self.total += percent
        self.top = max(self.top, percent)
        self.memory_mb = max(self.memory_mb, memory_mb)

    def merge(self, other: Sum) -> None:
        self.samples += other.samples
        self.total += other.total
        self.top = max(self.top, other.top)
        self.memory_mb = max(self.memory_mb, other.memory_mb)


@dataclass(slots=True)
class NodeUse:
    attempts: frozenset[str] = frozenset()
    holders: Mapping[str, str] = field(default_factory=dict)  # GPU UUID -> attempt id
    live_gpus: dict[str, str] = field(default_factory=dict)  # not yet written to Valkey
    live_tasks: dict[str, str] = field(default_factory=dict)
    sessions: int = 0  # open in this process


# (node, GPU UUID, attempt id or "", start of the bucket), (node, attempt id, start of the bucket)
GpuKey = tuple[UUID, str, str, int]
TaskKey = tuple[UUID, str, int]
Live = dict[UUID, tuple[dict[str, str], dict[str, str]]]


@dataclass(slots=True)
class Buckets:
    gpus: dict[GpuKey, Sum] = field(default_factory=dict)
    tasks: dict[TaskKey, Sum] = field(default_factory=dict)


class ClusterUse:
    """Safe for threads. Times are the server's: a node's clock may be wrong."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[UUID, NodeUse] = {}
        self._buckets = Buckets()

    def connect(self, node_id: UUID) -> None:
        """Begin a session of the node in this process."""
        with self._lock:
            self._nodes.setdefault(node_id, NodeUse()).sessions += 1

    def disconnect(self, node_id: UUID) -> None:
        """End a session. After its last one a node takes no memory here; sums that are not stored
        yet stay until they are."""
        with self._lock:
            node = self._nodes.get(node_id)
            if node is not None:
                node.sessions -= 1
                if node.sessions <= 0:
                    del self._nodes[node_id]

    def hold(self, node_id: UUID, gpus: Mapping[str, Sequence[str]]) -> None:
        """`gpus` are the GPU UUIDs of each attempt on the node."""
        with self._lock:
            node = self._nodes.setdefault(node_id, NodeUse())
            node.attempts = frozenset(gpus)
            node.holders = {uuid: attempt for attempt, uuids in gpus.items() for uuid in uuids}

    def add(self, node_id: UUID, samples: Samples, now: float | None = None) -> None:
        now = time.time() if now is None else now
        bucket = int(now) // BUCKET_S * BUCKET_S
        with self._lock:
            node = self._nodes.setdefault(node_id, NodeUse())
            for gpu in samples.gpus[:MAX_GPUS]:
                if not GPU_UUID.fullmatch(gpu.uuid):
                    continue
                holder = node.holders.get(gpu.uuid, "")
                percent, memory = _percent(gpu.utilization, 100), _whole(gpu.memory_used_mb)
                node.live_gpus[gpu.uuid] = _json(now, util=percent, mem=memory)
                key = (node_id, gpu.uuid, holder, bucket)
                self._buckets.gpus.setdefault(key, Sum()).add(percent, memory)
            for task in samples.containers:
                if task.attempt_id in node.attempts:
                    percent, memory = _percent(task.cpu_percent, 1e6), _whole(task.memory_mb)
                    node.live_tasks[task.attempt_id] = _json(now, cpu=percent, mem=memory)
                    task_key = (node_id, task.attempt_id, bucket)
                    self._buckets.tasks.setdefault(task_key, Sum()).add(percent, memory)

    def take_live(self) -> Live:
        """Values that are new since the last call, per node: of GPUs, of containers."""
        with self._lock:
            taken = {n: (node.live_gpus, node.live_tasks) for n, node in self._nodes.items()}
            for node in self._nodes.values():
                node.live_gpus, node.live_tasks = {}, {}
        return {n: live for n, live in taken.items() if live[0] or live[1]}

    def take_buckets(self) -> Buckets:
        with self._lock:
            taken, self._buckets = self._buckets, Buckets()
        return taken

    def put_back(self, taken: Buckets) -> None:
        """What was taken could not be stored: keep it for the next time."""
        with self._lock:
            for gpu_key, gpu in taken.gpus.items():
                self._buckets.gpus.setdefault(gpu_key, Sum()).merge(gpu)
            for task_key, task in taken.tasks.items():
                self._buckets.tasks.setdefault(task_key, Sum()).merge(task)


def _json(now: float, **values: float) -> str:
    return json.dumps({"t": round(now, 1)} | values)


def _percent(value: float, most: float) -> float:
    return round(min(max(value, 0.0), most), 1) if math.isfinite(value) else 0.0


def _whole(value: int) -> int:
    return min(max(value, 0), MAX_INT)


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


STORE_GPUS = """
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

STORE_TASKS = """
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


def store_rollups(buckets: Buckets) -> None:
    """Add these sums to the rollups. Two processes may add to the same rows: both go through them
    in one order, so that they cannot deadlock."""
    gpus, tasks = buckets.gpus, buckets.tasks
    with connection.cursor() as cursor:
        if gpus:
            keys = [(n, uuid, parse_id(held), _moment(at)) for n, uuid, held, at in gpus]
            cursor.execute(STORE_GPUS, [BUCKET_S, *_transposed(keys), *_sums(gpus.values())])
        if tasks:
            task_keys = [(n, parse_id(attempt), _moment(at)) for n, attempt, at in tasks]
            cursor.execute(STORE_TASKS, [BUCKET_S, *_transposed(task_keys), *_sums(tasks.values())])


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _transposed(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _sums(sums: Iterable[Sum]) -> list[list[Any]]:
    return _transposed([(s.samples, s.total, s.top, s.memory_mb) for s in sums])


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
