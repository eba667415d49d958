"""Work for many agents at once: one transaction stores the facts of many nodes, and a few queries
read what many nodes shall run.

Each transaction costs the gateway and the database several milliseconds, for however many nodes
it is. The first request after a silence is served at once. What comes while it is served waits, and
is served together right after it: of the nodes of a gang, which report at the same time, one is the
first. What comes then waits for the end of a pause. Nothing is answered before the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from skep_agent.frames import LogFrame
from skep_agent.protocol import AttemptFact, LogAck
from skep_platform.gateway import concurrency
from skep_platform.gateway.concurrency import Threads, retry_while_unavailable
from skep_platform.jobs import services as jobs
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import DesiredFrame
from skep_platform.telemetry import services as telemetry

P = TypeVar("P")
R = TypeVar("R")
PAUSE_S = 0.02  # from the end of a group to the next one
# While groups follow each other without a silence the pause grows by this factor, up to
# LONGEST_PAUSE_S: then each group has more of them, and a gang that starts alone does not wait.
PAUSE_FACTOR = 1.5
LONGEST_PAUSE_S = 0.2
LOGS_PAUSE_S = 0.1
SLOW_S = 0.1  # so long a request waits for a group, before a second one begins beside it
MOST_GROUPS = 2  # at a time
MOST_NODES = 64  # in a group: when all agents connect again, none waits for all the others


class Grouped(Generic[P, R]):
    """Calls `work` with what was asked for each of several nodes, in one of `threads`."""

    def __init__(
        self, threads: Threads, work: Callable[[Mapping[UUID, P]], R], pause_s: float = PAUSE_S
    ) -> None:
        self._threads = threads
        self._work = work
        self._pause_s = pause_s
        self._waiting: list[tuple[UUID, P, asyncio.Future[R]]] = []
        self._groups: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pausing = 0  # groups that take what waits in a moment

    async def run(self, node_id: UUID, asked: P) -> R:
        """Return what `work` returned for the group of this node, however long the database is
        away. Raises what `work` raises for this node alone. A caller that is cancelled does not
        stop it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._waiting.append((node_id, asked, answer))
        if not self._groups:
            self._begin()
        else:
            self._watch()
        return await answer

    def _watch(self) -> None:
        """Look after a while whether the first of those that wait still waits."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SLOW_S, self._begin_another)

    def _begin(self) -> None:
        self._groups.add(asyncio.get_running_loop().create_task(self._serve()))

    def _begin_another(self) -> None:
        """Pass a group that waits for a lock, or for its turn on a busy machine."""
        self._timer = None
        if self._waiting and not self._pausing and len(self._groups) < MOST_GROUPS:
            self._begin()

    async def _serve(self) -> None:
        group, pause_s = asyncio.current_task(), self._pause_s
        assert group is not None
        first = True
        try:
            while self._waiting:
                await self._serve_group(self._take())
                if first and self._waiting:
                    first = False
                    continue
                await self._pause(pause_s)
                pause_s = min(pause_s * PAUSE_FACTOR, LONGEST_PAUSE_S)
        finally:
            # At once, so that what comes now begins a group of its own.
            self._groups.discard(group)

    async def _pause(self, seconds: float) -> None:
        self._pausing += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._pausing -= 1

    def _take(self) -> dict[UUID, tuple[P, asyncio.Future[R]]]:
        """Take the waiting requests, of each node the first one: two sessions of a node are never
        in one group."""
        taken: dict[UUID, tuple[P, asyncio.Future[R]]] = {}
        left = []
        for node_id, asked, answer in self._waiting:
            if node_id in taken or len(taken) >= MOST_NODES:
                left.append((node_id, asked, answer))
            else:
                taken[node_id] = asked, answer
        self._waiting = left
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if left:
            self._watch()
        return taken

    async def _serve_group(self, group: Mapping[UUID, tuple[P, asyncio.Future[R]]]) -> None:
        """Serve the nodes together; each alone where that fails, so that only the agent whose
        request fails sees the error."""
        asked = {node_id: one for node_id, (one, _) in group.items()}
        try:
            found = await retry_while_unavailable(self._threads, self._work, asked)
        except Exception as error:
            if len(group) > 1:
                for node_id, one in group.items():
                    await self._serve_group({node_id: one})
                return
            for _, answer in group.values():
                if not answer.done():
                    answer.set_exception(error)
            return
        for _, answer in group.values():
            if not answer.done():
                answer.set_result(found)


Frames = Mapping[UUID, DesiredFrame | None]
Acks = Mapping[UUID, list[LogAck]]


class Groups:
    """The groups of an event loop."""

    def __init__(self) -> None:
        self._facts = Grouped[Sequence[AttemptFact], None](concurrency.facts, _store)
        self._frames = Grouped[tuple[int, int | None], Frames](concurrency.control, _frames)
        self._logs = Grouped[Sequence[LogFrame], Acks](concurrency.logs, _append, LOGS_PAUSE_S)

    async def store_facts(self, node_id: UUID, facts: Sequence[AttemptFact]) -> None:
        """Return when these facts of a node are committed."""
        await self._facts.run(node_id, facts)

    async def append_logs(self, node_id: UUID, frames: Sequence[LogFrame]) -> list[LogAck]:
        """Store log frames of a node; return its acknowledgements. For a few bytes: what is much
        needs no company."""
        found = await self._logs.run(node_id, frames)
        return found[node_id]

    async def desired_frame(
        self, node_id: UUID, epoch: int, known_revision: int | None
    ) -> DesiredFrame | None:
        """Return what the node shall run, or None when it was sent that revision already. Raises
        Conflict `session_fenced`."""
        found = await self._frames.run(node_id, (epoch, known_revision))
        if node_id not in found:
            raise desired.session_is_over()
        return found[node_id]


def _store(facts: Mapping[UUID, Sequence[AttemptFact]]) -> None:
    jobs.apply_facts_of_nodes(facts)


def _append(batches: Mapping[UUID, Sequence[LogFrame]]) -> Acks:
    return telemetry.append_logs_of_nodes(batches)


def _frames(sessions: Mapping[UUID, tuple[int, int | None]]) -> Frames:
    return desired.build_frames(sessions)


_groups: WeakKeyDictionary[asyncio.AbstractEventLoop, Groups] = WeakKeyDictionary()


def groups() -> Groups:
    """Return the groups of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _groups:
        _groups[loop] = Groups()
    return _groups[loop]
