"""ASGI entry point of the gateway: the sockets of agents, and what agents ask by HTTP.

A process of its own: a request of a person, or a shell that somebody opened, never holds up a
heartbeat. So people's requests and sockets, and the streams that carry tenants' bytes, stay with
the web server.
"""

from __future__ import annotations

import os
from typing import cast

from skep_platform.core.handler import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
http = http_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402

from skep_platform.core.limits import App, BodyLimit  # noqa: E402
from skep_platform.gateway.agent_http import MAX_BODY, AgentHttp  # noqa: E402
from skep_platform.gateway.forwarded import Forwarded  # noqa: E402
from skep_platform.gateway.presence import lifespan  # noqa: E402
from skep_platform.gateway.routing import agents  # noqa: E402

bounded = BodyLimit(cast(App, http), MAX_BODY)
routes = ProtocolTypeRouter(
    {"http": AgentHttp(bounded), "websocket": agents, "lifespan": cast(App, lifespan)}
)
application = Forwarded(routes)
