"""Routes of the WebSockets."""

from __future__ import annotations

from typing import Any, cast

from channels.routing import URLRouter
from django.urls import path, re_path

from skep_platform.gateway.agent import agent_socket
from skep_platform.gateway.agent_stream import agent_stream_socket
from skep_platform.gateway.live import live_socket
from skep_platform.gateway.socket import Receive, Scope, Send
from skep_platform.gateway.streams import exec_socket, forward_socket


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Refused before it is accepted: HTTP 403."""
    await send({"type": "websocket.close"})


# Typed for views; Channels routes ASGI applications with them.
routes: list[Any] = [
    path("ws/agent", cast(Any, agent_socket)),
    path("ws/agent/streams/<str:stream_id>", cast(Any, agent_stream_socket)),
    path("ws/attempts/<uuid:attempt_id>/exec", cast(Any, exec_socket)),
    path("ws/attempts/<uuid:attempt_id>/forward", cast(Any, forward_socket)),
    path("ws/live", cast(Any, live_socket)),
    re_path("", cast(Any, nothing_here)),
]
websockets = URLRouter(routes)
