"""Questions to the driver of the GPUs, on threads of their own.

A driver may hang for minutes, or until the machine is started anew, also while the agent starts. It
then holds these few threads, and nothing else of the agent waits for one of them: logs, the disk
and names of hosts are read on others.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import structlog

from skep_agent.accelerators.base import GpuProbe
from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.inventory import NodeWarning
from skep_agent.protocol import Gpu, GpuSample
from skep_agent.statedir import write_private
from skep_agent.threads import Threads

THREADS = 4
PATIENCE_S = 60.0  # past this the GPUs are bad until the driver answers
# Of an agent that starts: while it waits, the lease of what runs here goes on running out.
START_PATIENCE_S = 10.0
SAMPLES_S = 15.0
CLOSE_S = 5.0
SILENT = f"the driver has not answered for {PATIENCE_S:.0f} s"
NOT_YET = "the driver has not answered since the agent started"
WARNING = NodeWarning(
    code="gpu_driver_silent",
    message="The driver of the GPUs does not answer.",
    action="See dmesg for errors of the GPUs. Drain the node, and restart the machine.",
)

log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class About:
    """What a driver says of the GPUs together, as `Inventory` has it."""

    topology: dict[str, dict[str, str]] = field(default_factory=dict)
    driver_version: str = ""
    firmware: dict[str, str] = field(default_factory=dict)


class Probing:
    """Asks one probe. `memory` is the file in which the GPUs survive the agent: without it, one
    that starts while the driver hangs would not know that there are any. None keeps none."""

    def __init__(self, probe: GpuProbe, memory: Path | None = None) -> None:
        self._probe = probe
        self._memory = None if isinstance(probe, SimulatedGpus) else memory
        self._threads = Threads(THREADS, "probe")
        self._asked: asyncio.Future[list[Gpu]] | None = None  # and not answered yet
        self._busy: dict[tuple[str, ...], asyncio.Future[dict[str, list[int]]]] = {}
        self.about = About()
        self._about_of: frozenset[str] | None = None  # the GPUs that it was asked for
        self._written: list[Gpu] | None = None
        self.silent = False

    async def close(self) -> None:
        """Release the driver, and wait for no question that it does not answer."""
        ending = threading.Thread(target=self._probe.close, name="probe-close", daemon=True)
        ending.start()
        if not isinstance(self._probe, SimulatedGpus):
            await asyncio.to_thread(ending.join, CLOSE_S)

    async def ask(self, question: Callable[[], T]) -> T:
        """Simulated GPUs answer at once; a driver may take its time."""
        if isinstance(self._probe, SimulatedGpus):
            return question()
        return await self._threads.run(question)

    async def first_gpus(self) -> list[Gpu]:
        """Return all GPUs as an agent starts: while the driver does not answer, those that the
        agent before this one saw, as bad."""
        last = self._read()
        return await self._gpus(last, START_PATIENCE_S, NOT_YET)

    async def gpus(self, last: Iterable[Gpu]) -> list[Gpu]:
        """Return all GPUs. While the driver does not answer, they are the `last` ones, and bad."""
        return await self._gpus(last, PATIENCE_S, SILENT)

    async def see_about(self, gpus: Iterable[Gpu]) -> bool:
        """Ask anew about the GPUs where others are here than before. Returns whether `about`
        changed."""
        found = frozenset(gpu.uuid for gpu in gpus)
        if self.silent or found == self._about_of:
            return False
        try:
            async with asyncio.timeout(PATIENCE_S if self._about_of else START_PATIENCE_S):
                about = await self.ask(self._ask_about)
        except TimeoutError:
            return False  # with the next look
        self._about_of, before, self.about = found, self.about, about
        self._written = None
        return about != before

    def remember(self, gpus: list[Gpu]) -> None:
        """Keep the GPUs for the next agent, where they are others than before."""
        if self.silent or self._memory is None or gpus == self._written:
            return
        rows = {"gpus": [gpu.model_dump() for gpu in gpus], "about": asdict(self.about)}
        with suppress(OSError):  # a disk that takes nothing is reported by the journal
            write_private(self._memory, json.dumps(rows), durable=False)
            self._written = gpus

    async def busy(self, uuids: tuple[str, ...]) -> dict[str, list[int]]:
        """Return the processes that are on these GPUs. Asked once until it is answered: a GPU that
        hangs holds one thread, however often it is asked for."""
        asked = self._busy.get(uuids)
        if asked is None:
            asked = asyncio.ensure_future(self.ask(lambda: self._probe.busy(list(uuids))))
            asked.add_done_callback(lambda _: self._busy.pop(uuids, None))
            self._busy[uuids] = asked
        return await asyncio.shield(asked)

    async def samples(self) -> list[GpuSample]:
        """Return none while the driver does not answer."""
        try:
            async with asyncio.timeout(SAMPLES_S):
                return await self.ask(self._probe.samples)
        except TimeoutError:
            return []

    async def _gpus(self, last: Iterable[Gpu], patience_s: float, problem: str) -> list[Gpu]:
        if self._asked is None:
            self._asked = asyncio.ensure_future(self.ask(self._probe.gpus))
        await asyncio.wait({self._asked}, timeout=patience_s)
        self.silent = not self._asked.done()
        if self.silent:
            log.error("driver_silent", problem=problem)
            return [one.model_copy(update={"healthy": False, "problem": problem}) for one in last]
        asked, self._asked = self._asked, None
        return asked.result()

    def _ask_about(self) -> About:
        probe = self._probe
        return About(probe.topology(), probe.driver_version(), probe.firmware())

    def _read(self) -> list[Gpu]:
        if self._memory is None:
            return []
        try:
            rows = json.loads(self._memory.read_text())
            self.about = About(**rows["about"])
            return [Gpu(**row) for row in rows["gpus"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("gpus_not_remembered", problem=str(error)[:300])
            return []
