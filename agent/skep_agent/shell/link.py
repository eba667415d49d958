"""Keeps a connection to the server, on a thread of its own, so that nothing else in the agent can
hold up its heartbeats.

The thread connects, reconnects with a growing pause, sends heartbeats, counts the lease and tells
it to the fence. The main loop, where everything else happens, gets what arrived in order and sends
by the connection; it may be busy for as long as a lease. One that does nothing for longer is taken
for stuck: heartbeats then stop, because the server must not count on a node that cannot act, and
the fence ends the containers when the lease is over.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from skep_agent.core.lease import Lease
from skep_agent.join import accepted_gateway
from skep_agent.protocol import (
    FATAL_CLOSE_CODES,
    MAX_TEXT_FRAME,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Leaving,
    ProtocolError,
    Refused,
    ServerMessage,
    Wait,
    Welcome,
    parse_server_message,
)
from skep_agent.shell.clock import Clock
from skep_agent.shell.fence import Fence
from skep_agent.shell.tasks import first_of
from skep_agent.statedir import Identity

AGENT_PATH = "/ws/agent"
FIRST_PAUSE_S = 0.5
CONNECT_TIMEOUT_S = 15.0  # a server that many agents come back to at once is slow to answer
# A dying connection is not waited for.
CLOSE_TIMEOUT_S = 1.0
WELCOME_TIMEOUT_S = 15.0
HELLO_S = 5.0  # a busy main loop has so long to say what the node has; then the last word counts
PULSE_S = 0.5  # between two signs of life of the main loop
# Longer frames, which take their time, are parsed by the main loop.
SMALL_FRAME = 4096
# Of what the main loop did not take in yet; a connection that brings more is left.
INBOX_FRAMES = 20_000
INBOX_BYTES = 4 * MAX_TEXT_FRAME
# The main loop takes in so many at a time, before it does other things.
INBOX_BATCH = 50

T = TypeVar("T")

log = structlog.get_logger(__name__)


class FatalClose(Exception):
    """The server closed the connection for good."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the connection for good: {code} {reason}")
        self.code = code


class Silence(Exception):
    """The server does not answer on this connection, or nobody takes its answers."""


class ServerLeaves(Exception):
    """The server stops on purpose, and the lease was extended for that."""


class LinkThread:
    """The thread with the event loop of all links of this process: one for a node's agent, and
    one for the thousand agents of a load test."""

    _lock = threading.Lock()
    _shared: LinkThread | None = None
    _users = 0

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> LinkThread:
        with cls._lock:
            cls._users += 1
            cls._shared = cls._shared or LinkThread()
            return cls._shared

    @classmethod
    def release(cls) -> None:
        """The last user ends the thread."""
        with cls._lock:
            cls._users -= 1
            if cls._users or cls._shared is None:
                return
            shared, cls._shared = cls._shared, None
        shared.loop.call_soon_threadsafe(shared.loop.stop)
        shared._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class Connection:
    """One accepted connection, as the main loop uses it."""

    def __init__(
        self,
        socket: ClientConnection,
        loop: asyncio.AbstractEventLoop,
        welcome: Welcome,
        sent_at: float,
        welcomed_at: float,
    ) -> None:
        self.welcome = welcome
        self.sent_at = sent_at  # of the Hello
        self.welcomed_at = welcomed_at
        self._socket = socket
        self._loop = loop

    async def send(self, frame: str | bytes) -> None:
        """Wait until the connection took it. Raises ConnectionClosed."""
        sending = self._socket.send(frame)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sending, self._loop))

    def abort(self) -> None:
        """Leave it without a word."""
        with suppress(RuntimeError):  # the link ended
            self._loop.call_soon_threadsafe(abort, self._socket)


@dataclass(frozen=True, slots=True)
class Opened:
    connection: Connection


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A heartbeat, sent at that time."""

    connection: Connection
    sent_at: float


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message; as text where it is long."""

    connection: Connection
    message: ServerMessage | str


@dataclass(frozen=True, slots=True)
class Lost:
    connection: Connection


News = Opened | Acknowledged | Arrived | Lost


class Inbox:
    """From the link's thread to the main loop: in order, and bounded. `take` runs there."""

    def __init__(self, take: Callable[[News], None]) -> None:
        self._take = take
        self._main = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._news: deque[News] = deque()
        self._bytes = 0
        self._called = False

    def put(self, news: News) -> None:
        """Raises Silence when the main loop is too far behind."""
        with self._lock:
            if isinstance(news, Lost):
                self._forget(news.connection)
            if isinstance(news, Arrived) and len(self._news) >= INBOX_FRAMES:
                raise Silence("the agent is too busy to take what the server says")
            self._bytes += _size(news)
            if self._bytes > INBOX_BYTES:
                raise Silence("the agent is too busy to take what the server says")
            self._news.append(news)
            if self._called:
                return
            self._called = True
        self._call()

    def _forget(self, connection: Connection) -> None:
        """The next session says it all anew."""
        self._news = deque(
            news
            for news in self._news
            if not isinstance(news, Arrived) or news.connection is not connection
        )
        self._bytes = sum(map(_size, self._news))

    def _call(self) -> None:
        with suppress(RuntimeError):  # the main loop ended
            self._main.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        for _ in range(INBOX_BATCH):
            with self._lock:
                if not self._news:
                    self._called = False
                    return
                news = self._news.popleft()
                self._bytes -= _size(news)
            self._take(news)
        self._call()


class Link:
    """`hello` and `take` are called on the main loop; `keep`, `pulse`, `reconnect` are for it."""

    def __init__(
        self,
        identity: Identity,
        clock: Clock,
        fence: Fence,
        hello: Callable[[], Hello],
        take: Callable[[News], None],
        pause_max_s: float,
        remember_gateway: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.revision = 0  # the newest that the node works on
        self.log_bytes_waiting = 0
        self.disk_mb: tuple[int, int] | None = None  # free and total, where the containers are
        self._identity = identity
        self._clock = clock
        self._fence = fence
        self._make_hello = hello
        self._pause_max_s = pause_max_s
        self._remember_gateway = remember_gateway
        self._inbox = Inbox(take)
        self._main = asyncio.get_running_loop()
        self._lease = Lease()
        self._gateway = identity.gateway
        self._failures = 0  # in a row
        self._pulse = time.monotonic()
        self._stuck = False
        self._socket: ClientConnection | None = None
        self._last_hello: Hello | None = None
        self._welcomed = False

    # --- on the main loop

    async def keep(self, lease_until: float | None) -> None:
        """Runs until cancelled. `lease_until` is that of the process before. Raises FatalClose."""
        self._lease.until = lease_until
        thread, closed = LinkThread.acquire(), asyncio.Event()

        async def keep() -> None:
            try:
                await self._keep()
            finally:
                self._main.call_soon_threadsafe(closed.set)

        keeping = asyncio.run_coroutine_threadsafe(keep(), thread.loop)
        try:
            await asyncio.wrap_future(keeping)
        finally:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(2 * CLOSE_TIMEOUT_S):
                        await closed.wait()
            finally:
                LinkThread.release()

    @property
    def lease_until(self) -> float | None:
        """As the newest acknowledged heartbeat says, which the core may not have heard of yet."""
        return self._lease.until

    def pulse(self) -> None:
        """The main loop lives."""
        self._pulse = time.monotonic()

    def reconnect(self) -> None:
        if (socket := self._socket) is not None:
            with suppress(RuntimeError):
                socket.loop.call_soon_threadsafe(abort, socket)

    # --- on the link's thread

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            if await self._connect_once():
                pause = FIRST_PAUSE_S
                self._failures = 0
            else:
                self._failures += 1
            # Many agents lose one server at once; they must not come back at once.
            await asyncio.sleep(pause * random.uniform(0.2, 1.8))  # noqa: S311
            pause = min(pause * 2, self._pause_max_s)

    async def _connect_once(self) -> bool:
        """True when the server welcomed us."""
        self._welcomed = False
        try:
            async with connect(
                socket_url(self._next_address()),
                additional_headers={"Authorization": f"Bearer {self._identity.credential}"},
                compression=None,
                max_size=MAX_TEXT_FRAME,
                open_timeout=CONNECT_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_interval=None,  # heartbeats are answered or the connection is left
            ) as socket:
                self._socket = socket
                await self._run(socket)
        except ConnectionClosed as closed:
            self._after_close(closed)
        except (OSError, InvalidHandshake, TimeoutError, Silence, ServerLeaves) as error:
            log.warning("connection_lost", problem=str(error) or type(error).__name__)
        finally:
            self._socket = None
        return self._welcomed

    def _next_address(self) -> str:
        """The gateway's. Where that cannot be reached, every second try goes to the web address,
        whose server passes the connection on."""
        return self._identity.server if self._failures % 2 else self._gateway

    def _learn_gateway(self, welcome: Welcome) -> None:
        """For the next connection, if the server told another address."""
        told = accepted_gateway(self._identity.server, welcome.gateway_url)
        if told and told != self._gateway:
            self._gateway = told
            self._main.call_soon_threadsafe(self._remember_gateway, told)

    def _after_close(self, closed: ConnectionClosed) -> None:
        code = closed.rcvd.code if closed.rcvd else 1006
        reason = closed.rcvd.reason if closed.rcvd else ""
        log.warning("connection_closed", code=code, reason=reason)
        if code in FATAL_CLOSE_CODES:
            raise FatalClose(code, reason)

    # --- one connection

    async def _run(self, socket: ClientConnection) -> None:
        """Until it ends. Raises ConnectionClosed, Silence or ServerLeaves."""
        hello = await self._hello()
        sent_at = self._clock.moment().mono
        await socket.send(hello.model_dump_json())
        welcome = await _receive_welcome(socket)
        self._welcomed = True
        self._learn_gateway(welcome)
        now = self._clock.moment().mono
        self._lease.welcomed(welcome.lease_s, sent_at, now)
        self._tell_fence()
        loop = asyncio.get_running_loop()
        connection = Connection(socket, loop, welcome, sent_at, now)
        heartbeats: deque[tuple[int, float]] = deque()  # unacknowledged: seq, sent at
        self._inbox.put(Opened(connection))
        try:
            await first_of(
                self._receive(socket, connection, heartbeats),
                self._send_heartbeats(socket, welcome, heartbeats),
            )
        finally:
            self._inbox.put(Lost(connection))

    async def _hello(self) -> Hello:
        """What the node has, by the main loop, or by its last word where that is busy: which then
        does not say what it holds, for what began since would count as forgotten. Raises Silence
        when it never said a word."""
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(_called(self._make_hello), self._main)
                )
            self._last_hello = hello.model_copy(update={"held": None})
            return hello
        except TimeoutError:
            log.warning("main_loop_busy", waits_for="hello")
        if self._last_hello is None:
            raise Silence("the agent is too busy to say what the node has")
        return self._last_hello

    async def _receive(
        self,
        socket: ClientConnection,
        connection: Connection,
        heartbeats: deque[tuple[int, float]],
    ) -> None:
        while True:
            frame = await socket.recv()
            # A long one takes its time to parse.
            long = isinstance(frame, str) and len(frame) > SMALL_FRAME
            message = str(frame) if long else parsed(frame)
            match message:
                case None:
                    pass
                case HeartbeatAck(seq=seq):
                    self._acknowledged(seq, connection, heartbeats)
                case Leaving(for_s=for_s):
                    log.warning("server_leaves_on_purpose", for_s=for_s)
                    if self._lease.extended(for_s):
                        self._tell_fence()
                    raise ServerLeaves(f"the server stops, for at most {for_s:.0f} s")
                case Refused() as refused:
                    _log_refusal(refused)
                case _:
                    self._inbox.put(Arrived(connection, message))

    def _acknowledged(
        self, seq: int, connection: Connection, heartbeats: deque[tuple[int, float]]
    ) -> None:
        sent_at = None
        while heartbeats and heartbeats[0][0] <= seq:
            sent_at = heartbeats.popleft()[1]
        if sent_at is not None:
            if self._lease.acknowledged(sent_at):
                self._tell_fence()
            self._inbox.put(Acknowledged(connection, sent_at))

    async def _send_heartbeats(
        self, socket: ClientConnection, welcome: Welcome, heartbeats: deque[tuple[int, float]]
    ) -> None:
        """Raises Silence when half the lease passes without an answer: better a new connection
        than a fence."""
        seq = 0
        while True:
            await self._clock.sleep(welcome.heartbeat_interval_s)
            now = self._clock.moment().mono
            if heartbeats and now - heartbeats[0][1] > welcome.lease_s / 2:
                raise Silence("heartbeats are not acknowledged")
            if self._is_stuck(welcome.lease_s):
                continue
            seq += 1
            heartbeats.append((seq, now))
            await socket.send(self._heartbeat(seq).model_dump_json())

    def _heartbeat(self, seq: int) -> Heartbeat:
        free_mb, total_mb = self.disk_mb or (None, None)
        return Heartbeat(
            seq=seq,
            revision=self.revision,
            log_bytes_waiting=self.log_bytes_waiting,
            disk_free_mb=free_mb,
            disk_total_mb=total_mb,
        )

    def _is_stuck(self, limit_s: float) -> bool:
        """The main loop gave no sign of life for so long."""
        silent_s = time.monotonic() - self._pulse
        stuck = silent_s > limit_s
        if stuck != self._stuck:
            self._stuck = stuck
            log.error("main_loop_stuck" if stuck else "main_loop_lives", silent_s=round(silent_s))
        return stuck

    def _tell_fence(self) -> None:
        if self._lease.until is not None:
            self._fence.set_lease(self._lease.until)


def socket_url(server: str, path: str = AGENT_PATH) -> str:
    """A WebSocket of a server given by its web address; without a path, the one for agents."""
    url = urlsplit(server)
    scheme = "wss" if url.scheme in ("https", "wss") else "ws"
    return urlunsplit((scheme, url.netloc, url.path.rstrip("/") + path, "", ""))


def parsed(frame: str | bytes) -> ServerMessage | None:
    """Return the message; None for a frame that means nothing: a newer server may say more than we
    know."""
    try:
        if isinstance(frame, str):
            return parse_server_message(frame)
        log.warning("frame_ignored", code="binary", size=len(frame))
    except ProtocolError as error:
        log.warning("frame_ignored", code=error.code, problem=str(error))
    return None


def abort(socket: ClientConnection) -> None:
    """Leave a connection without a word. On the link's thread."""
    if socket.transport is not None:
        socket.transport.abort()


async def _receive_welcome(socket: ClientConnection) -> Welcome:
    """Raises TimeoutError when the server says nothing for so long; one that has many agents to
    welcome says Wait."""
    while True:
        async with asyncio.timeout(WELCOME_TIMEOUT_S):
            message = parsed(await socket.recv())
        match message:
            case Welcome() as welcome:
                return welcome
            case Wait():
                log.info("waiting_for_welcome")
            case Refused() as refused:
                _log_refusal(refused)


async def _called(work: Callable[[], T]) -> T:
    return work()


def _size(news: News) -> int:
    return len(news.message) if isinstance(news, Arrived) and isinstance(news.message, str) else 0


def _log_refusal(refused: Refused) -> None:
    log.error("server_refused", code=refused.code, message=refused.message)
