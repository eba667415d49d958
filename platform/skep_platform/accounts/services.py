"""All writes to users and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from skep_platform.accounts import throttle
from skep_platform.accounts.models import ApiToken, User
from skep_platform.core.errors import Conflict, NotFound, SkepError, Unauthorized
from skep_platform.core.events import record

TOKEN_TTL = timedelta(days=90)
MAX_TOKEN_TTL = timedelta(days=366)
MAX_TOKENS = 50
CHANGEABLE = frozenset({"email", "is_active", "is_admin", "password"})


def check_password(request: Request | HttpRequest, username: str, password: str) -> User:
    """The user who has this name and password. An unknown user, a wrong password and a deactivated
    user look the same and take the same work. Raises Unauthorized `login_failed`, TooMany."""
    attempt = throttle.Attempt(throttle.address(request), username)
    attempt.count()
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        raise Unauthorized("Wrong user name or password.", code="login_failed")
    attempt.forgive()
    return user


@transaction.atomic
def create_token(
    user: User, name: str = "", ttl: timedelta | float | None = None
) -> tuple[ApiToken, str]:
    """A named API token that lives `ttl` (a timedelta, or seconds; 90 days when None). The secret
    is the second value, told only here. Raises SkepError `ttl_invalid`, Conflict
    `too_many_tokens`."""
    ttl = TOKEN_TTL if ttl is None else ttl
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    longest = int(MAX_TOKEN_TTL.total_seconds())
    if not 0 < seconds <= longest:
        raise SkepError("A token lives at most 366 days.", code="ttl_invalid", longest_s=longest)
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # counted one at a time
    ApiToken.objects.filter(user=user, expiry__lt=timezone.now()).delete()
    held = ApiToken.objects.filter(user=user).count()
    if held >= MAX_TOKENS:
        message = f"You hold {held} tokens; delete one first."
        raise Conflict(message, code="too_many_tokens", most=MAX_TOKENS)
    row, secret = ApiToken.objects.create(
        user, expiry=timedelta(seconds=seconds), name=name or "token"
    )
    row.last4 = secret[-4:]
    row.save(update_fields=["last4"])
    return row, secret


def delete_token(user: User, public_id: object) -> None:
    """Raises NotFound, also for a token of somebody else."""
    deleted, _ = ApiToken.objects.filter(user=user, public_id=public_id).delete()
    if not deleted:
        raise NotFound("You have no such token.")


@transaction.atomic
def create_user(
    actor: User | None, username: str, password: str, *, email: str = "", is_admin: bool = False
) -> User:
    """Raises Conflict `name_taken`, SkepError `name_invalid` and `password_weak`."""
    _check_username(username)
    user = User(username=username, email=email, is_superuser=is_admin)
    _set_password(user, password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        message = f"A user named {username} exists."
        raise Conflict(message, code="name_taken", name=username) from None
    data = {"username": username, "is_admin": is_admin}
    record(
        "user", user.pk, "user.created", f"User {username} was created.", actor=_who(actor), **data
    )
    return user


@transaction.atomic
def update_user(actor: User, username: str, changes: Mapping[str, Any]) -> User:
    """Set any of email, is_active, is_admin, password. A deactivated user and one with a new
    password are signed out everywhere at once. Raises NotFound, Conflict `last_admin`."""
    unknown = changes.keys() - CHANGEABLE
    if unknown:
        raise SkepError(f"These cannot be changed: {', '.join(sorted(unknown))}.")
    # All admins are locked, so that two of them cannot demote each other at once.
    admins = User.objects.filter(is_superuser=True, is_active=True)
    known = set(admins.select_for_update().order_by("pk").values_list("pk", flat=True))
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user named {username}.")
    _apply(user, changes)
    if known == {user.pk} and not user.is_admin:
        raise Conflict("The last active admin must stay one.", code="last_admin")
    if not user.is_active or "password" in changes:
        sign_out(user)
    user.save()
    message = f"User {username} was changed: {', '.join(sorted(changes))}."
    told = {name: value for name, value in changes.items() if name != "password"}
    record("user", user.pk, "user.changed", message, actor=_who(actor), changed=told)
    return user


def change_own_password(request: Request, user: User, current: str, new: str) -> User:
    """All tokens and other sessions end. Guesses count as failed logins. Raises SkepError
    `password_wrong` and `password_weak`, TooMany."""
    try:
        check_password(request, user.get_username(), current)
    except Unauthorized:
        raise SkepError("The current password is wrong.", code="password_wrong") from None
    return _replace_password(user, new)


@transaction.atomic
def _replace_password(user: User, new: str) -> User:
    _set_password(user, new)
    sign_out(user)
    user.save()
    record("user", user.pk, "user.password", "The password was changed.", actor=_who(user))
    return user


def sign_out(user: User) -> None:
    """End all sessions (once saved) and tokens of the user."""
    user.sign_outs += 1
    user.auth_token_set.all().delete()


def forget_expired() -> None:
    """Delete what is refused already: expired sessions and tokens."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    ApiToken.objects.filter(expiry__lt=timezone.now()).delete()


@transaction.atomic
def ensure_admin(username: str) -> str | None:
    """Create the admin when there is none; the answer is its password, or None."""
    with connection.cursor() as cursor:  # one at a time, also between servers that start at once
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('skep_ensure_admin'))")
    if User.objects.filter(is_superuser=True, is_active=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    create_user(None, username, password, is_admin=True)
    return password


def _apply(user: User, changes: Mapping[str, Any]) -> None:
    if "password" in changes:
        _set_password(user, changes["password"])
    user.email = changes.get("email", user.email)
    user.is_active = changes.get("is_active", user.is_active)
    user.is_superuser = changes.get("is_admin", user.is_superuser)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        message = " ".join(error.messages)
        raise SkepError(message, code="password_weak", reasons=error.messages) from None
    user.set_password(password)


def _check_username(username: str) -> None:
    try:
        UnicodeUsernameValidator()(username)
        if not 0 < len(username) <= 150:
            raise ValidationError("A user name has 1 to 150 characters.")
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=username[:150]) from None


def _who(actor: User | None) -> str:
    return actor.get_username() if actor else ""
