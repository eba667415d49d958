"""Notifications of the server that something changed: what follows jobs waits for them."""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack
from typing import Any, Self
from urllib.parse import urlsplit

POLL_S = 0.5  # between two looks where no WebSocket can be opened
REOPEN_S = 15.0  # before the first try to open it again; the pause doubles while it fails
REOPEN_MOST_S = 240.0
OPEN_S = 5.0


def is_loopback(server: str) -> bool:
    """Whether no proxy of the environment can help to reach it."""
    return urlsplit(server).hostname in ("127.0.0.1", "::1", "localhost")


class Subscription:
    """Notifications that a topic of /ws/live changed. Where no WebSocket can be opened, `wait` is a
    short sleep, and its caller polls; after a while it is tried again."""

    def __init__(self, server: str, token: str, topic: str, subject_id: str) -> None:
        self._server, self._token = server, token
        self._request = json.dumps({"subscribe": topic, "id": subject_id})
        self._socket: Any = None
        self._opened = ExitStack()  # closes the socket
        self._pause_s, self._reopen_at = REOPEN_S, 0.0

    def __enter__(self) -> Self:
        self._open(OPEN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def wait(self, at_most_s: float) -> None:
        """Return at the next notification, or after `at_most_s` seconds."""
        from websockets.exceptions import WebSocketException

        if self._socket is None and time.monotonic() >= self._reopen_at:
            self._open(min(OPEN_S, at_most_s))
            if self._socket is not None:
                return  # of what changed before there is no notification
        if self._socket is None:
            time.sleep(min(POLL_S, at_most_s))
            return
        try:
            self._socket.recv(timeout=at_most_s)
        except TimeoutError:
            pass
        except (OSError, WebSocketException):  # a web server that restarts; polling goes on
            self._lost()

    def _open(self, within_s: float) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        server = urlsplit(self._server)
        scheme = "wss" if server.scheme == "https" else "ws"
        try:
            socket = connect(
                server._replace(scheme=scheme, path=f"{server.path}/ws/live").geturl(),
                additional_headers={"Authorization": f"Bearer {self._token}"},
                open_timeout=within_s,
                proxy=None if is_loopback(self._server) else True,
            )
            self._socket = self._opened.enter_context(socket)
            self._socket.send(self._request)
        except (OSError, WebSocketException):
            self._lost()
        else:
            self._pause_s = REOPEN_S

    def _lost(self) -> None:
        self._close()
        # Not all at once: a server that restarts has the followers of many jobs.
        pause = self._pause_s * random.uniform(1, 1.5)  # noqa: S311
        self._reopen_at = time.monotonic() + pause
        self._pause_s = min(2 * self._pause_s, REOPEN_MOST_S)

    def _close(self) -> None:
        self._socket = None
        self._opened.close()
