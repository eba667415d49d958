"""`reconnect`: SIGKILL of the gateway with many connected agents: until all are back, and how many
nodes were judged lost although they lived. Also what joining costs. Everything on this machine,
the agents included; SKEP_BENCH_AGENTS=500,1000 chooses the sizes.

The reference is the goal: all back within 20 s, none lost, 20 ms of the server to join.
"""

from __future__ import annotations

import os
import time

from benchmarks.mock_agents import fleet
from benchmarks.report import report
from benchmarks.usage import cpu_seconds
from tests.support.stack import Stack, descendants, stack

SIZES = [int(n) for n in os.environ.get("SKEP_BENCH_AGENTS", "500,1000,2000").split(",")]
GPUS = 8
GOAL_S, GOAL_JOIN_MS = 20.0, 20.0
WITHIN_S = 240
SETTLE_S = 15


def main() -> None:
    for agents in SIZES:
        with stack("--no-agents") as skep:
            _measure(skep, agents)


def _measure(skep: Stack, agents: int) -> None:
    name = f"reconnect_{agents}"
    idle = _idle_cores(skep)
    before, start = _cpu(skep), time.monotonic()
    with fleet(skep, agents, GPUS):
        passed = time.monotonic() - start
        spent = {part: cpu - before[part] for part, cpu in _cpu(skep).items()}
        joined = sum(spent.values()) - idle * passed
        report(name, "joined_after", passed, "s")
        for part, cpu in spent.items():
            report(name, f"join_cpu_{part}", 1000 * cpu / agents, "ms per agent")
        report(name, "join_server_cpu", 1000 * joined / agents, "ms per agent", GOAL_JOIN_MS)
        time.sleep(SETTLE_S)
        pid, killed = skep.kill("gateway"), time.monotonic()
        while (back := _back(skep, killed)) < agents:
            if time.monotonic() - killed > WITHIN_S:
                break
            time.sleep(0.1)
        report(name, "all_back_after", time.monotonic() - killed, "s", GOAL_S)
        report(name, "back", back, "agents", agents)
        time.sleep(SETTLE_S)
        [(lost,)] = skep.query("SELECT count(*) FROM core_event WHERE kind = 'node.lost'")
        report(name, "judged_lost", lost, "nodes")
        new = skep.pids()["gateway"]
        assert new != pid
        report(name, "gateway_cpu_per_agent", 1000 * cpu_seconds([new]) / agents, "ms")


def _cpu(skep: Stack) -> dict[str, float]:
    """Seconds used so far by each part and its children."""
    return {part: cpu_seconds({pid, *descendants(pid)}) for part, pid in skep.pids().items()}


def _idle_cores(skep: Stack) -> float:
    """What the server uses without agents."""
    before = _cpu(skep)
    time.sleep(SETTLE_S)
    return (sum(_cpu(skep).values()) - sum(before.values())) / SETTLE_S


def _back(skep: Stack, killed: float) -> int:
    """Agents that have said something since."""
    ages = skep.query(
        "SELECT extract(epoch FROM now() - last_heartbeat_at) FROM cluster_node WHERE connected"
    )
    passed = time.monotonic() - killed
    return sum(age is not None and age < passed for (age,) in ages)


if __name__ == "__main__":
    main()
