"""All writes to users, and those of `tokens`.

Failed logins are limited per address and user name, so that passwords cannot be guessed. They are
counted before the password is looked at: parallel guesses see each other. A user name alone is not
limited, or any caller could lock any user out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from skep_platform.accounts import (
    external,
    ldap_login,
    mfa,
    names,
    queries,
    security_keys,
    throttle,
    tokens,
)
from skep_platform.accounts.models import ApiToken, BrowserSession, DeviceLogin, User
from skep_platform.audit import services as audit
from skep_platform.core import caller, ports
from skep_platform.core.bulk import deletion_time
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError, Unauthorized
from skep_platform.core.events import record

# The writes to tokens.
create_token, create_job_token = tokens.create_token, tokens.create_job_token
delete_token, revoke_any_token = tokens.delete_token, tokens.revoke_any_token
revoke_token, note_use = tokens.revoke_token, tokens.note_use

CHANGEABLE = frozenset({"email", "is_active", "is_admin", "password"})
# Rows of a user, in this app and in higher ones, that go with the user though its jobs stay.
PERSONAL = ("ssh_keys", "registry_credentials", "saved_views", "webhooks", "notifications")


def check_password(request: Request | HttpRequest, username: str, password: str) -> User:
    """The user who has this name and password. An unknown user, a wrong password and a deactivated
    user look the same and take the same work. Raises Unauthorized `login_failed`, TooMany."""
    attempt = throttle.Attempt(throttle.address(request), username)
    attempt.count()
    user = _authenticated(username, password)
    attempt.forgive()
    return user


def check_login(
    request: Request | HttpRequest,
    username: str,
    password: str,
    code: str = "",
    key: Mapping[str, Any] | None = None,
) -> tuple[User, bool]:
    """The user who has this name and password and, where MFA is set up, this code or key; and
    whether one was needed. A password alone forgives no guesses, or it would let its holder guess
    codes without end. With SKEP_PASSWORD_LOGIN=0 only admins log in so. Raises Forbidden
    `password_login_off`, and what `check_password` and `mfa.verify_login` do."""
    attempt = throttle.Attempt(throttle.address(request), username)
    attempt.count()
    user = _authenticated(username, password)
    local = user.login_method == "password"
    if local and not settings.SKEP_PASSWORD_LOGIN and not user.is_admin:
        attempt.forgive()
        message = "Logging in by password is switched off; use single sign-on."
        raise Forbidden(message, code="password_login_off")
    second = mfa.verify_login(request, user, code, key)
    attempt.forgive()
    return user, second


def log_in_by_passkey(request: Request, credential: Mapping[str, Any], state: str) -> User:
    """Return the user of a passkey, which is a password and a second factor in one. Raises
    Unauthorized `key_refused`, Forbidden `password_login_off`, TooMany."""
    attempt = throttle.Attempt(throttle.address(request), "")
    attempt.count()
    try:
        user = security_keys.user_of_passkey(request, credential, state)
    except Unauthorized:
        audit.record("login.failed", "user", "", "", outcome="refused", code="key_refused")
        raise
    attempt.forgive()
    if not settings.SKEP_PASSWORD_LOGIN and not user.is_admin:
        message = "Logging in by passkey is switched off; use single sign-on."
        raise Forbidden(message, code="password_login_off")
    return user


def _authenticated(username: str, password: str) -> User:
    """Ask this server first, and the directory for names that have no password here: passwords of
    local accounts are not sent there, and it may be down while an admin logs in."""
    user = authenticate(username=username, password=password)
    if user is None and ldap_login.is_on() and not _has_password(username):
        try:
            user = ldap_login.log_in(username, password)
        except SkepError as error:
            if not isinstance(error, Forbidden):  # which is recorded as every refused request
                audit.record("login.failed", "user", "", "", outcome="refused", code=error.code)
            raise
    if not isinstance(user, User) or user.is_service_account:
        _note_failure(username)
        raise Unauthorized("Wrong user name or password.", code="login_failed")
    return user


def _has_password(username: str) -> bool:
    user = User.objects.filter(username=username[:150]).first()
    return user is not None and user.has_usable_password()


@transaction.atomic
def note_login(user: User) -> None:
    """Record a login that began no session."""
    User.objects.filter(pk=user.pk).update(last_login=timezone.now())
    _audit_login(user, "token", user.login_method)


def note_session(user: User, method: str = "password") -> None:
    """Record a login that began a session, in the audit log."""
    _audit_login(user, "session", method)


def note_logout(user: User) -> None:
    """Record in the audit log that the user ends a session or the token of this request."""
    audit.record("logout", "user", user.pk, user.get_username())


def _audit_login(user: User, begins: str, method: str = "password") -> None:
    caller.identify(user)
    name = user.get_username()
    audit.record("login.succeeded", "user", user.pk, name, method=method, begins=begins)


def _note_failure(username: str) -> None:
    """Record a failed login. A name that no user has is not recorded: people type passwords into
    that field. The query is made for every name, so that the answer takes as long."""
    known = User.objects.filter(username=username[:150], deleted_at=None).only("pk").first()
    facts: dict[str, Any] = (
        {"code": "login_failed"} if known else {"code": "login_failed", "known_user": False}
    )
    pk, name = (known.pk, username) if known else ("", "")
    audit.record("login.failed", "user", pk, name, outcome="refused", **facts)


@transaction.atomic
def create_user(
    actor: User | None, username: str, password: str, *, email: str = "", is_admin: bool = False
) -> User:
    """Raises Conflict `name_taken`, SkepError `name_invalid` and `password_weak`."""
    user = User(username=username, email=email, is_superuser=is_admin)
    _set_password(user, password)
    return _create(actor, user)


def create_external_user(username: str, email: str) -> User:
    """Create a user whom an identity provider knows: no password, no admin, member of nothing.
    Raises Conflict `name_taken`, SkepError `name_invalid`."""
    user = User(username=username, email=email)
    user.set_unusable_password()
    return _create(None, user)


def create_service_account(username: str) -> User:
    """Create a user without a password, who cannot log in. Raises Conflict `name_taken`."""
    user = User(username=username, is_service_account=True)
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        message = f"{username} exists; choose another name."
        raise Conflict(message, code="name_taken", name=username) from None
    return user


@transaction.atomic
def _create(actor: User | None, user: User) -> User:
    username, email, is_admin = user.username, user.email, user.is_superuser
    _check_username(username)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        message = f"A user named {username} exists."
        raise Conflict(message, code="name_taken", name=username) from None
    data = {"username": username, "is_admin": is_admin}
    audit.record("user.create", "user", user.pk, username, after={**data, "email": email})
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
    user = queries.people().select_for_update().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user named {username}.")
    before = _audited(user)
    _apply(user, changes)
    if known == {user.pk} and not user.is_admin:
        raise Conflict("The last active admin must stay one.", code="last_admin")
    if not user.is_active or "password" in changes:
        sign_out(user)
    user.save()
    if not user.is_active:
        ports.stop_jobs_of.call(user.pk, _who(actor))
    message = f"User {username} was changed: {', '.join(sorted(changes))}."
    changed = {name: value for name, value in changes.items() if name != "password"}
    record("user", user.pk, "user.changed", message, actor=_who(actor), changed=changed)
    if _audited(user) != before:
        audit.record("user.update", "user", user.pk, username, before=before, after=_audited(user))
    if "password" in changes:
        audit.record("user.password.update", "user", user.pk, username)
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
    audit.record("user.delete", "user", user.pk, username)
    user.memberships.all().delete()
    user.role_grants.all().delete()
    user.group_members.all().delete()
    mfa.forget(user)
    SocialAccount.objects.filter(user=user).delete()
    for name in PERSONAL:
        getattr(user, name).all().delete()
    BrowserSession.objects.filter(user=user).delete()
    remove_row(user)


def remove_row(user: User) -> None:
    """Delete the row of a user, or what is personal in it where other rows refer to it."""
    try:
        with transaction.atomic():
            user.delete()
    except ProtectedError:
        user.username = f"deleted-{user.pk}"
        user.email = user.confirmed_email = ""
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
    message = f"A link to reset the password of {username} was made."
    record("user", user.pk, "user.reset_link", message, actor=_who(actor))
    audit.record("user.reset_link.create", "user", user.pk, username)
    return reset_url(user)


def reset_url(user: User) -> str:
    """Return the address of `reset_link`; the caller has recorded that it was made."""
    token = default_token_generator.make_token(user)
    query = urlencode({"user": user.get_username(), "token": token})
    return f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/reset-password?{query}"


def reset_password(request: Request, username: str, token: str, new: str) -> User:
    """Set a new password by such a link. Guesses count as failed logins. Raises SkepError
    `link_invalid` and `password_weak`, TooMany."""
    attempt = throttle.Attempt(throttle.address(request), username)
    attempt.count()
    user = queries.people().filter(username=username, is_active=True).first()
    if user is None or not default_token_generator.check_token(user, token):
        raise _link_invalid(user)
    attempt.forgive()
    if not _replace_password(user, new, "user.password.reset", token=token):
        raise _link_invalid(user)
    return user


def _link_invalid(user: User | None) -> SkepError:
    """Record a reset that is refused, and return its error."""
    known, name = (user.pk, user.get_username()) if user else ("", "")
    code = "link_invalid"
    audit.record("user.password.reset", "user", known, name, outcome="refused", code=code)
    message = "The link was used already or is too old; ask an admin for a new one."
    return SkepError(message, code=code)


def change_own_password(
    request: Request, user: User, current: str, new: str, *, keep_tokens: bool = False
) -> User:
    """All other sessions end, and all tokens unless they are kept. Guesses count as failed logins.
    Raises SkepError `password_wrong` and `password_weak`, Conflict `password_external`, Forbidden
    `account_inactive`, TooMany."""
    if not user.has_usable_password():
        message = "Your account has no password here; change it where you log in."
        raise Conflict(message, code="password_external")
    try:
        check_password(request, user.get_username(), current)
    except Unauthorized:
        raise SkepError("The current password is wrong.", code="password_wrong") from None
    if not _replace_password(user, new, "user.password.update", keep_tokens=keep_tokens):
        message = "Your account is deactivated; ask an admin."
        raise Forbidden(message, code="account_inactive")
    return user


def _replace_password(
    user: User, new: str, action: str, *, keep_tokens: bool = False, token: str = ""
) -> bool:
    """Set a new password; return whether the user may still do so, and by this link where there is
    one. It is hashed first, without a lock: what others change meanwhile stays."""
    _set_password(user, new)
    with transaction.atomic():
        people = queries.people().filter(pk=user.pk, is_active=True)
        row = people.select_for_update(no_key=True).first()
        if row is None or (token and not default_token_generator.check_token(row, token)):
            return False
        user.sign_outs = row.sign_outs
        sign_out(user, keep_tokens=keep_tokens)
        user.save(update_fields=["password", "sign_outs"])
        record("user", user.pk, "user.password", "The password was changed.", actor=_who(user))
        audit.record(action, "user", user.pk, user.get_username(), keep_tokens=keep_tokens)
    return True


@transaction.atomic
def enable_mfa(user: User, session: SessionBase, code: str) -> list[str]:
    """Switch MFA on and end all other sessions; see `mfa.confirm`."""
    codes = mfa.confirm(user, session, code)
    _end_sessions(user)
    return codes


@transaction.atomic
def add_key(
    request: Request, user: User, session: SessionBase, name: str, answer: Mapping[str, Any]
) -> list[str]:
    """Keep a security key and end all other sessions; see `mfa.add_key`."""
    codes = mfa.add_key(request, user, session, name, answer)
    _end_sessions(user)
    return codes


def disable_mfa(
    request: Request, user: User, session: SessionBase, *, password: str = "", code: str = ""
) -> None:
    """Switch MFA off by the password or a code, and end all other sessions. Guesses count as
    failed logins. Raises SkepError `password_wrong` and `mfa_code_wrong`, Conflict `mfa_disabled`,
    TooMany."""
    if code:
        mfa.confirmed(user, code)
    else:
        confirm_password(request, user, password)
    with transaction.atomic():
        mfa.disable(user, "mfa.disable")
        _end_sessions(user)
    session.pop(mfa.VERIFIED, None)


@transaction.atomic
def end_other_sessions(user: User) -> User:
    """End all sessions of the user; the caller keeps the present one."""
    user = User.objects.select_for_update().get(pk=user.pk)
    _end_sessions(user)
    audit.record("session.end", "user", user.pk, user.get_username(), all_others=True)
    return user


@transaction.atomic
def unlink_sso(user: User) -> User:
    """End the link to the identity provider, and all other sessions; see `external.unlink`."""
    external.unlink(user, settings.SKEP_OIDC_ISSUER)
    _end_sessions(user)
    return user


@transaction.atomic
def reset_mfa(username: str) -> None:
    """Switch MFA off for a user who lost the app and the recovery codes; the user's sessions end.
    Raises NotFound, Conflict `mfa_disabled`."""
    user = queries.find_user(username)
    mfa.disable(user, "mfa.reset")
    _end_sessions(user)


def confirm_password(request: Request, user: User, password: str) -> None:
    """Check the password of a user who is logged in. Raises SkepError `password_wrong`, TooMany."""
    try:
        found = check_password(request, user.get_username(), password)
    except Unauthorized:
        found = None
    if found is None or found.pk != user.pk:  # the directory may know another user by this name
        raise SkepError("The password is wrong.", code="password_wrong")


def _end_sessions(user: User) -> None:
    """End them and set the new counter at `user`, which may be older than the row."""
    rows = User.objects.select_for_update(no_key=True)
    user.sign_outs = rows.values_list("sign_outs", flat=True).get(pk=user.pk)
    sign_out(user, keep_tokens=True)
    user.save(update_fields=["sign_outs"])


def sign_out(user: User, *, keep_tokens: bool = False) -> None:
    """End all sessions (once saved) and tokens of the user, and the logins of programs that have
    not fetched theirs. The caller has locked a person, as `device` does before it makes a token."""
    user.sign_outs += 1
    if not keep_tokens:
        user.auth_token_set.all().delete()
        DeviceLogin.objects.filter(user=user).delete()


def forget_expired() -> None:
    """Delete what is refused already: expired sessions and tokens."""
    now = deletion_time()
    sessions = import_module(settings.SESSION_ENGINE).SessionStore.get_model_class().objects
    delete_in_batches(sessions.filter(expire_date__lt=now))
    delete_in_batches(ApiToken.objects.filter(expiry__lt=now))


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


def _audited(user: User) -> dict[str, Any]:
    return {"email": user.email, "is_active": user.is_active, "is_admin": user.is_superuser}


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        message = " ".join(error.messages)
        raise SkepError(message, code="password_weak", reasons=error.messages) from None
    user.set_password(password)


def _check_username(username: str) -> None:
    try:
        names.check(username)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=username[:150]) from None


def _who(actor: User | None) -> str:
    return actor.get_username() if actor else ""
