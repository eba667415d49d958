"""Nodes of any name, size and model that join a whole Skep: agents with simulated GPUs and
containers that only exist in memory, all in one thread of the test."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
from tests.support.agent_process import AgentProcess
from tests.support.stack import Stack
from tests.support.stack_jobs import until

from skep_agent.config import AgentConfig
from skep_agent.join import join
from skep_agent.runtimes.mock import MockRuntime
from skep_agent.statedir import StateDir

PORTS_EACH = 200
CPUS_PER_GPU, MEMORY_MB_PER_GPU = 4, 8192
T = TypeVar("T")


class LiveNodes:
    """`with LiveNodes(stack, folder) as nodes: nodes.add("node-a", "A100", 8)`. At the end all
    are gone, from the cluster, too."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._agents: dict[str, AgentProcess] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> LiveNodes:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._agents:
            self._remove(name)
            self.kill(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(
        self, name: str, model: str, gpus: int, *, knows_gateway: bool = True, **labels: str
    ) -> None:
        """A node with CPU and memory in proportion; returns when it is online. One that does not
        know the gateway has joined before there was one."""
        first = 20000 + PORTS_EACH * len(self._agents)
        config = AgentConfig(
            state=self._folder / name,
            runtime="mock",
            simulated_gpus=gpus,
            gpu_model=model,
            address="127.0.0.1",
            port_range=(first, first + PORTS_EACH - 1),
            cpus=CPUS_PER_GPU * gpus,
            memory_mb=MEMORY_MB_PER_GPU * gpus,
            labels=labels,
            inventory_interval_s=0.2,
            reconnect_max_s=0.5,
        )
        with self._stack.api() as api:
            token = api.post("/nodes/join-tokens").raise_for_status().json()["token"]
        state = StateDir(config.state)
        identity = self._run(join(self._stack.url, token, name, state))
        if not knows_gateway:
            state.save(replace(identity, gateway_url=""))
        self._agents[name] = AgentProcess(config, runtime=MockRuntime())
        self.start(name)

    def start(self, name: str) -> None:
        """Returns when it is online."""

        async def begin() -> None:
            self._agents[name].start()

        self._run(begin())
        self.wait_for(name, "ONLINE")

    def kill(self, name: str) -> None:
        """The agent ends without a word."""
        self._run(self._agents[name].kill())

    def wait_for(self, name: str, state: str) -> None:
        with self._stack.api() as api:
            until(lambda: self._node(api, name)["state"] == state)

    def gpus(self, name: str) -> list[str]:
        """UUIDs in the order of their index."""
        with self._stack.api() as api:
            gpus = self._node(api, name)["gpus"]
        return [gpu["uuid"] for gpu in sorted(gpus, key=lambda gpu: gpu["index"])]

    def break_gpus(self, name: str, *uuids: str) -> None:
        """From now on these are bad, and no others; returns when that is known."""
        faults = StateDir(self._agents[name].config.state).gpu_faults
        faults.write_text(json.dumps(dict.fromkeys(uuids, "XID 79: fallen off the bus")))
        with self._stack.api() as api:
            until(lambda: self._bad(api, name) == set(uuids))

    def _remove(self, name: str) -> None:
        """Once its GPUs are clean."""
        with self._stack.api() as api:
            until(lambda: api.delete(f"/nodes/{name}").status_code in (204, 404))

    def _bad(self, api: httpx.Client, name: str) -> set[str]:
        gpus = self._node(api, name)["gpus"]
        return {gpu["uuid"] for gpu in gpus if gpu["health"] != "HEALTHY"}

    def _node(self, api: httpx.Client, name: str) -> dict[str, Any]:
        return api.get(f"/nodes/{name}").raise_for_status().json()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)
