"""Agents in this process: start, kill, restart; a clock that tests move."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from skep_agent.accelerators.base import GpuProbe
from skep_agent.config import AgentConfig
from skep_agent.core.events import Moment
from skep_agent.run import run_agent
from skep_agent.runtimes.base import Runtime
from skep_agent.runtimes.mock import MockRuntime
from skep_agent.shell.clock import Clock
from skep_agent.statedir import Identity, StateDir


class FakeClock(Clock):
    """Stands still until `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._cancelled: set[int] = set()
        self._lock = threading.Lock()  # the link's thread sleeps by this clock, too

    def moment(self) -> Moment:
        return Moment(self.now, time.time())

    async def sleep(self, seconds: float) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        self.call_at(self.now + seconds, wake)
        await done.wait()

    def call_at(self, mono: float, callback: Callable[[], None]) -> FakeTimer:
        number = next(self._numbers)
        with self._lock:
            heapq.heappush(self._timers, (mono, number, callback))
        return FakeTimer(self._cancelled, number)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            with self._lock:
                _, number, callback = heapq.heappop(self._timers)
            if number not in self._cancelled:
                callback()


class FakeTimer:
    def __init__(self, cancelled: set[int], number: int) -> None:
        self._cancelled, self._number = cancelled, number

    def cancel(self) -> None:
        self._cancelled.add(self._number)


def config_for(state: Path, server: str, name: str = "n1") -> AgentConfig:
    """A mock node with simulated GPUs that has joined; every invariant is checked as it runs."""
    identity = Identity(server, name, f"id-{name}", "test", f"secret-{name}")
    StateDir(state).save(identity)
    return AgentConfig(
        state=state,
        runtime="mock",
        simulated_gpus=8,
        cpus=64,
        memory_mb=65536,
        inventory_interval_s=0.05,
        containers_interval_s=0.2,
        reconnect_max_s=0.3,
        validate=True,
    )


class AgentProcess:
    """One node's agent over its lives: `start`, `kill`, `start` again on the same containers."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        runtime: Runtime | None = None,
        probe: GpuProbe | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.runtime = runtime or MockRuntime()
        self.probe = probe
        self.clock = clock
        self.task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        work = run_agent(self.config, runtime=self.runtime, probe=self.probe, clock=self.clock)
        self.task = asyncio.create_task(work)
        return self.task

    async def kill(self) -> None:
        """It ends without a word to anyone; its containers go on."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def reconfigure(self, **changes: object) -> None:
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AgentProcess]:
        """Raises what the agent died of, if it did."""
        self.start()
        try:
            yield self
        finally:
            task = self.task
            assert task is not None
            died = task.done() and not task.cancelled() and task.exception()
            await self.kill()
        if died:
            raise died
