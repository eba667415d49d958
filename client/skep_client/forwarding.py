"""A port here that leads to a port of a task: each connection is a stream of its own."""

from __future__ import annotations

import errno
import hashlib
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.streams import PIECE_BYTES, Stream, open_port

MOST = 16  # streams of a user at a time; the server refuses more


COMMON = "127.0.0.1"


def own_address(attempt_id: str) -> str:
    """Return the loopback address of one task, such as 127.81.5.17.

    Browsers keep cookies by host and not by port: at 127.0.0.1 a forwarded page would get the
    cookies of Skep's own pages on this machine, and those of the pages of other tasks."""
    digest = hashlib.sha256(attempt_id.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}"


def _listener(address: str, port: int, *, given: bool) -> socket.socket:
    try:
        return socket.create_server((address, port), backlog=MOST)
    except OSError as error:
        if given or error.errno != errno.EADDRNOTAVAIL:
            raise
        return socket.create_server((COMMON, port), backlog=MOST)


class Forward:
    """Listens on a loopback address only: that of the task, or 127.0.0.1 on systems that have no
    other (macOS). `on_refusal` receives the refusal of a connection."""

    def __init__(
        self,
        client: Skep,
        attempt_id: str,
        local: int,
        remote: int,
        on_refusal: Callable[[SkepError], None],
        address: str = "",
    ) -> None:
        """`local` 0 takes a free port; `address` is one to listen on instead. Raises OSError where
        the port is taken or the address is none of this machine."""
        self._client, self._attempt_id, self.remote, self._on_refusal = (
            client,
            attempt_id,
            remote,
            on_refusal,
        )
        self._listener = _listener(address or own_address(attempt_id), local, given=bool(address))
        self.address, self.local = self._listener.getsockname()[:2]

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
                self._on_refusal(error)
            finally:
                _hang_up(connection)


def _join(connection: socket.socket, stream: Stream) -> None:
    threading.Thread(target=_send, args=[connection, stream], daemon=True).start()
    for _, data in stream.output():
        try:
            connection.sendall(data)
        except OSError:  # the program here has gone
            return
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _hang_up(connection: socket.socket) -> None:
    """Shut the connection down. Closing alone would not, as long as a thread waits to receive."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _send(connection: socket.socket, stream: Stream) -> None:
    with suppress(OSError):
        while data := connection.recv(PIECE_BYTES):
            stream.write(data)
    stream.end_input()
