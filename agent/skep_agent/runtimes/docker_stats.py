"""What containers use, from one-shot readings of the engine.

The engine's own CPU percentage takes two readings a second apart inside the call; here the reading
before is remembered instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from skep_agent.protocol import ContainerSample
from skep_agent.runtimes.docker_engine import Engine, EngineError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _CpuReading:
    at: float  # monotonic seconds
    used_ns: int


class Stats:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cpu: dict[str, _CpuReading] = {}
        self._peaks: dict[str, int] = {}  # bytes

    def started(self, container_id: str) -> None:
        """The first sample then has the mean since the start."""
        self._cpu[container_id] = _CpuReading(time.monotonic(), 0)

    def peak_mb(self, container_id: str) -> int | None:
        """Return the most memory in MiB that any sample saw used, without the page cache."""
        peak = self._peaks.get(container_id)
        return None if peak is None else peak // MIB

    def forget(self, container_id: str) -> None:
        self._cpu.pop(container_id, None)
        self._peaks.pop(container_id, None)

    async def sample(self, attempt_id: str, container_id: str) -> ContainerSample | None:
        """None for a container that does not run, or has only this first reading."""
        try:
            raw = await self._engine.stats(container_id)
        except EngineError:
            return None
        memory = raw.get("memory_stats") or {}
        if "usage" not in memory:
            return None
        self._note_peak(container_id, memory)
        percent = self._cpu_percent(container_id, raw["cpu_stats"]["cpu_usage"]["total_usage"])
        if percent is None:
            return None
        networks = (raw.get("networks") or {}).values()
        return ContainerSample(
            attempt_id=attempt_id,
            cpu_percent=percent,
            memory_mb=_used(memory) // MIB,
            network_rx_bytes=sum(each["rx_bytes"] for each in networks) if networks else None,
            network_tx_bytes=sum(each["tx_bytes"] for each in networks) if networks else None,
            disk_read_bytes=_disk(raw, "read"),
            disk_written_bytes=_disk(raw, "write"),
        )

    def _cpu_percent(self, container_id: str, used_ns: int) -> float | None:
        now = _CpuReading(time.monotonic(), used_ns)
        before = self._cpu.get(container_id)
        self._cpu[container_id] = now
        if before is None or now.at <= before.at:
            return None
        spent_s = max(0, now.used_ns - before.used_ns) / 1e9
        return round(100 * spent_s / (now.at - before.at), 1)

    def _note_peak(self, container_id: str, memory: dict[str, Any]) -> None:
        # Not the kernel's own peak ("max_usage" on cgroup v1): it counts the page cache, which
        # comes near the limit of any task that reads files. What is missed between two samples is
        # reported by the engine's OOM flag.
        self._peaks[container_id] = max(self._peaks.get(container_id, 0), _used(memory))


def _disk(raw: dict[str, Any], way: str) -> int | None:
    """Return the bytes that reached the disks. The page cache is not counted, nor are the file
    systems of the network. cgroup v1 writes "Read", v2 "read"."""
    rows = (raw.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    if not rows:
        return None
    return sum(int(row["value"]) for row in rows if row["op"].lower() == way)


def _used(memory: dict[str, Any]) -> int:
    """Without the page cache that the kernel would give back, as `docker stats` counts it."""
    stats = memory.get("stats") or {}
    cache = stats.get("total_inactive_file", stats.get("inactive_file", 0))
    return max(0, memory["usage"] - cache)
