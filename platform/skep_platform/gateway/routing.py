"""Routes: the WebSockets of agents, which only the gateway serves; those of people with the streams
that belong to them, which the web server serves; and uploads.

Uploads are larger than other requests, and Django writes a body to disk before it looks at the
credential: so that is done here first.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from channels.routing import URLRouter
from django.urls import path, re_path

from skep_platform.core.errors import SkepError, TooMany, Unauthorized
from skep_platform.core.serving import App, BodyLimit, Receive, Scope, Send, refuse
from skep_platform.gateway import concurrency
from skep_platform.gateway.agent import agent_socket
from skep_platform.gateway.callers import Credential
from skep_platform.gateway.forwarding import forward_socket as to_gateway
from skep_platform.gateway.live import live_socket
from skep_platform.gateway.socket import Socket
from skep_platform.gateway.streams import agent_stream_socket, exec_socket, forward_socket

PATH = "/api/v1/files"
MAX_AT_ONCE = 4  # of one user in this process


class UploadGate:
    """ASGI: takes uploads of users who are logged in, with a limit of their own; all else goes to
    `other`."""

    def __init__(self, app: App, most: int, other: App) -> None:
        self._upload = BodyLimit(app, most)
        self._other = other
        self._running: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", PATH):
            return await self._other(scope, receive, send)
        try:
            user_id = await self._user(scope)
        except SkepError as error:
            return await refuse(send, error)
        self._running[user_id] += 1
        try:
            return await self._upload(scope, receive, send)
        finally:
            self._running[user_id] -= 1

    async def _user(self, scope: Scope) -> int:
        nothing: Any = None
        credential = Credential.of(Socket(scope, nothing, nothing))
        user = await concurrency.control.run(credential.user)
        if user is None:
            raise Unauthorized("Log in before you upload.")
        if self._running[user.pk] >= MAX_AT_ONCE:
            message = f"At most {MAX_AT_ONCE} uploads at once."
            raise TooMany(message, code="too_many_uploads", retry_after_s=5)
        return user.pk


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the socket before it is accepted: HTTP 403."""
    await send({"type": "websocket.close"})


# Typed for views; Channels routes ASGI applications with them.
_agents: list[Any] = [
    path("ws/agent", cast(Any, agent_socket)),
    re_path("", cast(Any, nothing_here)),
]
_people: list[Any] = [
    path("ws/agent", cast(Any, to_gateway)),
    path("ws/agent/streams/<str:stream_id>", cast(Any, agent_stream_socket)),
    path("ws/attempts/<uuid:attempt_id>/exec", cast(Any, exec_socket)),
    path("ws/attempts/<uuid:attempt_id>/forward", cast(Any, forward_socket)),
    path("ws/live", cast(Any, live_socket)),
    re_path("", cast(Any, nothing_here)),
]
agents = URLRouter(_agents)
people = URLRouter(_people)
