"""Keeps a connection to the server: connects, reconnects with a growing pause, gives up for good
only when the server says that this node may not come back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from skep_agent.join import accepted_gateway
from skep_agent.protocol import FATAL_CLOSE_CODES, MAX_TEXT_FRAME, Message, Welcome
from skep_agent.shell.session import Node, ServerLeaves, Session, Silence
from skep_agent.statedir import Identity

AGENT_PATH = "/ws/agent"
FIRST_PAUSE_S = 0.5
CONNECT_TIMEOUT_S = 15.0  # a server that many agents come back to at once is slow to answer
# A dying connection is not waited for.
CLOSE_TIMEOUT_S = 1.0

log = structlog.get_logger(__name__)


class FatalClose(Exception):
    """The server closed the connection for good."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the connection for good: {code} {reason}")
        self.code = code


class Link:
    def __init__(
        self,
        node: Node,
        identity: Identity,
        pause_max_s: float,
        remember_gateway: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._identity = identity
        self._pause_max_s = pause_max_s
        self._remember_gateway = remember_gateway
        self._gateway = identity.gateway
        self._failures = 0  # in a row
        self._session: Session | None = None
        self._socket: ClientConnection | None = None

    @property
    def welcome(self) -> Welcome | None:
        """Of the present session; None when there is none."""
        return self._session.welcome if self._session else None

    async def keep(self) -> None:
        """Runs until cancelled. Raises FatalClose."""
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

    async def send(self, message: Message) -> None:
        """Sent when there is a session, else dropped."""
        session = self._session
        if session is not None and session.welcome is not None:
            with suppress(ConnectionClosed):
                await session.send(message)

    def reconnect(self) -> None:
        if self._socket is not None and self._socket.transport is not None:
            self._socket.transport.abort()

    async def _connect_once(self) -> bool:
        """True when the server welcomed us."""
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
                await self._run(socket)
        except ConnectionClosed as closed:
            self._after_close(closed)
        except (OSError, InvalidHandshake, TimeoutError, Silence, ServerLeaves) as error:
            log.warning("connection_lost", problem=str(error) or type(error).__name__)
        finally:
            welcomed = self.welcome is not None
            self._session = self._socket = None
        return welcomed

    def _next_address(self) -> str:
        """The gateway's. Where that cannot be reached, every second try goes to the web address,
        whose server passes the connection on."""
        return self._identity.server if self._failures % 2 else self._gateway

    async def _run(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._session = session = Session(self._node, socket)
        try:
            await session.run()
        finally:
            self._learn_gateway(session.welcome)

    def _learn_gateway(self, welcome: Welcome | None) -> None:
        """For the next connection, if the server told another address."""
        told = accepted_gateway(self._identity.server, welcome.gateway_url) if welcome else ""
        if told and told != self._gateway:
            self._gateway = told
            self._remember_gateway(told)

    def _after_close(self, closed: ConnectionClosed) -> None:
        code = closed.rcvd.code if closed.rcvd else 1006
        reason = closed.rcvd.reason if closed.rcvd else ""
        log.warning("connection_closed", code=code, reason=reason)
        if code in FATAL_CLOSE_CODES:
            raise FatalClose(code, reason)


def socket_url(server: str, path: str = AGENT_PATH) -> str:
    """A WebSocket of a server given by its web address; without a path, the one for agents."""
    url = urlsplit(server)
    scheme = "wss" if url.scheme in ("https", "wss") else "ws"
    return urlunsplit((scheme, url.netloc, url.path.rstrip("/") + path, "", ""))
