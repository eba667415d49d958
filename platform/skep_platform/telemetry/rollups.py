"""The use of GPUs and containers over time: samples of the nodes that are connected to this
process, summed up in memory; newest values in Valkey and sums per minute in the database. What a
job reads of both is in `metrics`.

Only what a node may report is stored: its own devices, attempts that are on it.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import redis
import structlog
from django.db import connection

from skep_agent.protocol import ContainerSample, Samples
from skep_platform.core.notifications import valkey
from skep_platform.telemetry.appending import parse_id
from skep_platform.telemetry.downsampling import MINUTE_S

BUCKET_S = MINUTE_S
FINE_S = 10  # of the points of an attempt's first FINE_SPAN_S
FINE_SPAN_S = 3600
MAX_GPUS = 256  # per node; a rogue agent cannot fill the memory with inventions
MAX_INT = 2**31 - 1
MAX_BYTES = 2**44  # between two samples
MAX_STORED = 2**53  # bytes of a flush: a minute of a rogue agent's does not overflow its row
MAX_POWER_W = 10_000.0
GPU_UUID = re.compile(r"[A-Za-z0-9/_.:-]{1,80}")


# What is summed up beside percent and memory: watts of a GPU, or bytes of a container that were
# received, sent, read and written since the sample before. None: not measured.
More = tuple[float | None, ...]
GPU_MORE = ("power_w",)


@dataclass(slots=True)
class Sum:
    """Samples of one GPU or container within one bucket."""

    samples: int = 0
    total: float = 0.0  # percent
    top: float = 0.0  # percent
    memory_mb: int = 0  # the most that was used
    more: More = ()
    measured: tuple[int, ...] = ()  # how many samples had each of these
    fine: dict[int, Sum] = field(default_factory=dict)  # by seconds since the bucket began

    def add(self, percent: float, memory_mb: int, more: More, slot: int | None = None) -> None:
        """Take a sample; `slot`: also into the part of the bucket that begins there."""
        self.samples += 1
        self.total += percent
        self.top = max(self.top, percent)
        self.memory_mb = max(self.memory_mb, memory_mb)
        self.more = _plus(self.more, more)
        self.measured = _counted(self.measured, tuple([int(value is not None) for value in more]))
        if slot is not None:
            self.fine.setdefault(slot, Sum()).add(percent, memory_mb, more)

    def merge(self, other: Sum) -> None:
        self.samples += other.samples
        self.total += other.total
        self.top = max(self.top, other.top)
        self.memory_mb = max(self.memory_mb, other.memory_mb)
        self.more = _plus(self.more, other.more)
        self.measured = _counted(self.measured, other.measured)
        for slot, part in other.fine.items():
            self.fine.setdefault(slot, Sum()).merge(part)


def _plus(one: More, other: More) -> More:
    if not one:
        return other
    return tuple(
        [b if a is None else a if b is None else a + b for a, b in zip(one, other, strict=True)]
    )


def _counted(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([a + b for a, b in zip(one, other, strict=True)]) if one else other


@dataclass(slots=True)
class NodeUse:
    attempts: frozenset[str] = frozenset()
    holders: Mapping[str, str] = field(default_factory=dict)  # GPU UUID -> attempt id
    live_gpus: dict[str, str] = field(default_factory=dict)  # not yet written to Valkey
    live_tasks: dict[str, str] = field(default_factory=dict)
    # Attempt id -> when its container was first measured here. Parts of an older one are not
    # stored.
    since: dict[str, float] = field(default_factory=dict)
    counters: dict[str, More] = field(default_factory=dict)  # attempt id -> its newest ones
    sessions: int = 0  # open in this process

    def is_young(self, attempt: str, now: float) -> bool:
        """Return whether its container runs for less than an hour, or not yet: an image may be
        pulled for longer."""
        return now - self.since.get(attempt, now) < FINE_SPAN_S

    def spent(self, task: ContainerSample) -> More:
        """Return what the counters of a container rose by since its sample before."""
        now = (
            *(task.network_rx_bytes, task.network_tx_bytes),
            *(task.disk_read_bytes, task.disk_written_bytes),
        )
        before = self.counters.get(task.attempt_id)
        self.counters[task.attempt_id] = now
        if before is None:
            return (None,) * len(now)
        return tuple(
            None if a is None or b is None or not 0 <= b - a <= MAX_BYTES else b - a
            for a, b in zip(before, now, strict=True)
        )


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

    def hold(
        self, node_id: UUID, gpus: Mapping[str, Sequence[str]], kept: Collection[str] = ()
    ) -> None:
        """`gpus` are the GPU UUIDs of each attempt on the node; those of `kept` stay as known."""
        with self._lock:
            node = self._nodes.setdefault(node_id, NodeUse())
            node.attempts = frozenset(gpus) | frozenset(kept)
            before = {uuid: one for uuid, one in node.holders.items() if one in kept}
            held = {uuid: attempt for attempt, uuids in gpus.items() for uuid in uuids}
            node.holders = before | held
            for known in (node.since, node.counters):
                for attempt in [one for one in known if one not in node.attempts]:
                    del known[attempt]

    def add(self, node_id: UUID, samples: Samples, now: float | None = None) -> None:
        now = time.time() if now is None else now
        bucket = int(now) // BUCKET_S * BUCKET_S
        slot = (int(now) - bucket) // FINE_S * FINE_S
        with self._lock:
            node = self._nodes.setdefault(node_id, NodeUse())
            for gpu in samples.gpus[:MAX_GPUS]:
                if not GPU_UUID.fullmatch(gpu.uuid):
                    continue
                holder = node.holders.get(gpu.uuid, "")
                percent, memory = _percent(gpu.utilization, 100.0), _whole(gpu.memory_used_mb)
                power = _power(gpu.power_w)
                node.live_gpus[gpu.uuid] = _gpu_json(now, percent, memory, power)
                key = (node_id, gpu.uuid, holder, bucket)
                young = bool(holder) and node.is_young(holder, now)
                found = self._buckets.gpus.setdefault(key, Sum())
                found.add(percent, memory, (power,), slot if young else None)
            for task in samples.containers:
                if task.attempt_id in node.attempts:
                    percent, memory = _percent(task.cpu_percent, 1e6), _whole(task.memory_mb)
                    node.live_tasks[task.attempt_id] = _json(now, cpu=percent, mem=memory)
                    task_key = (node_id, task.attempt_id, bucket)
                    node.since.setdefault(task.attempt_id, now)
                    young, more = node.is_young(task.attempt_id, now), node.spent(task)
                    found = self._buckets.tasks.setdefault(task_key, Sum())
                    found.add(percent, memory, more, slot if young else None)

    def take_live(self) -> Live:
        """Values that are new since the last call, per node: of GPUs, of containers."""
        with self._lock:
            taken = {n: (node.live_gpus, node.live_tasks) for n, node in self._nodes.items()}
            for node in self._nodes.values():
                node.live_gpus, node.live_tasks = {}, {}
        return {n: live for n, live in taken.items() if live[0] or live[1]}

    def take_buckets(self, now: float | None = None) -> Buckets:
        """Return what was summed up since the last call. The part of a bucket that still goes on
        stays, so that it is stored once and whole."""
        begun = int(time.time() if now is None else now) // FINE_S * FINE_S
        with self._lock:
            taken, self._buckets = self._buckets, Buckets()
            _keep_part(taken.gpus, self._buckets.gpus, begun)
            _keep_part(taken.tasks, self._buckets.tasks, begun)
        return taken

    def put_back(self, taken: Buckets) -> None:
        """What was taken could not be stored: keep it for the next time."""
        with self._lock:
            for gpu_key, gpu in taken.gpus.items():
                self._buckets.gpus.setdefault(gpu_key, Sum()).merge(gpu)
            for task_key, task in taken.tasks.items():
                self._buckets.tasks.setdefault(task_key, Sum()).merge(task)


def _keep_part(taken: dict[Any, Sum], kept: dict[Any, Sum], begun: int) -> None:
    """Move the parts that begin at `begun`."""
    for key, found in list(taken.items()):
        part = found.fine.pop(begun - key[-1], None)
        if part is not None:
            none = len(found.more)
            kept[key] = Sum(more=(None,) * none, measured=(0,) * none, fine={begun - key[-1]: part})
            if not found.samples and not found.fine:
                del taken[key]


def _gpu_json(now: float, percent: float, memory_mb: int, power: float | None) -> str:
    """Several times as fast as json.dumps, for each sample of each GPU; all numbers are finite."""
    watts = "null" if power is None else power
    return f'{{"t": {now:.1f}, "util": {percent}, "mem": {memory_mb}, "power": {watts}}}'


def _json(now: float, **values: float | None) -> str:
    return json.dumps({"t": round(now, 1)} | values)


def _percent(value: float, most: float) -> float:
    return round(float(min(max(value, 0.0), most)), 1) if math.isfinite(value) else 0.0


def _power(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return round(float(min(max(value, 0.0), MAX_POWER_W)), 1)


def _whole(value: int) -> int:
    return min(max(value, 0), MAX_INT)


log = structlog.get_logger(__name__)

LIVE_S = 60


def gpu_live_key(node_id: object) -> str:
    """Hash of GPU UUID -> JSON {"t": seconds since the epoch, "util": percent, "mem": MB,
    "power": W or null}."""
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


# Parts are of the first hour of an attempt, whichever gateway its node is connected to since when.
STORE_GPUS = f"""
INSERT INTO telemetry_gpurollup AS r (device_id, attempt_id, at, seconds, samples,
                                      utilization_sum, utilization_max, memory_used_mb_max, fine,
                                      power_w_sum, power_samples)
SELECT v.device, v.attempt, v.at, %s, v.samples, v.total, v.top, v.memory,
       CASE WHEN v.at < coalesce(a.started_at, a.created_at) + interval '{FINE_SPAN_S} s'
            THEN v.fine::jsonb END,
       v.power, v.powered
  FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::timestamptz[], %s::int[], %s::float8[],
              %s::float8[], %s::int[], %s::text[], %s::float8[], %s::int[])
       v (node, device, attempt, at, samples, total, top, memory, fine, power, powered)
  JOIN cluster_device d ON d.uuid = v.device AND d.node_id = v.node
  LEFT JOIN jobs_taskattempt a ON a.id = v.attempt
 WHERE v.attempt IS NULL OR a.node_id = v.node
 ORDER BY v.device, v.attempt, v.at
    ON CONFLICT (device_id, at, attempt_id) DO UPDATE
   SET samples = r.samples + excluded.samples,
       utilization_sum = r.utilization_sum + excluded.utilization_sum,
       utilization_max = greatest(r.utilization_max, excluded.utilization_max),
       memory_used_mb_max = greatest(r.memory_used_mb_max, excluded.memory_used_mb_max),
       power_w_sum = coalesce(r.power_w_sum + excluded.power_w_sum, excluded.power_w_sum,
                              r.power_w_sum),
       power_samples = r.power_samples + excluded.power_samples,
       fine = coalesce(r.fine || excluded.fine, excluded.fine, r.fine)
"""  # noqa: S608

STORE_TASKS = f"""
INSERT INTO telemetry_taskrollup AS r (attempt_id, at, seconds, samples, cpu_percent_sum,
                                       cpu_percent_max, memory_mb_max, fine, network_rx_bytes,
                                       network_tx_bytes, disk_read_bytes, disk_written_bytes,
                                       byte_samples)
SELECT v.attempt, v.at, %s, v.samples, v.total, v.top, v.memory,
       CASE WHEN v.at < coalesce(a.started_at, a.created_at) + interval '{FINE_SPAN_S} s'
            THEN v.fine::jsonb END,
       v.received, v.sent, v.read, v.written, ARRAY[v.n1, v.n2, v.n3, v.n4]
  FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::int[], %s::float8[], %s::float8[],
              %s::int[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
              %s::int[], %s::int[], %s::int[], %s::int[])
       v (node, attempt, at, samples, total, top, memory, fine, received, sent, read, written,
          n1, n2, n3, n4)
  JOIN jobs_taskattempt a ON a.id = v.attempt AND a.node_id = v.node
 ORDER BY v.attempt, v.at
    ON CONFLICT (attempt_id, at) DO UPDATE
   SET samples = r.samples + excluded.samples,
       cpu_percent_sum = r.cpu_percent_sum + excluded.cpu_percent_sum,
       cpu_percent_max = greatest(r.cpu_percent_max, excluded.cpu_percent_max),
       memory_mb_max = greatest(r.memory_mb_max, excluded.memory_mb_max),
       network_rx_bytes = coalesce(r.network_rx_bytes + excluded.network_rx_bytes,
                                   excluded.network_rx_bytes, r.network_rx_bytes),
       network_tx_bytes = coalesce(r.network_tx_bytes + excluded.network_tx_bytes,
                                   excluded.network_tx_bytes, r.network_tx_bytes),
       disk_read_bytes = coalesce(r.disk_read_bytes + excluded.disk_read_bytes,
                                  excluded.disk_read_bytes, r.disk_read_bytes),
       disk_written_bytes = coalesce(r.disk_written_bytes + excluded.disk_written_bytes,
                                     excluded.disk_written_bytes, r.disk_written_bytes),
       byte_samples = ARRAY[r.byte_samples[1] + excluded.byte_samples[1],
                            r.byte_samples[2] + excluded.byte_samples[2],
                            r.byte_samples[3] + excluded.byte_samples[3],
                            r.byte_samples[4] + excluded.byte_samples[4]],
       fine = coalesce(r.fine || excluded.fine, excluded.fine, r.fine)
"""  # noqa: S608


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
    return _transposed(
        [
            (s.samples, s.total, s.top, s.memory_mb, _fine(s), *_stored(s.more), *s.measured)
            for s in sums
        ]
    )


def _stored(more: More) -> More:
    return tuple(None if value is None else min(value, MAX_STORED) for value in more)


def _fine(found: Sum) -> str | None:
    """Return the parts of a bucket as JSON."""
    if not found.fine:
        return None
    return json.dumps({str(slot): _means(part) for slot, part in found.fine.items()})


def _means(part: Sum) -> list[float | None]:
    # Watts are those of each sample, and bytes those of all: of the seconds that were measured.
    each = 1.0 if len(part.more) == len(GPU_MORE) else FINE_S / part.samples
    more = [
        None if value is None else round(value / (each * number), 1)
        for value, number in zip(part.more, part.measured, strict=True)
    ]
    return [round(part.total / part.samples, 1), part.memory_mb, *more]
