"""A page of tests: one live socket, and what rang."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from skep_platform.accounts.models import User

WAIT_S = 60  # a slow machine's; every wait ends as soon as it may


def login(user: User) -> SessionStore:
    """A session of the user, as the login view makes it."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return session


class Page:
    """`session` is a browser's, `token` a program's."""

    def __init__(
        self,
        port: int,
        *,
        session: SessionStore | None = None,
        token: str = "",
        origin: str | None = None,
    ) -> None:
        headers = {}
        if session is not None:
            headers["Cookie"] = f"{settings.SESSION_COOKIE_NAME}={session.session_key}"
            origin = f"http://127.0.0.1:{port}" if origin is None else origin
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if origin:
            headers["Origin"] = origin
        self._connection = connect(
            f"ws://127.0.0.1:{port}/ws/live",
            additional_headers=headers,
            open_timeout=WAIT_S,
            ping_interval=None,
            proxy=None,
        )

    def __enter__(self) -> Page:
        self.socket = self._connection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.__exit__(kind, error, trace)

    def send(self, **message: str) -> None:
        self.write(json.dumps(message))

    def write(self, frame: bytes | str) -> None:
        """Sends a frame as it is. A server that has refused this page may have closed it
        before: `receive` and `end` report that."""
        with suppress(ConnectionClosed):
            self.socket.send(frame)

    def receive(self, seconds: float = WAIT_S) -> dict[str, Any]:
        return json.loads(self.socket.recv(timeout=seconds))

    def subscribe(self, topic: str, subject: object = "") -> None:
        """Until it is received; the first ring that follows a subscription is taken, too."""
        self.send(subscribe=topic, id=str(subject))
        assert self.expect("subscribed") == (topic, str(subject))
        assert self.expect("changed") == (topic, str(subject))

    def expect(self, kind: str, seconds: float = WAIT_S) -> tuple[str, str]:
        """(topic, id) of the next message, which is of this kind."""
        message = self.receive(seconds)
        assert message["type"] == kind, message
        return message["topic"], message["id"]

    def refusal(self) -> str:
        """The code of the next message, an error."""
        message = self.receive()
        assert message["type"] == "error", message
        assert message["message"]
        return message["code"]

    def end(self, seconds: float = WAIT_S) -> tuple[str, int]:
        """(code of the last error, close code) of a connection that the server ends."""
        code, deadline = "", time.monotonic() + seconds
        try:
            while True:
                message = self.receive(max(0.0, deadline - time.monotonic()))
                code = message.get("code", code)
        except ConnectionClosed as closed:
            return code, closed.rcvd.code if closed.rcvd else 1006
