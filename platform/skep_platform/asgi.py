"""ASGI entry point of the web server: the API, the pages, and people's sockets. The sockets of
agents are the gateway's (`skep_platform.gateway.asgi`)."""

from __future__ import annotations

import os
from functools import partial
from typing import cast

from skep_platform.core.serving import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
http = http_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from skep_limits import MAX_ARCHIVE_BYTES  # noqa: E402
from skep_platform.core import metrics  # noqa: E402
from skep_platform.core.serving import (  # noqa: E402
    App,
    BodyLimit,
    at_database,
    behind_proxies,
    finish_start,
)
from skep_platform.gateway.routing import UploadGate, people  # noqa: E402
from skep_platform.web.metrics import ClusterMetrics, read_cluster  # noqa: E402

django = cast(App, http)
bounded = BodyLimit(django, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
uploads = UploadGate(django, MAX_ARCHIVE_BYTES, bounded)
metrics.add_collector(ClusterMetrics(partial(at_database, read_cluster)))
application = behind_proxies(ProtocolTypeRouter({"http": uploads, "websocket": people}))
finish_start("web")
