"""The proxy of apps: each app has a host of its own, at which a browser logs in by a code that the
platform's page got for it. No credential of the platform passes on to an app, and no page of
another origin can use one."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from django.conf import settings
from redis import RedisError

from skep_platform.core.errors import Forbidden, NotFound, SkepError, TooMany, Unauthorized
from skep_platform.core.serving import client_address
from skep_platform.gateway import concurrency
from skep_platform.gateway.socket import Receive, Refusal, Scope, Send
from skep_platform.interactive import answers, queries, services
from skep_platform.interactive import headers as h
from skep_platform.interactive.http import HttpPools, pass_request
from skep_platform.interactive.logins import Logins, own_cookies, secure, session_cookie
from skep_platform.interactive.logins import state_cookie as state_cookie_name
from skep_platform.interactive.queries import Grant
from skep_platform.interactive.tunnel import Target
from skep_platform.interactive.websocket import pass_socket

log = structlog.get_logger(__name__)
OWN = "/_skep/"
STATE_S = 600
MAX_RETURN = 1500  # characters of the address that is opened after the login
MAX_AT_ONCE = 96  # requests and sockets of one app in this process


class Proxy:
    """An ASGI application. `other` answers at hosts that are no app's."""

    def __init__(self, other: Any) -> None:
        self._other = other
        self._logins = Logins()
        self._pools = HttpPools()
        self._running: Counter[Any] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        label = _label(scope)
        if not label:
            await self._other(scope, receive, send)
            return
        refuse = answers.deny_socket if scope["type"] == "websocket" else _error
        try:
            await self._serve(scope, receive, send, label)
        except SkepError as error:
            await refuse(scope, send, error)
        except Refusal as refusal:
            problem = TooMany(refusal.message, code=refusal.code, retry_after_s=2)
            await refuse(scope, send, problem)
        except (RedisError, OSError) as broken:
            log.warning("app_proxy_failed", error=type(broken).__name__)

    async def close(self) -> None:
        await self._pools.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, label: str) -> None:
        if h.size(scope["headers"]) > h.MAX_BYTES:
            error = SkepError("The headers are too large.", code="headers_too_large")
            error.status = 431
            raise error
        socket, method = scope["type"] == "websocket", scope.get("method", "GET")
        origin = _origin(scope)
        if socket and h.get(scope["headers"], b"origin").lower() != origin:
            raise Forbidden("Only the app's own pages may connect.", code="cross_origin")
        if not h.from_own_page(method, scope["headers"], origin):
            message = "Only the app's own pages may ask for this."
            raise Forbidden(message, code="cross_origin")
        if scope["path"].startswith(OWN):
            await self._own(scope, send, label)
            return
        found = await self._logins.of(scope, label)
        if found is None:
            await self._log_in(scope, send, label)
            return
        digest, grant = found
        await self._pass(scope, receive, send, label, digest, grant)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, label: str, digest: str, grant: Grant
    ) -> None:
        target = _target(grant)
        if target is None:
            await _not_ready(scope, send, grant)
            return
        key = (target.app_id, grant.user.pk)
        if self._running[key] >= MAX_AT_ONCE:
            message = f"At most {MAX_AT_ONCE} requests of one user to an app at once."
            raise TooMany(message, code="too_many_requests", retry_after_s=2)
        headers = h.to_app(
            scope["headers"],
            host=_host(scope),
            scheme="https" if secure() else "http",
            address=client_address(scope),
            user=grant.user.get_username(),
            own=own_cookies(),
        )
        self._running[key] += 1
        hold = self._logins.hold(label, digest, target.attempt_id)
        try:
            if scope["type"] == "websocket":
                used = lambda: self._logins.used(target.app_id)  # noqa: E731
                await pass_socket(scope, receive, send, target, headers, hold, used)
            else:
                if h.is_use(scope["method"], scope["headers"]):
                    await self._logins.used(target.app_id)
                pool = self._pools.of(target)
                await pass_request(scope, receive, send, pool, headers, hold, own_cookies())
        finally:
            hold.close()
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    # --- the login

    async def _log_in(self, scope: Scope, send: Send, label: str) -> None:
        """Send a browser that opens a page to the platform's, which knows who it is."""
        if scope["type"] == "websocket" or not h.is_navigation(scope["method"], scope["headers"]):
            raise Unauthorized("Open the app's page again: its login ended.")
        app_id = await concurrency.credentials.run(queries.exists, label)
        if app_id is None:
            raise NotFound("There is no such app.", code="app_not_found")
        state = secrets.token_urlsafe(32)
        cookie = _cookie(state_cookie_name(), _packed(state, _address(scope)), STATE_S)
        await answers.redirect(
            send, f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/apps/{app_id}?state={state}", cookie
        )

    async def _own(self, scope: Scope, send: Send, label: str) -> None:
        if scope["type"] == "websocket" or scope["path"] != f"{OWN}login":
            raise NotFound("There is nothing here.")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        code = query.get("code", [""])[-1]
        packed = [v for k, v in h.cookies(scope["headers"]) if k == state_cookie_name()]
        state, address = _unpacked(packed[0] if len(packed) == 1 else "")
        token = None
        if scope["method"] == "GET" and code and state:
            token = await concurrency.credentials.run(services.redeem, label, code, state)
        if token is None:
            message = "This link worked once, or for a minute, or for another browser."
            link = settings.SKEP_PUBLIC_URL.rstrip("/") + "/apps"
            await answers.page(send, 403, "Open the app again", message, link, "My apps")
            return
        login = _cookie(session_cookie(), token, services.SESSION_S)
        await answers.redirect(send, address, login, _cookie(state_cookie_name(), "", 0))


async def _error(_: Scope, send: Send, problem: SkepError) -> None:
    await answers.error(send, problem)


async def _not_ready(scope: Scope, send: Send, grant: Grant) -> None:
    state = queries.state_of(grant.app, grant.attempt)
    message = {
        queries.ENDED: "Its job has ended.",
        queries.WAITING: "Its job waits, or its container is being started.",
    }.get(state, grant.app.problem or "It was started and does not answer yet.")
    if scope["type"] == "websocket" or not h.is_navigation(scope["method"], scope["headers"]):
        error = SkepError(message, code="app_not_ready", state=state)
        error.status = 503
        raise error
    link = f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/jobs/{grant.app.job_id}"
    again = 0 if state == queries.ENDED else 3
    title = f"{grant.app.name} is {state}"
    await answers.page(send, 503, title, message, link, "The job's page", again)


def _target(grant: Grant) -> Target | None:
    app, attempt = grant.app, grant.attempt
    if attempt is None or app.port is None or not grant.ready:
        return None
    return Target(app.pk, attempt.pk, attempt.node_id, app.port)


# --- addresses and cookies


def _host(scope: Scope) -> str:
    return h.get(scope["headers"], b"host").lower()


def _label(scope: Scope) -> str:
    """Return the label of the app of a request; "" at other hosts."""
    if not settings.SKEP_APPS_URL:
        return ""
    label, _, rest = _host(scope).partition(".")
    return label if rest == urlsplit(settings.SKEP_APPS_URL).netloc.lower() else ""


def _origin(scope: Scope) -> str:
    return f"{'https' if secure() else 'http'}://{_host(scope)}"


def _address(scope: Scope) -> str:
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    address = f"{path}?{query}" if query else path
    return address if len(address) <= MAX_RETURN else "/"


def _cookie(name: str, value: str, seconds: int) -> str:
    """Return a cookie of this host alone. `Lax`: the way here leads through the platform's page,
    which is of another site."""
    safe = "; Secure" if secure() else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{safe}"


def _packed(state: str, address: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([state, address]).encode()).decode()


def _unpacked(text: str) -> tuple[str, str]:
    """Return the state and the address to go to, which is one of this origin."""
    try:
        state, address = json.loads(base64.urlsafe_b64decode(text.encode()))
        plain = address.isascii() and address.isprintable() and "\\" not in address
        local = plain and address.startswith("/") and not address.startswith("//")
        return str(state), address if local else "/"
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        return "", "/"
