"""Who makes a request, and what its credential may do: the check of `Authorization: Bearer <token>`
for the REST API, the user, typed, for views and what they call, and the one check of scopes behind
every route and socket.

A token has a scope. `read` lets it read what its user may read; `submit` also lets it work with
jobs and files; `admin` lets it do all that its user may. A session, which needs a password or
single sign-on, has no scope and may do everything that its user may.

The token of a job has further bounds: it is of use in the virtual cluster of the job only, where it
may do what a member may, and only in views with `job_tokens`.
"""

from __future__ import annotations

from typing import Any

from knox.auth import TokenAuthentication as KnoxAuthentication
from rest_framework.authentication import SessionAuthentication as DjangoSessions
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from skep_platform.accounts import mfa, queries, services, sessions
from skep_platform.accounts.models import ApiToken, Scope, User
from skep_platform.core import caller
from skep_platform.core.errors import Forbidden


def user(request: Request) -> User:
    """Of a view that lets only logged-in users in."""
    assert isinstance(request.user, User)
    return request.user


def admin(request: Request) -> User:
    """Raises Forbidden. For views that look for their object first: what a caller may not see is
    404, not 403."""
    found = user(request)
    if not found.is_admin:
        raise Forbidden("Only an admin may do this.")
    return found


# A token that another process revokes, or whose user it deactivates, works for so long after that.
FRESH_S = 1.0


class TokenAuthentication(KnoxAuthentication):
    """Knox's header handling with a single query a second at most: the digest is the key, and
    expired tokens are cleared away when one is made, not while reading. The scope of the token is
    checked here, where no view can forget it."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user, token = found
        return admitted(user, token, request)

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        found = queries.living_token(token.decode("utf-8", "replace"), FRESH_S)
        if found is None:
            raise AuthenticationFailed("The token is unknown or expired; log in again.")
        return found.user, found


class SessionAuthentication(DjangoSessions):
    """Sessions of browsers, with the check of their CSRF token. A user who must set up MFA gets no
    further than the views that have `before_mfa`."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        found = super().authenticate(request)
        if found is not None:
            caller.identify(found[0])
            view = request.parser_context.get("view")
            if not getattr(view, "before_mfa", False):
                mfa.refuse_missing(found[0], request._request.session)
            sessions.note_use(found[0], request._request.session)
        return found


def admitted(user: User, token: ApiToken, request: Request) -> tuple[User, ApiToken]:
    """Return the user and the token of a request that the token may make. Raises Forbidden."""
    caller.identify(user, token)
    _check_job_token(token, request)
    check_scope(token.scope, needed_scope(request))
    services.note_use(token)
    return user, token


SCOPES = [scope.value for scope in Scope]


def _check_job_token(token: ApiToken, request: Request) -> None:
    """Let the token of a job do nothing but what views with `job_tokens` do: work with jobs and
    files. Raises Forbidden `job_token_not_allowed`."""
    view = request.parser_context.get("view")
    if token.job_id is not None and not getattr(view, "job_tokens", False):
        message = "The token of a job works with jobs and files only; use a token of your own."
        raise Forbidden(message, code="job_token_not_allowed")


def scope_allows(held: str, needed: str) -> bool:
    """Whether a token with one scope may do what needs another."""
    return SCOPES.index(held) >= SCOPES.index(needed)


def needed_scope(request: Request) -> str:
    """Reading needs `read`; writing needs the view's `token_scope`, or `admin` without one."""
    if request.method in SAFE_METHODS:
        return Scope.READ
    return str(getattr(request.parser_context.get("view"), "token_scope", Scope.ADMIN))


def check_scope(held: str, needed: str) -> None:
    """Raises Forbidden `scope_too_small`."""
    if not scope_allows(held, needed):
        message = f"The token has the scope {held}; this needs one of the scope {needed}."
        raise Forbidden(message, code="scope_too_small", scope=held, needed=needed)


def scope_of(user: Any) -> str:
    """The scope of the credential by which this user was found."""
    return str(getattr(user, "token_scope", Scope.ADMIN))
