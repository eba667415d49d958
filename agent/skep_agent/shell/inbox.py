"""What passes between the link's thread and the main loop: events one way, frames the other."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection

from skep_agent.protocol import MAX_TEXT_FRAME, ServerMessage, Welcome

# Of what the main loop did not take in yet; a connection that brings more is left.
INBOX_FRAMES = 20_000
INBOX_BYTES = 4 * MAX_TEXT_FRAME
# The main loop takes in so many at a time, before it does other things.
INBOX_BATCH = 50


class Silence(Exception):
    """The server does not answer on this connection, or its answers are not taken."""


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
        """Release the thread, which ends with its last user."""
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


LinkEvent = Opened | Acknowledged | Arrived | Lost


class Inbox:
    """From the link's thread to the main loop: in order, and bounded. `take` runs there."""

    def __init__(self, take: Callable[[LinkEvent], None]) -> None:
        self._take = take
        self._main = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._events: deque[LinkEvent] = deque()
        self._bytes = 0
        self._called = False

    def put(self, event: LinkEvent) -> None:
        """Raises Silence when the main loop is too far behind."""
        with self._lock:
            if isinstance(event, Lost):
                self._forget(event.connection)
            if isinstance(event, Arrived) and len(self._events) >= INBOX_FRAMES:
                raise Silence("the agent is too busy to take what the server says")
            self._bytes += _size(event)
            if self._bytes > INBOX_BYTES:
                raise Silence("the agent is too busy to take what the server says")
            self._events.append(event)
            if self._called:
                return
            self._called = True
        self._call()

    def _forget(self, connection: Connection) -> None:
        """The next session says it all anew."""
        self._events = deque(
            event
            for event in self._events
            if not isinstance(event, Arrived) or event.connection is not connection
        )
        self._bytes = sum(map(_size, self._events))

    def _call(self) -> None:
        with suppress(RuntimeError):  # the main loop ended
            self._main.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        for _ in range(INBOX_BATCH):
            with self._lock:
                if not self._events:
                    self._called = False
                    return
                event = self._events.popleft()
                self._bytes -= _size(event)
            self._take(event)
        self._call()


def abort(socket: ClientConnection) -> None:
    """Leave a connection without a word. On the link's thread."""
    if socket.transport is not None:
        socket.transport.abort()


def _size(event: LinkEvent) -> int:
    return (
        len(event.message) if isinstance(event, Arrived) and isinstance(event.message, str) else 0
    )
