"""Routes of the WebSockets: those of agents, which only the gateway serves, and those of people
with the streams that belong to them, which the web server serves."""

from __future__ import annotations

from typing import Any, cast

from channels.routing import URLRouter
from django.urls import path, re_path

from skep_platform.gateway.agent import agent_socket
from skep_platform.gateway.agent_stream import agent_stream_socket
from skep_platform.gateway.forward import forward_socket as to_gateway
from skep_platform.gateway.live import live_socket
from skep_platform.gateway.socket import Receive, Scope, Send
from skep_platform.gateway.streams import exec_socket, forward_socket


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Refused before it is accepted: HTTP 403."""
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
