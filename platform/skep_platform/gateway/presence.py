"""This gateway as a whole: it says that it is there, and when it is asked to stop it takes leave of
its agents, so that a planned stop costs no job."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings

from skep_platform.cluster import presence as cluster_presence
from skep_platform.cluster import services as cluster
from skep_platform.gateway import threads
from skep_platform.gateway.socket import Receive, Scope, Send

log = structlog.get_logger(__name__)

# Of a stop, in seconds: to store that the nodes are waited for, and to hear that they know.
STORE_S = 4.0
TELL_S = 4.0


class Leaver(Protocol):
    """A session, as far as taking leave needs it."""

    node_id: UUID
    epoch: int

    def prepare_to_leave(self) -> None: ...
    async def leave(self, for_s: float | None) -> None: ...


class Presence:
    """Of one process. `leaving`: it takes no more agents."""

    def __init__(self) -> None:
        self.leaving = False
        self._sessions: set[Leaver] = set()
        self._beats: asyncio.Task[None] | None = None

    def add(self, session: Leaver) -> None:
        self._sessions.add(session)

    def discard(self, session: Leaver) -> None:
        self._sessions.discard(session)

    def start(self) -> None:
        self._beats = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)

    async def leave(self) -> None:
        """Tell all agents that the server stops on purpose. What is promised is stored first; who
        cannot be promised anything, as without a database, is told nothing and keeps its lease."""
        self.leaving = True
        sessions = list(self._sessions)
        for session in sessions:
            session.prepare_to_leave()
        for_s = settings.SKEP_PLANNED_ABSENCE_S
        promised = await self._promise(sessions, for_s) if for_s > 0 else set()
        told = [s.leave(for_s if s.node_id in promised else None) for s in sessions]
        try:
            async with asyncio.timeout(TELL_S):
                await asyncio.gather(*told, return_exceptions=True)
        except TimeoutError:
            log.warning("agents_not_told_in_time")
        log.info("left_on_purpose", agents=len(sessions), promised=len(promised))

    async def _promise(self, sessions: list[Leaver], for_s: float) -> set[UUID]:
        epochs = {session.node_id: session.epoch for session in sessions}
        if not epochs:
            return set()
        try:
            async with asyncio.timeout(STORE_S):
                return set(await threads.beats.run(cluster.plan_absence, epochs, for_s))
        except Exception as error:
            log.warning("absence_not_planned", error=str(error)[:200] or type(error).__name__)
            return set()

    async def _beat(self) -> None:
        """On the loop that serves the agents: one that is stuck is not there."""
        while True:
            try:
                await threads.beats.run(cluster_presence.beat)
            except Exception as error:
                log.warning("presence_not_stored", error=str(error)[:200])
            await asyncio.sleep(cluster_presence.beat_interval_s())


_presences: WeakKeyDictionary[asyncio.AbstractEventLoop, Presence] = WeakKeyDictionary()


def presence() -> Presence:
    """The one of this event loop."""
    return _presences.setdefault(asyncio.get_running_loop(), Presence())


async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application of the server's start and stop. SIGTERM and SIGINT first take leave of
    the agents, then go on to the web server's own handler; a second one does not wait."""
    await receive()
    here = presence()
    here.start()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            _leave_first(here, number)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await here.stop()
    await send({"type": "lifespan.shutdown.complete"})


def _leave_first(here: Presence, number: signal.Signals) -> None:
    loop = asyncio.get_running_loop()
    then: Any = signal.getsignal(number)
    tasks: set[asyncio.Task[None]] = set()  # a loop keeps no reference

    async def leave() -> None:
        try:
            await here.leave()
        finally:
            _call(then, number)

    def asked() -> None:
        if here.leaving:
            _call(then, number)
        else:
            tasks.add(loop.create_task(leave()))

    loop.add_signal_handler(number, asked)


def _call(handler: Callable[[int, object], object] | Any, number: signal.Signals) -> None:
    if callable(handler):
        handler(number, None)
    else:  # nobody else handles it
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
