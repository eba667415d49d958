"""`Authorization: Bearer <token>` for the REST API."""

from __future__ import annotations

from knox.auth import TokenAuthentication as KnoxAuthentication
from rest_framework.exceptions import AuthenticationFailed

from skep_platform.accounts import queries
from skep_platform.accounts.models import ApiToken, User


class TokenAuthentication(KnoxAuthentication):
    """Knox's header handling with a single query: the digest is the key, and expired tokens are
    cleared away when one is made, not while reading."""

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        found = queries.living_token(token.decode("utf-8", "replace"))
        if found is None:
            raise AuthenticationFailed("The token is unknown or expired; log in again.")
        return found.user, found
