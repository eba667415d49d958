"""Questions to the driver of the GPUs, on threads of their own.

A driver may hang for minutes, or until the machine is started anew. It then holds these few
threads, and nothing else of the agent waits for one of them: logs, the disk and names of hosts are
read on others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from skep_agent.accelerators.base import GpuProbe
from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.protocol import Gpu, GpuSample

THREADS = 4
PATIENCE_S = 60.0  # past this the GPUs are bad until the driver answers
SAMPLES_S = 15.0
SILENT = f"the driver has not answered for {PATIENCE_S:.0f} s"

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Probing:
    """Asks one probe."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="probe")
        self._asked: asyncio.Future[list[Gpu]] | None = None  # and not answered yet

    def close(self) -> None:
        """Wait for nothing that was asked."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def ask(self, question: Callable[[], T]) -> T:
        """Simulated GPUs answer at once; a driver may take its time."""
        if isinstance(self._probe, SimulatedGpus):
            return question()
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    async def gpus(self, last: Iterable[Gpu]) -> list[Gpu]:
        """Return all GPUs. While the driver does not answer, they are the `last` ones, and bad."""
        if self._asked is None:
            self._asked = asyncio.ensure_future(self.ask(self._probe.gpus))
        await asyncio.wait({self._asked}, timeout=PATIENCE_S)
        if not self._asked.done():
            log.error("driver_silent", problem=SILENT)
            return [one.model_copy(update={"healthy": False, "problem": SILENT}) for one in last]
        asked, self._asked = self._asked, None
        return asked.result()

    async def samples(self) -> list[GpuSample]:
        """Return none while the driver does not answer."""
        try:
            async with asyncio.timeout(SAMPLES_S):
                return await self.ask(self._probe.samples)
        except TimeoutError:
            return []
