"""An agent of tests: speaks the protocol over a real WebSocket, one frame at a time."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from tests.support.platform_factories import join_node, make_gpus, make_hello, make_inventory
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from skep_agent.frames import LogFrame
from skep_agent.protocol import (
    AttemptFact,
    Desired,
    Gpu,
    Heartbeat,
    HeartbeatAck,
    Hello,
    LogAck,
    LogAcks,
    Message,
    Refused,
    Report,
    Welcome,
    parse_server_message,
)
from skep_platform.cluster.models import Node

M = TypeVar("M", bound=Message)
WAIT_S = 60  # a slow machine's; every wait ends as soon as it may


class Agent:
    """`with Agent(port, credential) as agent: agent.enter(hello)`."""

    def __init__(self, port: int, credential: str | None, **options: Any) -> None:
        headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        self._connection = connect(
            f"ws://127.0.0.1:{port}/ws/agent",
            additional_headers=headers,
            compression=None,
            max_size=None,
            open_timeout=WAIT_S,
            ping_interval=None,  # acknowledgements that no test reads would hold up the answers
            proxy=None,
            **options,
        )
        self.other: list[Message] = []  # what came while something else was waited for
        self._acks: list[LogAck] = []  # that came in one message
        self._seq = 0

    def __enter__(self) -> Agent:
        self.socket = self._connection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ConnectionClosed):  # by the server, before it took all we sent
            self._connection.__exit__(kind, error, trace)

    def send(self, message: Message | LogFrame | str | bytes) -> None:
        """Sends a message. A server that has refused the agent may have closed the connection
        before: whoever receives next reads that."""
        if isinstance(message, LogFrame):
            message = message.encode()
        with suppress(ConnectionClosed):
            self.socket.send(message.model_dump_json() if isinstance(message, Message) else message)

    def enter(self, hello: Hello) -> tuple[Welcome, Desired]:
        self.send(hello)
        return self.expect(Welcome), self.expect(Desired)

    def beat(self) -> HeartbeatAck:
        self._seq += 1
        self.send(Heartbeat(seq=self._seq))
        return self.expect(HeartbeatAck)

    def report(self, *facts: AttemptFact) -> None:
        self.send(Report(facts=list(facts)))

    def receive(self, seconds: float = WAIT_S) -> Any:
        """The next message; of several acknowledgements in one the next of these. Raises
        TimeoutError, and ConnectionClosed at the end."""
        if not self._acks:
            message = parse_server_message(self.socket.recv(timeout=seconds))
            if not isinstance(message, LogAcks):
                return message
            self._acks = message.acks
        return self._acks.pop(0)

    def expect(self, kind: type[M], seconds: float = WAIT_S) -> M:
        """The next message of this kind; others are kept in `other`."""
        deadline = time.monotonic() + seconds
        while True:
            message = self.receive(max(0.0, deadline - time.monotonic()))
            if isinstance(message, kind):
                return message
            self.other.append(message)

    def end(self) -> tuple[str, int]:
        """(code of the refusal or "", close code) of a connection that the server ends."""
        code = ""
        try:
            while True:
                message = self.receive()
                code = message.code if isinstance(message, Refused) else code
        except ConnectionClosed as closed:
            return code, closed.rcvd.code if closed.rcvd else 1006


class Joined:
    """A node that has joined, and what its agent says at hello."""

    def __init__(self, name: str = "", *, gpus: int | list[Gpu] = 0) -> None:
        self.node: Node
        self.node, self.credential = join_node(name)
        found = make_gpus(self.node.name, gpus) if isinstance(gpus, int) else gpus
        self.hello = make_hello(self.node.instance_id, make_inventory(found))

    def connect(self, port: int, **options: Any) -> Agent:
        return Agent(port, self.credential, **options)
