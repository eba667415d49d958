"""Who is behind a request at an app's origin: its cookie, looked up in the database at most once in
`CHECK_S` seconds, and followed while a connection is open."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any
from uuid import UUID

from django.conf import settings

from skep_platform.core.serving import client_address
from skep_platform.gateway import concurrency
from skep_platform.gateway.concurrency import retry_while_unavailable
from skep_platform.gateway.socket import ConnectionLimits
from skep_platform.interactive import headers as h
from skep_platform.interactive import queries, services
from skep_platform.interactive.queries import Grant

CHECK_S = 5.0
MOST = 10_000  # cookies that are remembered
MAX_COOKIES = 4  # of one name: a page of another app may have set some for the parent domain
USED_EVERY_S = 20.0

limits = ConnectionLimits(unauthenticated=64, all_unauthenticated=256, of_address=4096, of_user=256)


def secure() -> bool:
    return bool(settings.SKEP_APPS_URL.startswith("https://"))


def session_cookie() -> str:
    """Return the name of the cookie. With TLS no page of another host can set one of this name."""
    return "__Host-skep_app" if secure() else "skep_app"


def state_cookie() -> str:
    return "__Host-skep_app_state" if secure() else "skep_app_state"


def own_cookies() -> tuple[str, ...]:
    """Return the names that no app sees or sets, those of the platform's own pages included."""
    return (
        *(session_cookie(), state_cookie()),
        *(settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME),
    )


class Logins:
    """The cookies that this process knows. What is False was not valid when it was looked up."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[float, Grant | None]] = OrderedDict()
        self._used: dict[UUID, float] = {}

    async def of(self, scope: Any, label: str) -> tuple[str, Grant] | None:
        """Return the digest of the cookie of a request, and what it gives. Raises Refusal when too
        many ask at once."""
        name = session_cookie()
        tokens = [value for key, value in h.cookies(scope["headers"]) if key == name]
        for token in tokens[:MAX_COOKIES]:
            digest = services.digest(token)
            known = self._remembered(label, digest)
            if known is None:
                async with limits.authenticating(client_address(scope)):
                    grant = await concurrency.credentials.run(queries.grant, label, digest)
                self._remember(label, digest, grant)
                known = (grant,)
            if known[0] is not None:
                return digest, known[0]
        return None

    async def hold(self, label: str, digest: str, attempt: UUID) -> None:
        """Wait until the login ends, or the app runs in another attempt."""
        while True:
            await asyncio.sleep(CHECK_S)
            grant = await retry_while_unavailable(concurrency.control, queries.grant, label, digest)
            self._remember(label, digest, grant)
            if grant is None or grant.attempt is None or grant.attempt.pk != attempt:
                return

    async def used(self, app_id: UUID) -> None:
        """Record that a user works with an app, now and then."""
        now = time.monotonic()
        if now - self._used.get(app_id, -USED_EVERY_S) >= USED_EVERY_S:
            if len(self._used) >= MOST:
                self._used.clear()
            self._used[app_id] = now
            await concurrency.control.run(services.used, app_id)

    def _remembered(self, label: str, digest: str) -> tuple[Grant | None] | None:
        found = self._known.get((label, digest))
        if found is None or time.monotonic() - found[0] > CHECK_S:
            return None
        grant = found[1]
        # What starts is looked at again: its page waits for that.
        return None if grant is not None and not grant.ready else (grant,)

    def _remember(self, label: str, digest: str, grant: Grant | None) -> None:
        self._known[label, digest] = (time.monotonic(), grant)
        self._known.move_to_end((label, digest))
        while len(self._known) > MOST:
            self._known.popitem(last=False)
