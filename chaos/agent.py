"""`python -m chaos.agent STATE ENGINES NODE GPUS`: the agent of one simulated node.

It is the real one, its watchdog too. Its containers are in `chaos.engine`, and its GPUs simulated.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from chaos.runtime import EngineRuntime

from skep_agent.config import AgentConfig
from skep_agent.main import configure_logs, until_signalled
from skep_agent.run import run_agent
from skep_agent.shell.lease_guard import EngineToKill
from skep_agent.shell.link import FatalClose
from skep_agent.statedir import StateError

GPU_MODEL = "Simulated-GPU"
TURNED_AWAY = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("engines", type=Path, help="folder of the engines' sockets")
    parser.add_argument("node")
    parser.add_argument("gpus", type=int)
    given = parser.parse_args()
    configure_logs()
    config = AgentConfig(
        state=given.state,
        runtime="mock",
        simulated_gpus=given.gpus,
        gpu_model=GPU_MODEL,
        address="127.0.0.1",
        cpus=256,
        memory_mb=1 << 20,
        containers_interval_s=5.0,
        reconnect_max_s=3.0,
        validate=True,
    )
    runtime = EngineRuntime(given.engines / f"{given.node}.calls")
    engine = EngineToKill(f"unix://{given.engines / given.node}.docker", "", ["skep.chaos"])
    try:
        asyncio.run(until_signalled(run_agent(config, runtime=runtime, engine=engine)))
    except (StateError, FatalClose) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(TURNED_AWAY)


if __name__ == "__main__":
    main()
