"""Who opened a live socket, and whether that still holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from knox.crypto import hash_token

from skep_platform.accounts import queries as accounts
from skep_platform.accounts.models import User
from skep_platform.core.addresses import own_origin
from skep_platform.gateway.socket import Socket


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller shows: an API token, or the session cookie of a browser."""

    token: str
    session_key: str

    @classmethod
    def of(cls, socket: Socket) -> Credential:
        cookies = parse_cookie(socket.header("cookie"))
        return cls(socket.bearer(), cookies.get(settings.SESSION_COOKIE_NAME, ""))

    def group(self) -> str:
        """The channel group that is rung when this credential ends."""
        return token_group(self.token) if self.token else session_group(self.session_key)

    def user(self) -> User | None:
        """Asks the database: None once the credential expired, was revoked, or its user may not
        log in."""
        if self.token:
            found = accounts.living_token(self.token)
            return found.user if found else None
        return _session_user(self.session_key) if self.session_key else None


def origin_allowed(socket: Socket) -> bool:
    """A page of another site must not use a visitor's cookie: the browser tells whose page it is.
    Only a program with a token may say nothing."""
    origin = socket.header("origin").lower()
    if not origin:
        return bool(socket.bearer())
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(socket.header("host").lower())
    return origin == own_origin(socket.scope) and validate_host(domain, settings.ALLOWED_HOSTS)


def session_group(session_key: str) -> str:
    return f"live.login.{hashlib.sha256(session_key.encode()).hexdigest()[:40]}"


def token_group(token: str) -> str:
    return digest_group(hash_token(token))


def digest_group(digest: str) -> str:
    """`digest` is the key of an API token's row."""
    return f"live.login.{digest[:40]}"


def user_group(user_id: object) -> str:
    """Rung when what a user may see or do changed."""
    return f"live.user.{user_id}"


def _session_user(session_key: str) -> User | None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    return user if isinstance(user, User) else None
