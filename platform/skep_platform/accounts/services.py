"""All writes to users and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from skep_platform.accounts import leaving, queries, throttle
from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.scopes import Scope
from skep_platform.core.errors import Conflict, NotFound, SkepError, Unauthorized
from skep_platform.core.events import record

log = structlog.get_logger(__name__)

MAX_TOKENS = 50
USE_NOTED_S = 3600  # how exactly it is known when a token was used last
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
    user: User,
    name: str = "",
    ttl: timedelta | float | None = None,
    scope: str = Scope.ADMIN,
) -> tuple[ApiToken, str]:
    """A named API token that lives `ttl` (a timedelta, or seconds; SKEP_TOKEN_DAYS when None). The
    secret is the second value, told only here. Raises SkepError `ttl_invalid`, Conflict
    `too_many_tokens`."""
    days = settings.SKEP_TOKEN_MAX_DAYS
    longest = days * 86_400
    ttl = min(settings.SKEP_TOKEN_DAYS, days) * 86_400 if ttl is None else ttl
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not 0 < seconds <= longest:
        message = f"A token lives at most {days:g} days."
        raise SkepError(message, code="ttl_invalid", longest_s=longest)
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # counted one at a time
    ApiToken.objects.filter(user=user, expiry__lt=timezone.now()).delete()
    held = ApiToken.objects.filter(user=user).count()
    if held >= MAX_TOKENS:
        message = f"You hold {held} tokens; delete one first."
        raise Conflict(message, code="too_many_tokens", most=MAX_TOKENS)
    row, secret = ApiToken.objects.create(
        user, expiry=timedelta(seconds=seconds), name=name or "token", scope=Scope(scope)
    )
    row.last4 = secret[-4:]
    row.save(update_fields=["last4"])
    return row, secret


def note_use(token: ApiToken) -> None:
    """Remember that it was used just now; at most one write an hour. A database that takes no
    writes must not keep people from reading."""
    now = timezone.now()
    if token.last_used_at is None or (now - token.last_used_at).total_seconds() > USE_NOTED_S:
        try:
            with transaction.atomic():
                ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        except DatabaseError as error:
            log.warning("token_use_not_noted", error=type(error).__name__)


def note_login(user: User) -> None:
    """A login by which no session began."""
    User.objects.filter(pk=user.pk).update(last_login=timezone.now())


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
    user = User.objects.select_for_update().filter(username=username, deleted_at=None).first()
    if user is None:
        raise NotFound(f"There is no user named {username}.")
    _apply(user, changes)
    if known == {user.pk} and not user.is_admin:
        raise Conflict("The last active admin must stay one.", code="last_admin")
    if not user.is_active or "password" in changes:
        sign_out(user)
    user.save()
    if not user.is_active:
        leaving.left(user.pk, _who(actor))
    message = f"User {username} was changed: {', '.join(sorted(changes))}."
    told = {name: value for name, value in changes.items() if name != "password"}
    record("user", user.pk, "user.changed", message, actor=_who(actor), changed=told)
    return user


@transaction.atomic
def delete_user(actor: User, username: str) -> None:
    """Take a user away for good; its jobs stop. The row stays, under another name and without
    anything personal, where jobs or files still refer to it. Raises NotFound, and Conflict
    `last_admin` or `not_yourself`."""
    if username == actor.get_username():
        raise Conflict("Another admin must delete you.", code="not_yourself")
    update_user(actor, username, {"is_active": False, "is_admin": False})
    user = User.objects.get(username=username)
    message = f"User {username} was deleted."
    record("user", user.pk, "user.deleted", message, actor=_who(actor), username=username)
    user.memberships.all().delete()
    try:
        with transaction.atomic():
            user.delete()
    except ProtectedError:
        user.username, user.email = f"deleted-{user.pk}", ""
        user.first_name = user.last_name = ""
        user.deleted_at = timezone.now()
        user.set_unusable_password()
        user.save()


def reset_link(actor: User, username: str) -> str:
    """An address at which whoever opens it may set a new password for the user, once and within
    PASSWORD_RESET_TIMEOUT. It ends as soon as the user logs in or has another password. Raises
    NotFound, and Conflict `user_inactive`."""
    user = queries.find_user(username)
    if not user.is_active:
        raise Conflict(f"{username} is deactivated; activate it first.", code="user_inactive")
    query = urlencode({"user": username, "token": default_token_generator.make_token(user)})
    message = f"A link to reset the password of {username} was made."
    record("user", user.pk, "user.reset_link", message, actor=_who(actor))
    return f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/reset-password?{query}"


def reset_password(request: Request, username: str, token: str, new: str) -> User:
    """Set a new password by such a link. Guesses count as failed logins. Raises SkepError
    `link_invalid` and `password_weak`, TooMany."""
    attempt = throttle.Attempt(throttle.address(request), username)
    attempt.count()
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None or not default_token_generator.check_token(user, token):
        message = "The link was used already or is too old; ask an admin for a new one."
        raise SkepError(message, code="link_invalid")
    attempt.forgive()
    return _replace_password(user, new)


def change_own_password(
    request: Request, user: User, current: str, new: str, *, keep_tokens: bool = False
) -> User:
    """All other sessions end, and all tokens unless they are kept. Guesses count as failed logins.
    Raises SkepError `password_wrong` and `password_weak`, TooMany."""
    try:
        check_password(request, user.get_username(), current)
    except Unauthorized:
        raise SkepError("The current password is wrong.", code="password_wrong") from None
    return _replace_password(user, new, keep_tokens=keep_tokens)


@transaction.atomic
def _replace_password(user: User, new: str, *, keep_tokens: bool = False) -> User:
    _set_password(user, new)
    sign_out(user, keep_tokens=keep_tokens)
    user.save()
    record("user", user.pk, "user.password", "The password was changed.", actor=_who(user))
    return user


def sign_out(user: User, *, keep_tokens: bool = False) -> None:
    """End all sessions (once saved) and tokens of the user."""
    user.sign_outs += 1
    if not keep_tokens:
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
