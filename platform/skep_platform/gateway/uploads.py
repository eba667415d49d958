"""Uploads are larger than other requests, and Django writes a body to disk before it asks whose it
is: so that is asked first."""

from __future__ import annotations

from collections import Counter
from typing import Any

from skep_platform.core.errors import SkepError, TooMany, Unauthorized
from skep_platform.core.limits import App, BodyLimit, Receive, Scope, Send, refuse
from skep_platform.gateway import threads
from skep_platform.gateway.callers import Credential
from skep_platform.gateway.socket import Socket

PATH = "/api/v1/files"
MAX_AT_ONCE = 4  # of one user in this process


class UploadGate:
    """ASGI: uploads of those who are logged in, with a limit of their own; all else goes to
    `other`."""

    def __init__(self, app: App, most: int, other: App) -> None:
        self._upload = BodyLimit(app, most)
        self._other = other
        self._running: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", PATH):
            return await self._other(scope, receive, send)
        try:
            user_id = await self._user(scope)
        except SkepError as error:
            return await refuse(send, error)
        self._running[user_id] += 1
        try:
            return await self._upload(scope, receive, send)
        finally:
            self._running[user_id] -= 1

    async def _user(self, scope: Scope) -> int:
        nothing: Any = None
        credential = Credential.of(Socket(scope, nothing, nothing))
        user = await threads.control.run(credential.user)
        if user is None:
            raise Unauthorized("Log in before you upload.")
        if self._running[user.pk] >= MAX_AT_ONCE:
            message = f"At most {MAX_AT_ONCE} uploads at once."
            raise TooMany(message, code="too_many_uploads", retry_after_s=5)
        return user.pk
