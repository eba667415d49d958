"""What the servers of tests serve: the web server and the gateway behind one address, as a proxy
puts them, receiving the notifications of the test."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings

if prefix := os.environ.get("SKEP_TEST_PREFIX"):  # in a process of its own
    settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = prefix

from skep_platform.asgi import application as web
from skep_platform.gateway.asgi import application as gateway


async def application(scope: Any, receive: Any, send: Any) -> Any:
    of_agents = scope["type"] == "lifespan" or (
        scope["type"] == "websocket" and scope["path"] == "/ws/agent"
    )
    return await (gateway if of_agents else web)(scope, receive, send)
