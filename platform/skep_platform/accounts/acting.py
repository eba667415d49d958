"""Who makes a request, typed, for views and what they call."""

from __future__ import annotations

from rest_framework.request import Request

from skep_platform.accounts.models import User
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
