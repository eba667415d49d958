"""Keeps a connection to the server, on a thread of its own, so that nothing else in the agent can
hold up its heartbeats.

The thread connects, reconnects with a growing pause, sends heartbeats, counts the lease and passes
it to the guard. The main loop, where everything else happens, gets what arrived in order and sends
by the connection; it may be busy for as long as a lease. One that does nothing for longer is taken
for stuck: heartbeats then stop, because the server must not count on a node that cannot act, and
the fence ends the containers when the lease is over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

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
from skep_agent.shell.inbox import (
    Acknowledged,
    Arrived,
    Connection,
    Inbox,
    LinkEvent,
    LinkThread,
    Lost,
    Opened,
    Silence,
    abort,
)
from skep_agent.shell.lease_guard import LeaseGuard
from skep_agent.shell.tasks import first_of
from skep_agent.statedir import Identity
from skep_limits import timing_problem

AGENT_PATH = "/ws/agent"
FIRST_PAUSE_S = 0.5
STEADY_S = 10.0  # a connection that served for so long was a good one
CONNECT_TIMEOUT_S = 15.0  # a server that many agents come back to at once is slow to answer
# A dying connection is not waited for.
CLOSE_TIMEOUT_S = 1.0
WELCOME_TIMEOUT_S = 15.0
HELLO_S = 5.0  # a busy main loop has so long to say what the node has; then the last word counts
PULSE_S = 0.5  # between two signs of life of the main loop
# Longer frames, which take their time, are parsed by the main loop.
SMALL_FRAME = 4096
T = TypeVar("T")

log = structlog.get_logger(__name__)


class FatalClose(Exception):
    """The server closed the connection for good."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the connection for good: {code} {reason}")
        self.code = code


class WelcomeRefused(Exception):
    """The server wants a timing that no agent takes."""


class ServerLeaves(Exception):
    """The server stops on purpose, and the lease was extended for that."""


class Pauses:
    """Growing ones between connections that fail, or that end as soon as they were welcomed: a
    server that breaks at something that a node says must not get it twice a second from each."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._next_s = FIRST_PAUSE_S

    def after(self, served_s: float) -> float:
        """Return the pause after a connection that served for so long."""
        pause = FIRST_PAUSE_S if served_s >= STEADY_S else self._next_s
        self._next_s = min(2 * pause, self._most_s)
        return pause


class Link:
    """`hello` and `take` are called on the main loop; `keep`, `pulse`, `reconnect` are for it."""

    def __init__(
        self,
        identity: Identity,
        clock: Clock,
        fence: LeaseGuard,
        hello: Callable[[], Hello],
        take: Callable[[LinkEvent], None],
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
        """As the newest acknowledged heartbeat says, which the core may not have received yet."""
        return self._lease.until

    def pulse(self) -> None:
        """Record that the main loop lives."""
        self._pulse = time.monotonic()

    def reconnect(self) -> None:
        if (socket := self._socket) is not None:
            with suppress(RuntimeError):
                socket.loop.call_soon_threadsafe(abort, socket)

    # --- on the link's thread

    async def _keep(self) -> None:
        pauses = Pauses(self._pause_max_s)
        while True:
            began = time.monotonic()
            welcomed = await self._connect_once()
            self._failures = 0 if welcomed else self._failures + 1
            pause = pauses.after(time.monotonic() - began if welcomed else 0.0)
            # Many agents lose one server at once; they must not come back at once.
            await asyncio.sleep(pause * random.uniform(0.2, 1.8))  # noqa: S311

    async def _connect_once(self) -> bool:
        """Connect, and serve the connection until it ends. Returns whether the server welcomed
        us."""
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
        except WelcomeRefused as refused:
            log.error("welcome_refused", problem=str(refused))
        except (OSError, WebSocketException, TimeoutError, Silence, ServerLeaves) as error:
            log.warning("connection_lost", problem=str(error) or type(error).__name__)
        finally:
            self._socket = None
        return self._welcomed

    def _next_address(self) -> str:
        """Return the gateway's address. Where that cannot be reached, every second try goes to the
        web address, whose server passes the connection on."""
        return self._identity.server if self._failures % 2 else self._gateway

    def _learn_gateway(self, welcome: Welcome) -> None:
        """Store the gateway's address for the next connection, if the server sent another one."""
        url = accepted_gateway(self._identity.server, welcome.gateway_url)
        if url and url != self._gateway:
            self._gateway = url
            self._main.call_soon_threadsafe(self._remember_gateway, url)

    def _after_close(self, closed: ConnectionClosed) -> None:
        code = closed.rcvd.code if closed.rcvd else 1006
        reason = closed.rcvd.reason if closed.rcvd else ""
        log.warning("connection_closed", code=code, reason=reason)
        if code in FATAL_CLOSE_CODES:
            raise FatalClose(code, reason)

    # --- one connection

    async def _run(self, socket: ClientConnection) -> None:
        """Serve one connection until it ends. Raises ConnectionClosed, Silence or ServerLeaves."""
        hello = await self._hello()
        sent_at = self._clock.moment().mono
        await socket.send(hello.model_dump_json())
        welcome = await _receive_welcome(socket)
        timing = welcome.lease_s, welcome.heartbeat_interval_s, welcome.sample_interval_s
        if problem := timing_problem(*timing):
            raise WelcomeRefused(problem)
        self._welcomed = True
        self._learn_gateway(welcome)
        now = self._clock.moment().mono
        self._lease.welcomed(welcome.lease_s, sent_at, now)
        self._update_guard()
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
                        self._update_guard()
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
                self._update_guard()
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
        """Return whether the main loop gave no sign of life for so long."""
        silent_s = time.monotonic() - self._pulse
        stuck = silent_s > limit_s
        if stuck != self._stuck:
            self._stuck = stuck
            log.error("main_loop_stuck" if stuck else "main_loop_lives", silent_s=round(silent_s))
        return stuck

    def _update_guard(self) -> None:
        if self._lease.until is not None:
            self._fence.set_lease(self._lease.until)


def socket_url(server: str, path: str = AGENT_PATH) -> str:
    """Return the WebSocket address of a server given by its web address; without a path, the one
    for agents."""
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


def _log_refusal(refused: Refused) -> None:
    log.error("server_refused", code=refused.code, message=refused.message)
