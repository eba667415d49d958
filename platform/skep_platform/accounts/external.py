"""Accounts that someone else vouches for: an OpenID provider or a directory.

An account is found by what the other side never gives away again (a subject, a UUID), and never by
its name or e-mail, because whoever sets these there would take the account over.
"""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone

from skep_platform.accounts import groups
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, Forbidden, NotFound

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
        message = (
            "An account with this user name or e-mail exists, and is not linked: log in to it "
            "and link it in the settings."
        )
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


def status(user: User, provider: str) -> dict[str, Any]:
    """Return whether the user is linked to an account of the provider, since when, and whether the
    link may end."""
    row = SocialAccount.objects.filter(user=user, provider=provider).first()
    return {
        "linked": row is not None,
        "linked_at": row.date_joined if row else None,
        "last_used_at": row.last_login if row else None,
        "can_unlink": row is not None and _logs_in_otherwise(user),
    }


@transaction.atomic
def link(user: User, provider: str, uid: str) -> None:
    """Let the account that the provider knows as `uid` log in as this user. Raises Conflict
    `sso_linked`: the user has another one there; `sso_linked_elsewhere`: another user has it."""
    User.objects.select_for_update().get(pk=user.pk)
    known = SocialAccount.objects.filter(provider=provider)
    if known.filter(user=user).exists():
        message = "Your account is linked to the identity provider already; unlink it first."
        raise Conflict(message, code="sso_linked")
    elsewhere = known.filter(uid=uid).exists()
    if not elsewhere:
        try:
            with transaction.atomic():
                SocialAccount.objects.create(user=user, provider=provider, uid=uid)
        except IntegrityError:  # another user was faster
            elsewhere = True
    if elsewhere:
        message = "Another user here is linked to that account of the identity provider."
        raise Conflict(message, code="sso_linked_elsewhere")
    audit.record("user.sso.link", "user", user.pk, user.get_username(), provider=provider)


@transaction.atomic
def unlink(user: User, provider: str) -> None:
    """End the link to the provider. Raises NotFound, Conflict `last_login_method`."""
    user = User.objects.select_for_update().get(pk=user.pk)
    row = SocialAccount.objects.filter(user=user, provider=provider).first()
    if row is None:
        raise NotFound("Your account is not linked to the identity provider.")
    if not _logs_in_otherwise(user):
        message = (
            "You could not log in any more: your account has no password here. Ask an "
            "administrator for a link to set one."
        )
        raise Conflict(message, code="last_login_method")
    row.delete()
    audit.record("user.sso.unlink", "user", user.pk, user.get_username(), provider=provider)


def _logs_in_otherwise(user: User) -> bool:
    """Return whether a password logs the user in: one kept here, or that of the directory."""
    if user.has_usable_password() and settings.SKEP_PASSWORD_LOGIN:
        return True
    of_directory = SocialAccount.objects.filter(user=user, provider=LDAP)
    return bool(settings.SKEP_LDAP_URI) and of_directory.exists()
