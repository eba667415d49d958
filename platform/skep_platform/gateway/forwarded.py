"""What the web server tells the gateway of a connection that it forwards: signed, so that nobody
else can say it, whatever lies between the two."""

from __future__ import annotations

from typing import Any

from django.core import signing

from skep_platform.core.addresses import client_address, header
from skep_platform.gateway.socket import Receive, Scope, Send

HEADER = b"skep-forwarded"
SALT = "skep.gateway.forwarded"
MAX_AGE_S = 300  # the clocks of two servers may differ


def statement(scope: Scope) -> str:
    """The value of the header: client address, scheme and Host as the web server saw them."""
    seen = [client_address(scope), scope["scheme"], header(scope["headers"], b"host")]
    return signing.dumps(seen, salt=SALT)


class Forwarded:
    """ASGI: shows `app` a forwarded connection as it came to the web server. `scope["forwarded"]`
    says whether it was one."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "lifespan":
            scope = {**scope, "forwarded": False}
            _restore(scope)
        return await self._app(scope, receive, send)


def _restore(scope: Scope) -> None:
    told = header(scope["headers"], HEADER)
    if not told:
        return
    others = [(key, value) for key, value in scope["headers"] if key.lower() != HEADER]
    try:
        address, scheme, host = signing.loads(told, salt=SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        scope["headers"] = others  # somebody's invention
        return
    kept = [(key, value) for key, value in others if key.lower() != b"host"]
    scope["forwarded"] = True
    scope["client"] = (address, 0)
    scope["scheme"] = scheme
    scope["headers"] = [(b"host", host.encode("latin-1")), *kept]
