"""A port here that leads to a port of a task: each connection is a stream of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.streams import PIECE_BYTES, Stream, open_port

MOST = 16  # streams of a user at a time; the server refuses more


class Forward:
    """Listens on 127.0.0.1 only. `told` gets the refusal of a connection."""

    def __init__(
        self,
        client: Skep,
        attempt_id: str,
        local: int,
        remote: int,
        told: Callable[[SkepError], None],
    ) -> None:
        """`local` 0 takes a free port. Raises OSError where the port is taken."""
        self._client, self._attempt_id, self.remote, self._told = client, attempt_id, remote, told
        self._listener = socket.create_server(("127.0.0.1", local), backlog=MOST)
        self.local: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=[connection], daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry(self, connection: socket.socket) -> None:
        with connection:
            try:
                with open_port(self._client, self._attempt_id, self.remote) as stream:
                    _join(connection, stream)
            except SkepError as error:
                self._told(error)


def _join(connection: socket.socket, stream: Stream) -> None:
    threading.Thread(target=_send, args=[connection, stream], daemon=True).start()
    for _, data in stream.output():
        try:
            connection.sendall(data)
        except OSError:  # the program here has gone
            return
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _send(connection: socket.socket, stream: Stream) -> None:
    with suppress(OSError):
        while data := connection.recv(PIECE_BYTES):
            stream.write(data)
    stream.end_input()
