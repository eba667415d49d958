"""Keeps one child alive: starts it, notices its end, starts it again with growing delays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from skep_platform.onebox.children import Program, spawn
from skep_platform.onebox.restarts import Restarts

Changed = Callable[[], None]


class Keeper:
    """`changed` is called whenever the child's pid or fate changes."""

    def __init__(self, program: Program, log: Path, changed: Changed = lambda: None) -> None:
        self.program = program
        self.log = log / f"{program.name}.log"
        self.restarts = Restarts()
        self.process: subprocess.Popen[bytes] | None = None
        self._changed = changed
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int | None:
        """Process id while the child lives, as far as we know."""
        return self.process.pid if self.process else None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def stop(self, patience_s: float) -> None:
        """Ask, wait `patience_s` seconds, then kill."""
        self._stopping = True
        if self._task is None:
            return
        if self.process is None:  # between two lives
            self._task.cancel()
        else:
            _signal(self.process, self.program.stop_signal)
        _, late = await asyncio.wait([self._task], timeout=patience_s)
        if late and self.process:
            _signal(self.process, signal.SIGKILL)
            await asyncio.wait([self._task])

    def last_words(self, characters: int = 1500) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    async def _keep(self) -> None:
        while not self._stopping:
            started = time.monotonic()
            await self._live()
            if self._stopping:
                return
            delay = self.restarts.after_death(time.monotonic() - started)
            self._changed()
            await asyncio.sleep(delay)

    async def _live(self) -> None:
        """One life. A program that cannot be started, for want of memory say, has a short one."""
        try:
            self.process = spawn(self.program, self.log)
        except OSError as error:
            self.log.write_text(f"{error}\n")
            return
        self._changed()
        await _end_of(self.process)
        self.process = None


async def _end_of(process: subprocess.Popen[bytes]) -> None:
    """Wait by a pidfd, on the loop's own thread: the children's parent is the thread that made
    them, which therefore may neither block nor end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)
