"""`reconnect`: kill the gateway with many connected agents, and measure how long it takes until all
are back and how many nodes count as lost although they live. Also measures what joining costs.

The CPU time of a join is that of all parts of the server while the agents join, less what the
server uses without agents and less the heartbeats and samples of the agents that have joined
already, which is reported by itself. Everything runs on this machine, the agents included;
SKEP_BENCH_AGENTS=500,1000 chooses the numbers of agents.

The reference is the goal: all back within 20 s, none lost, 20 ms of the server to join.
"""

from __future__ import annotations

import os
import time

from benchmarks.mock_agents import fleet
from benchmarks.parts import cores_by_part, cpu_by_part
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
    idle = cores_by_part(skep, SETTLE_S)
    before, start = cpu_by_part(skep), time.monotonic()
    with fleet(skep, agents, GPUS):
        passed = time.monotonic() - start
        spent = {part: cpu - before[part] for part, cpu in cpu_by_part(skep).items()}
        connected_s = _connected_s(skep)
        rates = cores_by_part(skep, SETTLE_S)
        connected = {part: rate - idle[part] for part, rate in rates.items()}
        report(name, "joined_after", passed, "s")
        joining = {
            part: spent[part] - idle[part] * passed - connected[part] / agents * connected_s
            for part in spent
        }
        for part, cpu in joining.items():
            report(name, f"join_cpu_{part}", 1000 * cpu / agents, "ms per agent")
        cpu = 1000 * sum(joining.values()) / agents
        report(name, "join_server_cpu", cpu, "ms per agent", GOAL_JOIN_MS)
        cpu = 1000 * sum(connected.values()) / agents
        report(name, "connected_server_cpu", cpu, "ms per agent and second")
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


def _connected_s(skep: Stack) -> float:
    """Return for how many seconds the agents have been connected, all together."""
    [(seconds,)] = skep.query(
        "SELECT sum(extract(epoch FROM now() - at)) FROM core_event WHERE kind = 'node.online'"
    )
    return float(seconds)


def _back(skep: Stack, killed: float) -> int:
    """Return how many agents have sent a heartbeat since the kill."""
    ages = skep.query(
        "SELECT extract(epoch FROM now() - last_heartbeat_at) FROM cluster_node WHERE connected"
    )
    passed = time.monotonic() - killed
    return sum(age is not None and age < passed for (age,) in ages)


if __name__ == "__main__":
    main()
