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
from tests.support.stack import Stack, stack

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
    cpu, start = cpu_seconds(skep.processes()), time.monotonic()
    with fleet(skep, agents, GPUS):
        joined = cpu_seconds(skep.processes()) - cpu
        report(name, "joined_after", time.monotonic() - start, "s")
        report(name, "join_server_cpu", 1000 * joined / agents, "ms per agent", GOAL_JOIN_MS)
        time.sleep(SETTLE_S)
        pid, killed = skep.kill("gateway"), time.monotonic()
        first = 0.0
        while (back := _back(skep, killed)) < agents:
            if back and not first:
                first = time.monotonic() - killed
            if time.monotonic() - killed > WITHIN_S:
                break
            time.sleep(0.1)
        report(name, "first_back_after", first, "s")
        report(name, "all_back_after", time.monotonic() - killed, "s", GOAL_S)
        report(name, "back", back, "agents", agents)
        time.sleep(SETTLE_S)
        [(lost,)] = skep.query("SELECT count(*) FROM core_event WHERE kind = 'node.lost'")
        report(name, "judged_lost", lost, "nodes")
        new = skep.pids()["gateway"]
        assert new != pid
        report(name, "gateway_cpu_per_agent", 1000 * cpu_seconds([new]) / agents, "ms")


def _back(skep: Stack, killed: float) -> int:
    """Agents that have said something since."""
    ages = skep.query(
        "SELECT extract(epoch FROM now() - last_heartbeat_at) FROM cluster_node WHERE connected"
    )
    passed = time.monotonic() - killed
    return sum(age is not None and age < passed for (age,) in ages)


if __name__ == "__main__":
    main()
