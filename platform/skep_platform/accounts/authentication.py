"""`Authorization: Bearer <token>` for the REST API."""

from __future__ import annotations

from knox.auth import TokenAuthentication as KnoxAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from skep_platform.accounts import queries, scopes, services
from skep_platform.accounts.models import ApiToken, User


class TokenAuthentication(KnoxAuthentication):
    """Knox's header handling with a single query: the digest is the key, and expired tokens are
    cleared away when one is made, not while reading. The scope of the token is checked here, where
    no view can forget it."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        found = super().authenticate(request)
        if found is not None:
            scopes.check(found[1].scope, scopes.needed_by(request))
            services.note_use(found[1])
        return found

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        found = queries.living_token(token.decode("utf-8", "replace"))
        if found is None:
            raise AuthenticationFailed("The token is unknown or expired; log in again.")
        return found.user, found
