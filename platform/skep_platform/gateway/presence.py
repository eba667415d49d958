"""This gateway as a whole: it records that it is up, and before a planned stop it notifies its
agents, so that the stop costs no job."""

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

from skep_platform.cluster import services as cluster
from skep_platform.cluster import sessions as cluster_presence
from skep_platform.core import gc_control, metrics
from skep_platform.gateway import concurrency
from skep_platform.gateway.socket import Receive, Scope, Send

log = structlog.get_logger(__name__)

# Of a planned stop, in seconds: to store the absence, and until the agents have confirmed it.
STORE_S = 4.0
NOTIFY_S = 4.0
# A session has some hundred objects: while all agents connect again, passes of the garbage
# collector over those that have come before took a fifth of the time.
SPARED = 50  # sessions that begin, after which all objects are left out of later passes
CLEARED = 500  # sessions that end, after which what they left is looked for


class Leaver(Protocol):
    """A session, as far as a planned stop needs it."""

    node_id: UUID
    epoch: int

    def prepare_to_leave(self) -> None: ...
    async def leave(self, for_s: float | None) -> None: ...


class Presence:
    """The sessions of one process, and its beat. `leaving`: it takes no more agents."""

    def __init__(self) -> None:
        self.leaving = False
        self._sessions: set[Leaver] = set()
        self._begun = self._ended = 0
        self._beats: asyncio.Task[None] | None = None

    def add(self, session: Leaver) -> None:
        self._sessions.add(session)
        metrics.AGENTS.set(len(self._sessions))
        self._begun += 1
        if self._begun % SPARED == 0:
            gc_control.spare()

    def discard(self, session: Leaver) -> None:
        self._sessions.discard(session)
        metrics.AGENTS.set(len(self._sessions))
        self._ended += 1
        if self._ended >= max(CLEARED, len(self._sessions)):
            self._ended = 0
            gc_control.set_aside()

    def start(self) -> None:
        self._beats = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)

    async def leave(self) -> None:
        """Notify all agents that the server stops on purpose. The absence is stored first; an agent
        whose absence cannot be stored, as without a database, is sent nothing and keeps its
        lease."""
        self.leaving = True
        sessions = list(self._sessions)
        for session in sessions:
            session.prepare_to_leave()
        for_s = settings.SKEP_PLANNED_ABSENCE_S
        planned = await self._plan_absence(sessions, for_s) if for_s > 0 else set()
        leaving = [s.leave(for_s if s.node_id in planned else None) for s in sessions]
        try:
            async with asyncio.timeout(NOTIFY_S):
                await asyncio.gather(*leaving, return_exceptions=True)
        except TimeoutError:
            log.warning("agents_not_notified_in_time")
        log.info("left_on_purpose", agents=len(sessions), planned=len(planned))

    async def _plan_absence(self, sessions: list[Leaver], for_s: float) -> set[UUID]:
        epochs = {session.node_id: session.epoch for session in sessions}
        if not epochs:
            return set()
        try:
            async with asyncio.timeout(STORE_S):
                return set(await concurrency.beats.run(cluster.plan_absence, epochs, for_s))
        except Exception as error:
            log.warning("absence_not_planned", error=str(error)[:200] or type(error).__name__)
            return set()

    async def _beat(self) -> None:
        """Record that the gateway is up, on the loop that serves the agents: a stuck loop records
        nothing."""
        while True:
            try:
                await concurrency.beats.run(cluster_presence.beat)
            except Exception as error:
                log.warning("presence_not_stored", error=str(error)[:200])
            await asyncio.sleep(cluster_presence.beat_interval_s())


_presences: WeakKeyDictionary[asyncio.AbstractEventLoop, Presence] = WeakKeyDictionary()


def presence() -> Presence:
    """Return the presence of this event loop."""
    return _presences.setdefault(asyncio.get_running_loop(), Presence())


async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Handle the server's start and stop (the ASGI lifespan). SIGTERM and SIGINT first notify the
    agents, and then go on to the web server's own handler; a second signal does not wait."""
    await receive()
    here = presence()
    here.start()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            _leave_first(here, number)
    log.info("gateway_started")
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
    else:  # there is no other handler
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
