"""What changes how a user logs in needs a login, or the password again, of a few minutes ago: a
session that was left open is not enough to take the account over."""

from __future__ import annotations

import time

from django.contrib.sessions.backends.base import SessionBase
from rest_framework.request import Request

from skep_platform.accounts.models import ApiToken, User
from skep_platform.core.errors import Forbidden

CONFIRMED = "skep_confirmed_at"  # in a session: when the user last showed who it is
FRESH_S = 600


def note(session: SessionBase) -> None:
    """Remember that the user has just shown who it is."""
    session[CONFIRMED] = time.time()


def required(request: Request, user: User) -> SessionBase:
    """Return the session of a user who showed lately who it is. Raises Forbidden
    `session_required` for a token and `confirmation_required`."""
    if isinstance(request.auth, ApiToken):
        message = "This is done on the settings page: a token cannot do it."
        raise Forbidden(message, code="session_required")
    session = request._request.session
    if time.time() - session.get(CONFIRMED, 0) > FRESH_S:
        message = "Confirm who you are first."
        has = user.has_usable_password() or is_of_directory(user)
        raise Forbidden(message, code="confirmation_required", password=has)
    return session


def is_of_directory(user: User) -> bool:
    """Return whether the user's password is that of the directory."""
    from allauth.socialaccount.models import SocialAccount

    return SocialAccount.objects.filter(user=user, provider="ldap").exists()
