"""Work for many agents at once: a few statements open the sessions of many nodes, one renews their
leases, one transaction stores their facts, and a few queries read what they shall run.

Each transaction costs the gateway and the database several milliseconds, for however many nodes
it is. The first request after a silence is served with those that come within GATHER_S of it, as
those of the nodes of a gang do. What comes while they are served waits, and is served together
right after them; what comes then waits for the end of a pause. Nothing is answered before the
commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from redis import RedisError

from skep_agent.frames import LogFrame
from skep_agent.protocol import AttemptFact, Heartbeat, Hello, LogAck, LogPosition, NodeImages
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.gateway import concurrency, relay
from skep_platform.gateway.concurrency import Threads, is_away, retry_while_unavailable
from skep_platform.images import prefetching
from skep_platform.jobs import services as jobs
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import DesiredFrame
from skep_platform.telemetry import services as telemetry

K = TypeVar("K", bound=Hashable)
P = TypeVar("P")
R = TypeVar("R")
GATHER_S = 0.005
PAUSE_S = 0.02  # from the end of a group to the next one
# While groups follow each other without a silence the pause grows by this factor, up to
# LONGEST_PAUSE_S: then each group has more of them, and a gang that starts alone does not wait.
PAUSE_FACTOR = 1.5
LONGEST_PAUSE_S = 0.2
LONG_PAUSE_S = 0.1  # where nobody waits for the answer
SLOW_S = 0.1  # so long a request waits for a group, before a second one begins beside it
MOST_GROUPS = 2  # at a time
MOST_BEATS = 512  # heartbeats in a group: one statement, which takes little more time with each
MAX_ATTEMPTS = 10_000  # named in a Hello
MAX_HELD = 100_000
MOST_NODES = 64  # in a group: when all agents connect again, none waits for all the others


class Grouped(Generic[K, P, R]):
    """Calls `work` with what was asked for each of several nodes, by a key of the node, in one of
    `threads`. `patient`: however long the database is away."""

    def __init__(
        self,
        threads: Threads,
        work: Callable[[Mapping[K, P]], R],
        pause_s: float = PAUSE_S,
        *,
        gather_s: float = 0.0,
        most_nodes: int = MOST_NODES,
        patient: bool = True,
    ) -> None:
        self._threads = threads
        self._work = work
        self._pause_s = pause_s
        self._gather_s = gather_s
        self._most_nodes = most_nodes
        self._patient = patient
        self._waiting: list[tuple[float, K, P, asyncio.Future[R]]] = []
        self._groups: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pausing = 0  # groups that take what waits in a moment

    async def run(self, key: K, asked: P, rank: float = 0.0) -> R:
        """Return what `work` returned for the group of this node. Raises what `work` raises for
        this node alone. Of those that wait, the lowest ranks come first. A caller that is cancelled
        while it waits is left out; later it does not stop the work."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._waiting.append((rank, key, asked, answer))
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
            if self._gather_s:
                await self._pause(self._gather_s)
            while self._waiting:
                if taken := self._take():
                    await self._serve_group(taken)
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

    def _take(self) -> dict[K, tuple[P, asyncio.Future[R]]]:
        """Take the waiting requests, of each node the first one: two sessions of a node are never
        in one group."""
        taken: dict[K, tuple[P, asyncio.Future[R]]] = {}
        left = []
        for request in sorted(self._waiting, key=itemgetter(0)):  # in order where ranks are equal
            _, key, asked, answer = request
            if answer.done():  # the caller is gone
                continue
            if key in taken or len(taken) >= self._most_nodes:
                left.append(request)
            else:
                taken[key] = asked, answer
        self._waiting = left
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if left:
            self._watch()
        return taken

    async def _serve_group(self, group: Mapping[K, tuple[P, asyncio.Future[R]]]) -> None:
        """Serve the nodes together; each alone where that fails, so that only the agent whose
        request fails sees the error. An engine that is away fails for all of them."""
        asked = {key: one for key, (one, _) in group.items()}
        try:
            if self._patient:
                found = await retry_while_unavailable(self._threads, self._work, asked)
            else:
                found = await self._threads.run(self._work, asked)
        except Exception as error:
            if len(group) > 1 and not (is_away(error) or isinstance(error, RedisError)):
                for key, one in group.items():
                    await self._serve_group({key: one})
                return
            for _, answer in group.values():
                if not answer.done():
                    answer.set_exception(error)
            return
        for _, answer in group.values():
            if not answer.done():
                answer.set_result(found)


Opened = tuple[Node, list[LogPosition]]
Sessions = Mapping[UUID, Opened]
Beat = tuple[int, Heartbeat]  # of which epoch
Frames = Mapping[UUID, DesiredFrame | None]
Acks = Mapping[UUID, list[LogAck]]


class Groups:
    """The groups of an event loop."""

    def __init__(self) -> None:
        self._credentials = Grouped[str, None, Mapping[str, Node]](
            concurrency.credentials, cluster.authenticate_nodes, patient=False
        )
        self._sessions = Grouped[UUID, Hello, Sessions](concurrency.control, _reopen, patient=False)
        self._orders = Grouped[UUID, None, Mapping[UUID, list[bytes]]](
            concurrency.control, relay.orders_of_nodes, patient=False
        )
        self._images = Grouped[UUID, NodeImages, None](concurrency.control, _store_images)
        self._beats = Grouped[UUID, Beat, Mapping[UUID, int]](
            concurrency.beats, _renew, LONG_PAUSE_S, most_nodes=MOST_BEATS, patient=False
        )
        self._facts = Grouped[UUID, Sequence[AttemptFact], None](
            concurrency.facts, _store, gather_s=GATHER_S
        )
        self._frames = Grouped[UUID, desired.SessionState, Frames](
            concurrency.control, _frames, gather_s=GATHER_S
        )
        self._logs = Grouped[UUID, Sequence[LogFrame], Acks](
            concurrency.logs, _append, LONG_PAUSE_S
        )

    async def authenticated(self, credential: str) -> Node | None:
        """Return the node that holds this credential, see `cluster.authenticate_node`."""
        return (await self._credentials.run(credential, None)).get(credential)

    async def reopen(self, node: Node, hello: Hello) -> Opened | None:
        """Open a session of a node that was connected before, with its log positions: in groups,
        those first whose lease ends first. None where it has to be opened by itself."""
        expires = node.lease_expires_at
        rank = expires.timestamp() if expires else 0.0
        return (await self._sessions.run(node.pk, hello, rank)).get(node.pk)

    async def orders(self, node_id: UUID) -> list[bytes]:
        """Take what the node's agent is to dial, once."""
        return (await self._orders.run(node_id, None)).get(node_id, [])

    async def store_images(self, node_id: UUID, found: NodeImages) -> None:
        """Store which images are on a node."""
        await self._images.run(node_id, found)

    async def heartbeat(self, node_id: UUID, epoch: int, reported: Heartbeat) -> int:
        """Renew the lease of a node; return its desired revision. Raises Conflict
        `session_fenced`, and the error of a database that is away."""
        revisions = await self._beats.run(node_id, (epoch, reported))
        if node_id in revisions:
            return revisions[node_id]
        # Its session is over, or its row is locked: no other node waits for that.
        return await concurrency.beats.run(cluster.heartbeat, node_id, epoch, reported)

    async def store_facts(self, node_id: UUID, facts: Sequence[AttemptFact]) -> None:
        """Return when these facts of a node are committed."""
        await self._facts.run(node_id, facts)

    async def append_logs(self, node_id: UUID, frames: Sequence[LogFrame]) -> list[LogAck]:
        """Store log frames of a node; return its acknowledgements. For a few bytes: what is much
        needs no company."""
        found = await self._logs.run(node_id, frames)
        return found[node_id]

    async def desired_frame(
        self, node_id: UUID, session: desired.SessionState
    ) -> DesiredFrame | None:
        """Return what the node shall run, or None when it was sent that revision already. Raises
        Conflict `session_fenced`."""
        found = await self._frames.run(node_id, session)
        if node_id not in found:
            raise desired.session_is_over()
        return found[node_id]


def _reopen(hellos: Mapping[UUID, Hello]) -> Sessions:
    nodes = cluster.reopen_sessions(hellos)
    settle_memories({node: hellos[pk] for pk, node in nodes.items()})
    asked = {pk: hellos[pk].attempt_ids[:MAX_ATTEMPTS] for pk in nodes}
    positions = telemetry.log_positions_of_nodes(asked)
    return {pk: (node, positions[pk]) for pk, node in nodes.items()}


def settle_memories(hellos: Mapping[Node, Hello]) -> None:
    """Settle what the agents forgot, and then record the journals as known: if this is cut off in
    between, the next Hello settles it."""
    held = {node: hello.held for node, hello in hellos.items() if hello.held is not None}
    known = {n.pk for n in held if n.memory_id and n.memory_id == hellos[n].memory_id[:64]}
    jobs.lose_forgotten_of_nodes(
        {
            node.pk: (node.session_epoch, names[:MAX_HELD], node.pk in known)
            for node, names in held.items()
        }
    )
    for node in held:
        if node.pk not in known:
            cluster.record_journal(node.pk, node.session_epoch, hellos[node].memory_id)


def _store_images(found: Mapping[UUID, NodeImages]) -> None:
    prefetching.store_images({node_id: one.images for node_id, one in found.items()})


def _renew(beats: Mapping[UUID, Beat]) -> Mapping[UUID, int]:
    return cluster.heartbeats(beats)


def _store(facts: Mapping[UUID, Sequence[AttemptFact]]) -> None:
    jobs.apply_facts_of_nodes(facts)


def _append(batches: Mapping[UUID, Sequence[LogFrame]]) -> Acks:
    return telemetry.append_logs_of_nodes(batches)


def _frames(sessions: Mapping[UUID, desired.SessionState]) -> Frames:
    return desired.build_frames(sessions)


_groups: WeakKeyDictionary[asyncio.AbstractEventLoop, Groups] = WeakKeyDictionary()


def groups() -> Groups:
    """Return the groups of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _groups:
        _groups[loop] = Groups()
    return _groups[loop]
