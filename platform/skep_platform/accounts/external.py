"""Accounts that someone else vouches for: an OpenID provider or a directory.

An account is found by what the other side never gives away again (a subject, a UUID), and never by
its name or e-mail, because whoever sets these there would take the account over.
"""

from __future__ import annotations

from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone

from skep_platform.accounts import groups
from skep_platform.accounts.models import User
from skep_platform.core.errors import Conflict, Forbidden

MAX_UID = 191
LDAP = "ldap"  # the provider of accounts of the directory; all others are issuers of OpenID


@transaction.atomic
def user_of(
    provider: str, uid: str, username: str, email: str, group_names: list[str] | None
) -> User:
    """Return the user whom the provider knows as `uid`, made with the least rights at the first
    login, and let the user's groups follow `group_names` unless they are None. Raises Conflict
    `account_exists`, Forbidden `account_inactive`, SkepError `name_invalid`."""
    known = SocialAccount.objects.select_related("user").filter(provider=provider, uid=uid)
    found = known.first()
    user = found.user if found else _create(provider, uid, username, email)
    if not user.is_active:
        message = f"The account {user.get_username()} is deactivated; ask an admin."
        raise Forbidden(message, code="account_inactive")
    if group_names is not None:
        groups.set_external(user, group_names)
    now = timezone.now()
    known.update(last_login=now)
    User.objects.filter(pk=user.pk).update(last_login=now)
    return user


def _create(provider: str, uid: str, username: str, email: str) -> User:
    """Create a user who is member of nothing, and no admin whatever the provider says."""
    from skep_platform.accounts import services  # which imports what decides on logins

    taken = User.objects.filter(username__iexact=username)
    if email:
        taken |= User.objects.filter(email__iexact=email)
    if taken.exists():
        message = "An account with this user name or e-mail exists, and is not linked."
        raise Conflict(message, code="account_exists")
    user = services.create_external_user(username, email)
    try:
        with transaction.atomic():
            SocialAccount.objects.create(user=user, provider=provider, uid=uid)
    except IntegrityError:
        message = "You are logged in elsewhere just now; try again."
        raise Conflict(message, code="sso_state") from None
    return user


def valid_email(email: object) -> str:
    """Return the address if it is one, else an empty string."""
    if not isinstance(email, str) or len(email) > 254:
        return ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email
