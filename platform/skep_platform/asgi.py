"""ASGI entry point of the web server: the API, the pages, and people's sockets. The sockets of
agents are the gateway's (`skep_platform.gateway.asgi`)."""

from __future__ import annotations

import os
from typing import Any, cast

from skep_platform.core.serving import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
http = http_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from skep_limits import MAX_ARCHIVE_BYTES  # noqa: E402
from skep_platform.core import metrics, parse_pool  # noqa: E402
from skep_platform.core.serving import App, BodyLimit, behind_proxies, finish_start  # noqa: E402
from skep_platform.gateway.routing import UploadGate, people  # noqa: E402
from skep_platform.web.metrics import SOURCES, ClusterMetrics, ParallelReader  # noqa: E402

django = cast(App, http)
bounded = BodyLimit(django, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
uploads = UploadGate(django, MAX_ARCHIVE_BYTES, bounded)
metrics.add_collector(ClusterMetrics(ParallelReader(SOURCES)))


async def lifespan(_: Any, receive: Any, send: Any) -> None:
    await receive()
    parse_pool.pool.prepare()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


application = behind_proxies(
    ProtocolTypeRouter({"http": uploads, "websocket": people, "lifespan": cast(App, lifespan)})
)
finish_start("web")
