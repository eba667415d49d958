"""Stores what samples came together in this process, every now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

import structlog

from skep_platform.gateway import threads
from skep_platform.telemetry import services as telemetry

log = structlog.get_logger(__name__)

LIVE_EVERY_S = 1.0
ROLLUP_EVERY = 15  # live flushes


class Flusher:
    """Runs while the process has agents; one flush for all of them."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for _ in range(ROLLUP_EVERY):
                await asyncio.sleep(LIVE_EVERY_S)
                await _tried(telemetry.flush_live)
            await flush()


async def flush() -> None:
    await _tried(telemetry.flush_rollups)


async def _tried(store: Callable[[], object]) -> None:
    """Never fails: samples that cannot be stored now are stored later or lost."""
    try:
        await threads.control.run(store)
    except Exception:
        log.exception("samples_not_stored")


_flushers: WeakKeyDictionary[asyncio.AbstractEventLoop, Flusher] = WeakKeyDictionary()


def flusher() -> Flusher:
    """The one of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _flushers:
        _flushers[loop] = Flusher()
    return _flushers[loop]
