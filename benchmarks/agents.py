"""`agents`: 500 connected agents of 8 GPUs each, with heartbeats and samples at their usual pace:
what they cost the server in CPU and memory, and the bytes between the parts. The reference is the
same server without agents.
SKEP_BENCH_AGENTS=500,2000 chooses the numbers of agents."""

from __future__ import annotations

import os
import time

from benchmarks.mock_agents import fleet
from benchmarks.parts import bytes_so_far
from benchmarks.report import report
from benchmarks.usage import cpu_seconds, memory_mb
from tests.support.stack import Stack, stack

SIZES = [int(n) for n in os.environ.get("SKEP_BENCH_AGENTS", "500").split(",")]
GPUS = 8
SETTLE_S, WATCH_S = 20, 60


def main() -> None:
    for agents in SIZES:
        with stack("--no-agents") as skep:
            _measure(skep, agents)


def _measure(skep: Stack, agents: int) -> None:
    name = f"agents_{agents}"
    idle_cpu, idle_memory = _watch(skep, WATCH_S / 2)
    with fleet(skep, agents, GPUS):
        time.sleep(SETTLE_S)
        before = bytes_so_far(skep)
        cpu, memory = _watch(skep, WATCH_S)
        sent = {way: size - before[way] for way, size in bytes_so_far(skep).items()}
        with skep.api() as api:
            online = api.get("/cluster").raise_for_status().json()["nodes"].get("ONLINE", 0)
    report(name, "online", online, "agents")
    report(name, "server_cpu", 100 * cpu, "percent of a core", 100 * idle_cpu)
    report(name, "server_memory", memory, "MiB", idle_memory)
    report(name, "server_cpu_per_agent", 1000 * (cpu - idle_cpu) / agents, "ms per s")
    report(name, "server_memory_per_agent", (memory - idle_memory) / agents, "MiB")
    for way, size in sent.items():
        report(name, f"bytes_per_agent_{way}", size / agents / WATCH_S, "B/s")


def _watch(skep: Stack, seconds: float) -> tuple[float, float]:
    """Return the cores used on average, and the memory at the end, of all server processes."""
    before, start = cpu_seconds(skep.processes()), time.monotonic()
    time.sleep(seconds)
    used = cpu_seconds(skep.processes()) - before
    return used / (time.monotonic() - start), memory_mb(skep.processes())


if __name__ == "__main__":
    main()
