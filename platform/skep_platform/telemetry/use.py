"""Samples of all nodes connected to this process, summed up in memory until they are stored."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from skep_agent.protocol import Samples

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
class Node:
    attempts: frozenset[str] = frozenset()
    holders: Mapping[str, str] = field(default_factory=dict)  # GPU UUID -> attempt id
    live_gpus: dict[str, str] = field(default_factory=dict)  # what Valkey has not been told
    live_tasks: dict[str, str] = field(default_factory=dict)


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
        self._nodes: dict[UUID, Node] = {}
        self._buckets = Buckets()

    def hold(self, node_id: UUID, gpus: Mapping[str, Sequence[str]]) -> None:
        """`gpus` are the GPU UUIDs of each attempt on the node."""
        with self._lock:
            node = self._nodes.setdefault(node_id, Node())
            node.attempts = frozenset(gpus)
            node.holders = {uuid: attempt for attempt, uuids in gpus.items() for uuid in uuids}

    def add(self, node_id: UUID, samples: Samples, now: float | None = None) -> None:
        now = time.time() if now is None else now
        bucket = int(now) // BUCKET_S * BUCKET_S
        with self._lock:
            node = self._nodes.setdefault(node_id, Node())
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
