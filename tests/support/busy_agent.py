"""Run as `python -m tests.support.busy_agent STATE SECONDS`: an agent with the mock runtime whose
main loop does nothing for so many seconds, once, as soon as STATE/busy exists."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from skep_agent.config import AgentConfig
from skep_agent.protocol import ContainerSample
from skep_agent.run import run_agent
from skep_agent.runtimes.mock import MockRuntime


class BusyRuntime(MockRuntime):
    def __init__(self, sign: Path, seconds: float) -> None:
        super().__init__()
        self._sign, self._seconds = sign, seconds

    async def sample(self, containers: dict[str, str]) -> list[ContainerSample]:
        if self._sign.exists():
            self._sign.unlink()
            time.sleep(self._seconds)  # noqa: ASYNC251 that is the point
        return await super().sample(containers)


def main() -> None:
    state, seconds = Path(sys.argv[1]), float(sys.argv[2])
    config = AgentConfig(
        state=state,
        runtime="mock",
        simulated_gpus=1,
        cpus=8,
        memory_mb=4096,
        address="127.0.0.1",
        reconnect_max_s=0.3,
    )
    asyncio.run(run_agent(config, runtime=BusyRuntime(state / "busy", seconds)))


if __name__ == "__main__":
    main()
