"""Who waits for a container's end is woken by one stream of the engine's events for all.

An event is only a hint to look: the stream may break, and every waiter then looks again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.runtimes.docker_engine import Engine

RECONNECT_S = 0.5
# Look again after this long in any case.
LOOK_AGAIN_S = 60.0

log = structlog.get_logger(__name__)


class ExitWatcher:
    def __init__(self, engine: Engine, labels: list[str]) -> None:
        self._engine = engine
        self._labels = labels
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def looks(self, container_id: str) -> AsyncGenerator[None]:
        """Yields each time that the container may have ended: at once, and then on any sign."""
        with self._registered(container_id) as sign:
            while True:
                sign.clear()
                yield
                try:
                    await asyncio.wait_for(sign.wait(), LOOK_AGAIN_S)
                except TimeoutError:
                    continue

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    @contextmanager
    def _registered(self, container_id: str) -> Iterator[asyncio.Event]:
        sign = asyncio.Event()
        self._waiting.setdefault(container_id, set()).add(sign)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_events(), name="docker-events")
        try:
            yield sign
        finally:
            self._waiting[container_id].discard(sign)
            if not self._waiting[container_id]:
                del self._waiting[container_id]

    async def _read_events(self) -> None:
        while True:
            try:
                await self._read_stream()
            except RuntimeFailure:
                pass
            except Exception:  # such as an event that was cut off
                log.warning("events_not_read", exc_info=True)
            await asyncio.sleep(RECONNECT_S)

    async def _read_stream(self) -> None:
        wanted = {"type": ["container"], "event": ["die", "destroy"], "label": self._labels}
        # The answer begins just before the engine subscribes us: it repeats the last moment.
        params = {"since": int(time.time()) - 1, "filters": json.dumps(wanted)}
        async with self._engine.lines("GET", "/events", params) as events:
            # Whatever ended while this did not listen.
            self._wake(list(self._waiting))
            async for event in events:
                self._wake([event.get("id", "")])

    def _wake(self, container_ids: list[str]) -> None:
        for container_id in container_ids:
            for sign in self._waiting.get(container_id, ()):
                sign.set()
