"""ASGI entry point of the gateway: the sockets of agents, and what agents ask by HTTP.

A process of its own: the request or the shell of a user never delays a heartbeat. So users'
requests and sockets, and the streams that carry tenants' bytes, stay with
the web server.
"""

from __future__ import annotations

import logging
import os
from typing import cast

from skep_platform.core.serving import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
http = http_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402

from skep_platform.core.serving import App, BodyLimit, behind_proxies, finish_start  # noqa: E402
from skep_platform.gateway.agent_http import MAX_BODY, AgentHttp  # noqa: E402
from skep_platform.gateway.forwarding import Forwarded  # noqa: E402
from skep_platform.gateway.presence import lifespan  # noqa: E402
from skep_platform.gateway.routing import agents  # noqa: E402

# uvicorn writes three lines for each connection, which the events of nodes have as well.
logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
bounded = BodyLimit(cast(App, http), MAX_BODY)
routes = ProtocolTypeRouter(
    {"http": AgentHttp(bounded), "websocket": agents, "lifespan": cast(App, lifespan)}
)
application = behind_proxies(Forwarded(routes))
finish_start("gateway")
