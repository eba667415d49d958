"""`agents`: 500 connected agents of 8 GPUs each, with heartbeats and samples at their usual pace:
what they cost the server in CPU and memory. The reference is the same server without agents."""

from __future__ import annotations

import time

from benchmarks.mock_agents import fleet
from benchmarks.report import report
from benchmarks.usage import cpu_seconds, memory_mb
from tests.support.stack import Stack, stack

NODES, GPUS = 500, 8
SETTLE_S, WATCH_S = 20, 60


def main() -> None:
    with stack("--no-agents") as skep:
        idle_cpu, idle_memory = _watch(skep, WATCH_S / 2)
        with fleet(skep, NODES, GPUS):
            time.sleep(SETTLE_S)
            cpu, memory = _watch(skep, WATCH_S)
            with skep.api() as api:
                online = api.get("/cluster").raise_for_status().json()["nodes"].get("ONLINE", 0)
    report("agents", "online", online, "agents")
    report("agents", "server_cpu", 100 * cpu, "percent of a core", 100 * idle_cpu)
    report("agents", "server_memory", memory, "MiB", idle_memory)
    report("agents", "server_cpu_per_agent", 1000 * (cpu - idle_cpu) / NODES, "ms per s")
    report("agents", "server_memory_per_agent", (memory - idle_memory) / NODES, "MiB")


def _watch(skep: Stack, seconds: float) -> tuple[float, float]:
    """Return the cores used on average, and the memory at the end, of all server processes."""
    before, start = cpu_seconds(skep.processes()), time.monotonic()
    time.sleep(seconds)
    used = cpu_seconds(skep.processes()) - before
    return used / (time.monotonic() - start), memory_mb(skep.processes())


if __name__ == "__main__":
    main()
