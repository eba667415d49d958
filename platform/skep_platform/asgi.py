"""ASGI entry point of the web server: the API, the pages, and people's sockets. The sockets of
agents are the gateway's (`skep_platform.gateway.asgi`)."""

from __future__ import annotations

import os
from typing import cast

from skep_platform.core.handler import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
http = http_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from skep_platform.core.limits import App, BodyLimit  # noqa: E402
from skep_platform.files.contents import MAX_PACKED  # noqa: E402
from skep_platform.gateway.routing import people  # noqa: E402
from skep_platform.gateway.uploads import UploadGate  # noqa: E402

django = cast(App, http)
bounded = BodyLimit(django, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
uploads = UploadGate(django, MAX_PACKED, bounded)
application = ProtocolTypeRouter({"http": uploads, "websocket": people})
