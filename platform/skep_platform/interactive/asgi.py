"""ASGI entry point of the apps' proxy: the hosts of apps, and nothing else of the platform.

A process of its own: what tenants send through it never delays a page, and never a heartbeat."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

from skep_platform.core.serving import application as http_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")
django = http_application()

from skep_platform.core.errors import NotFound  # noqa: E402
from skep_platform.core.serving import App, behind_proxies, finish_start  # noqa: E402
from skep_platform.interactive import answers  # noqa: E402
from skep_platform.interactive.proxy import Proxy  # noqa: E402
from skep_platform.interactive.watching import watch_apps  # noqa: E402

PROBES = ("/healthz", "/readyz")


async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
    """Answer probes, and refuse all else at hosts that are no app's."""
    if scope["type"] == "http" and scope["path"] in PROBES:
        await cast(App, django)(scope, receive, send)
        return
    problem = NotFound("No app has this host name.", code="unknown_host")
    if scope["type"] == "websocket":
        await answers.deny_socket(scope, send, problem)
    else:
        await answers.error(send, problem)


proxy = Proxy(elsewhere)


async def lifespan(_: Any, receive: Any, send: Any) -> None:
    await receive()
    watching = asyncio.create_task(watch_apps())
    await send({"type": "lifespan.startup.complete"})
    await receive()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await proxy.close()
    await send({"type": "lifespan.shutdown.complete"})


async def routes(scope: Any, receive: Any, send: Any) -> None:
    await (lifespan if scope["type"] == "lifespan" else proxy)(scope, receive, send)


application = behind_proxies(routes)
finish_start("apps")
