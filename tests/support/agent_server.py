"""A control plane for one or many agents, in this process and without a database.

It speaks the real protocol over a real socket, stores facts and log bytes as the platform does,
and misbehaves when asked: drops connections, refuses, stays silent, talks garbage.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from skep_agent.frames import LogFrame
from skep_agent.protocol import (
    CLOSE_DUPLICATE,
    CLOSE_UNAUTHORIZED,
    MAX_TEXT_FRAME,
    STREAMS_PATH,
    AttemptFact,
    AttemptSpec,
    Desired,
    Heartbeat,
    HeartbeatAck,
    Hello,
    ImageSaveReport,
    Inventory,
    InventoryChanged,
    LogAck,
    LogPosition,
    Message,
    NodeImages,
    OpenStream,
    PrefetchReport,
    Refused,
    Report,
    ReportAck,
    Samples,
    Welcome,
    parse_agent_message,
)


@dataclass
class StoredLog:
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False


@dataclass
class FakeNode:
    """What the control plane knows of one node, by its credential."""

    name: str
    specs: dict[str, AttemptSpec] = field(default_factory=dict)
    revision: int = 0
    facts: list[AttemptFact] = field(default_factory=list)
    logs: dict[tuple[str, str], StoredLog] = field(default_factory=dict)
    samples: list[Samples] = field(default_factory=list)
    inventory: Inventory | None = None
    images: NodeImages | None = None
    prefetched: list[PrefetchReport] = field(default_factory=list)
    saved: list[ImageSaveReport] = field(default_factory=list)
    hellos: list[Hello] = field(default_factory=list)
    heartbeats: int = 0
    socket: ServerConnection | None = None

    def phases(self, attempt_id: str) -> list[str]:
        return [fact.phase for fact in self.facts if fact.attempt_id == attempt_id]

    def log(self, attempt_id: str, stream: str = "stdout") -> StoredLog:
        return self.logs.setdefault((attempt_id, stream), StoredLog())

    def complete(self, attempt_id: str) -> bool:
        """Its end and its whole log are here."""
        ended = self.log(attempt_id).ended and self.log(attempt_id, "stderr").ended
        return ended and "released" in self.phases(attempt_id)


class FakeControlPlane:
    """Attempts leave `specs` by themselves when they are released, as on the platform."""

    def __init__(self) -> None:
        self.nodes: dict[str, FakeNode] = {}
        self.changed = asyncio.Condition()
        self.lease_s = 30.0
        self.heartbeat_interval_s = 0.2
        self.sample_interval_s = 0.1
        self.refuse_duplicates = False
        self.answer_heartbeats = True
        self.welcome_agents = True
        self.store_logs = True
        self.url = ""
        self.gateway_url = ""  # what agents are sent
        self._streams: dict[str, asyncio.Future[ServerConnection]] = {}
        self._server: Server | None = None

    def node(self, name: str = "n1") -> FakeNode:
        return self.nodes.setdefault(name, FakeNode(name))

    async def desire(self, *specs: AttemptSpec, node: str = "n1") -> None:
        """Replace what the node shall hold, and send it when it is connected."""
        target = self.node(node)
        target.specs = {spec.attempt_id: spec for spec in specs}
        await self.ring(target)

    async def ring(self, node: FakeNode) -> None:
        node.revision += 1
        if node.socket is not None:
            await self._say(node.socket, self._desired(node))

    async def say(self, message: Message, *, node: str = "n1") -> None:
        """Send a message to a node that is connected."""
        socket = self.node(node).socket
        assert socket is not None
        await self._say(socket, message)

    async def drop(self, name: str = "n1") -> None:
        """The connection breaks without a word."""
        socket = self.node(name).socket
        if socket is not None:
            socket.transport.abort()
            await socket.wait_closed()

    async def stream(self, attempt_id: str, *, node: str = "n1", **what: Any) -> ServerConnection:
        """Ask for a stream, and wait until the agent dialled it."""
        stream_id = uuid.uuid4().hex
        dialled = self._streams[stream_id] = asyncio.get_running_loop().create_future()
        socket = self.node(node).socket
        assert socket is not None
        await self._say(socket, OpenStream(stream_id=stream_id, attempt_id=attempt_id, **what))
        return await asyncio.wait_for(dialled, 60)

    async def until(self, condition: Callable[[], object], within: float = 60.0) -> None:
        """Wait until something that came in makes the condition true."""
        async with asyncio.timeout(within), self.changed:
            await self.changed.wait_for(lambda: bool(condition()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeControlPlane]:
        async with serve(
            self._serve, "127.0.0.1", 0, max_size=MAX_TEXT_FRAME, ping_interval=None
        ) as server:
            port = server.sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            yield self

    async def _serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        name = socket.request.headers.get("Authorization", "").removeprefix("Bearer secret-")
        if not name or name.startswith("wrong"):
            await self._refuse(socket, "unauthorized", CLOSE_UNAUTHORIZED)
            return
        if socket.request.path.startswith(STREAMS_PATH):
            self._streams[socket.request.path.removeprefix(STREAMS_PATH)].set_result(socket)
            await socket.wait_closed()
            return
        node = self.node(name)
        if self.refuse_duplicates and node.socket is not None:
            await self._refuse(socket, "agent_duplicate", CLOSE_DUPLICATE)
            return
        try:
            await self._session(node, socket)
        except ConnectionClosed:
            pass
        finally:
            if node.socket is socket:
                node.socket = None
            await self._notify()

    async def _session(self, node: FakeNode, socket: ServerConnection) -> None:
        hello = parse_agent_message(await socket.recv())
        assert isinstance(hello, Hello)
        node.hellos.append(hello)
        node.inventory = hello.inventory
        if not self.welcome_agents:
            await socket.wait_closed()
            return
        await self._say(socket, self._welcome(node, hello))
        await self._say(socket, self._desired(node))
        node.socket = socket
        await self._notify()
        async for frame in socket:
            await self._take(node, socket, frame)
            await self._notify()

    async def _take(self, node: FakeNode, socket: ServerConnection, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            if self.store_logs:
                await self._say(socket, self._store(node, LogFrame.decode(frame)))
            return
        match parse_agent_message(frame):
            case Heartbeat(seq=seq):
                node.heartbeats += 1
                if self.answer_heartbeats:
                    await self._say(socket, HeartbeatAck(seq=seq))
            case Report(facts=facts):
                await self._report(node, socket, facts)
            case Samples() as samples:
                node.samples.append(samples)
            case InventoryChanged(inventory=inventory):
                node.inventory = inventory
            case NodeImages() as images:
                node.images = images
            case PrefetchReport() as report:
                node.prefetched.append(report)
            case ImageSaveReport() as saved:
                node.saved.append(saved)

    async def _report(
        self, node: FakeNode, socket: ServerConnection, facts: list[AttemptFact]
    ) -> None:
        node.facts += facts
        for fact in facts:
            if fact.phase == "released":
                node.specs.pop(fact.attempt_id, None)
        await self._say(socket, ReportAck(seq=facts[-1].seq))

    def _store(self, node: FakeNode, frame: LogFrame) -> LogAck:
        log = node.log(frame.attempt_id, frame.stream)
        gap = frame.offset > len(log.data)
        if not gap:
            log.data += frame.data[len(log.data) - frame.offset :]
            log.ended = log.ended or not frame.data
        return LogAck(
            attempt_id=frame.attempt_id,
            stream=frame.stream,
            offset=len(log.data),
            end=log.ended,
            again=gap and not log.ended,
        )

    def _welcome(self, node: FakeNode, hello: Hello) -> Welcome:
        return Welcome(
            node_name=node.name,
            session_epoch=len(node.hellos),
            lease_s=self.lease_s,
            heartbeat_interval_s=self.heartbeat_interval_s,
            sample_interval_s=self.sample_interval_s,
            log_positions=_positions(node, hello.attempt_ids),
            gateway_url=self.gateway_url,
        )

    def _desired(self, node: FakeNode) -> Desired:
        return Desired(revision=node.revision, attempts=list(node.specs.values()))

    async def _refuse(self, socket: ServerConnection, code: str, close_code: int) -> None:
        self.node("refused").hellos.append(None)  # type: ignore[arg-type]
        await self._say(socket, Refused(code=code, message="as the test says"))
        await socket.close(close_code, code)
        await self._notify()

    async def _say(self, socket: ServerConnection, message: Message) -> None:
        await socket.send(message.model_dump_json())

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()


def _positions(node: FakeNode, attempt_ids: Iterable[str]) -> list[LogPosition]:
    wanted = set(attempt_ids)
    return [
        LogPosition(attempt_id=attempt_id, stream=stream, offset=len(log.data))  # type: ignore[arg-type]
        for (attempt_id, stream), log in node.logs.items()
        if attempt_id in wanted
    ]
