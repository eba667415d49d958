"""Multi-factor authentication: one-time codes of an app (TOTP, RFC 6238), security keys (see
`security_keys`) and recovery codes.

The keys are rows of `allauth.mfa`, encrypted as the secrets of jobs are. allauth generates and
computes codes; what is checked here is what it leaves to a cache: that a code works once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from qrcode.main import QRCode
from rest_framework.request import Request

from skep_platform.accounts import security_keys, throttle
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import encryption
from skep_platform.core.errors import Conflict, Forbidden, SkepError, Unauthorized

TOTP, RECOVERY_CODES = Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES
WEBAUTHN = Authenticator.Type.WEBAUTHN
FACTORS = (TOTP, WEBAUTHN)
PENDING = "skep_mfa_pending"  # in a session: the key that no code has confirmed yet
VERIFIED = "skep_mfa"  # in a session: it began with a second factor


class Adapter(DefaultMFAAdapter):
    """What allauth leaves to a platform: how keys are encrypted, and how an app names them."""

    def encrypt(self, text: str) -> str:
        return encryption.seal(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        try:
            return encryption.open(encrypted_text.encode()).decode()
        except encryption.DecryptionFailed:
            message = "No key of SKEP_SECRETS_KEYS opens the MFA key; an admin can reset it."
            raise Conflict(message, code="mfa_locked") from None

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        return f"Skep {settings.SKEP_PUBLIC_URL.partition('://')[2].rstrip('/')}"


adapter = Adapter()


def enabled() -> Exists:
    """Return an annotation for users: whether logging in by password needs a code."""
    return Exists(Authenticator.objects.filter(user=OuterRef("pk"), type__in=FACTORS))


def is_enabled(user: User) -> bool:
    """Return whether logging in by password needs a code or a key of this user."""
    return Authenticator.objects.filter(user=user, type__in=FACTORS).exists()


def is_required(user: User) -> bool:
    """Return whether SKEP_REQUIRE_MFA names this user."""
    whom = settings.SKEP_REQUIRE_MFA
    return whom == "all" or (whom == "admins" and user.is_superuser)


def is_missing(user: User, session: SessionBase) -> bool:
    """Return whether the user has to set up MFA before this session may do anything else."""
    return is_required(user) and not session.get(VERIFIED)


def status(user: User) -> dict[str, Any]:
    """Return what the settings page shows: nothing secret."""
    found = {row.type: row for row in Authenticator.objects.filter(user=user)}
    app, codes = found.get(TOTP), found.get(RECOVERY_CODES)
    return {
        "enabled": app is not None or WEBAUTHN in found,
        "app": app is not None,
        "by_policy": is_required(user),
        "enabled_at": app.created_at if app else None,
        "last_used_at": app.last_used_at if app else None,
        "recovery_codes_left": len(RecoveryCodes(codes).get_unused_codes()) if codes else 0,
    }


def verify_login(
    request: Request | HttpRequest, user: User, code: str, key: Mapping[str, Any] | None = None
) -> bool:
    """Check the second factor of a user whose password was right: a code, or what a security key
    signed. Returns whether there is one. Raises Unauthorized `mfa_required` without either,
    `mfa_code_wrong` and `key_refused`, TooMany."""
    found = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    if not found.intersection(FACTORS):
        return False
    if not code and not key:
        message = "Enter the code that your authenticator app shows, or a recovery code."
        methods = [each for each in (TOTP, WEBAUTHN, RECOVERY_CODES) if each in found]
        details: dict[str, Any] = {"methods": methods}
        if WEBAUTHN in found:
            details["key"] = security_keys.challenge(request, user)
            message = "Use your security key, or enter a code."
        raise Unauthorized(message, code="mfa_required", **details)
    try:
        if key:
            security_keys.check(request, user, key)
        else:
            check_code(user, code)
    except SkepError as error:
        name, code = user.get_username(), error.code
        audit.record("login.failed", "user", user.pk, name, outcome="refused", code=code)
        raise
    return True


def check_code(user: User, code: str) -> None:
    """Use up a code. Of one user, from wherever, `throttle.CODES` wrong ones are allowed in an
    hour. Raises Unauthorized `mfa_code_wrong`, TooMany, Conflict `mfa_locked`."""
    guesses = throttle.Codes(user.pk)
    guesses.count()
    if not _use(user, code):
        message = "The code is wrong or was used already; wait for the next one."
        raise Unauthorized(message, code="mfa_code_wrong")
    guesses.forgive()


@transaction.atomic
def _use(user: User, code: str) -> bool:
    """Return whether the code is right, and make it useless. The rows are locked, so that of two
    requests with one code one is refused."""
    rows = Authenticator.objects.select_for_update().filter(user=user)
    found = {row.type: row for row in rows}
    app, codes = found.get(TOTP), found.get(RECOVERY_CODES)
    if app is not None and _use_totp(app, code):
        return True
    if codes is None or not RecoveryCodes(codes).validate_code(code):
        return False
    codes.refresh_from_db()
    codes.record_usage()
    left = len(RecoveryCodes(codes).get_unused_codes())
    audit.record("mfa.recovery_code.use", "user", user.pk, user.get_username(), left=left)
    return True


def _use_totp(app: Authenticator, code: str) -> bool:
    secret = adapter.decrypt(app.data["secret"])
    counter = _counter_of(secret, code)
    if counter is None or counter <= app.data.get("last_counter", -1):
        return False
    app.data["last_counter"] = counter
    app.save(update_fields=["data"])
    app.record_usage()
    return True


def _counter_of(secret: str, code: str) -> int | None:
    """Return the time step whose code this is, of those that are near enough."""
    for counter in totp.yield_hotp_counters_from_time():
        expected = totp.format_hotp_value(totp.hotp_value(secret, counter))
        if compare_user_code(actual=code, expected=expected):
            return counter
    return None


def start(user: User, session: SessionBase) -> dict[str, str]:
    """Make a key for an app and keep it in the session until a code confirms it. Raises Conflict
    `mfa_enabled`."""
    _refuse_app(user)
    secret = totp.generate_totp_secret()
    session[PENDING] = adapter.encrypt(secret)
    url = adapter.build_totp_url(user, secret)
    return {"key": secret, "url": url, "qr_path": qr_path(url)}


def qr_path(text: str) -> str:
    """Return a QR code as the path of an SVG whose view box is 0 0 100 100."""
    code = QRCode(border=0)
    code.add_data(text)
    code.make(fit=True)
    scale = 100 / code.modules_count
    squares = [
        f"M{x * scale:.3f} {y * scale:.3f}h{scale:.3f}v{scale:.3f}h-{scale:.3f}z"
        for y, row in enumerate(code.modules)
        for x, dark in enumerate(row)
        if dark
    ]
    return "".join(squares)


@transaction.atomic
def confirm(user: User, session: SessionBase, code: str) -> list[str]:
    """Switch MFA on by a code of the key that `start` made. Returns the recovery codes, which are
    shown this once. Raises Conflict `mfa_not_started` and `mfa_enabled`, SkepError
    `mfa_code_wrong`, TooMany."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # enrolled one at a time
    _refuse_app(user)
    if PENDING not in session:
        raise Conflict("Start again: there is no key to confirm.", code="mfa_not_started")
    guesses = throttle.Codes(user.pk)
    guesses.count()
    secret = adapter.decrypt(session[PENDING])
    counter = _counter_of(secret, code)
    if counter is None:
        message = "The code is wrong. Does the clock of the phone show the right time?"
        raise SkepError(message, code="mfa_code_wrong")
    guesses.forgive()
    data = {"secret": session.pop(PENDING), "last_counter": counter}
    Authenticator.objects.create(user=user, type=TOTP, data=data)
    session[VERIFIED] = True
    audit.record("mfa.enable", "user", user.pk, user.get_username())
    return _new_recovery_codes(user)


@transaction.atomic
def renew_recovery_codes(user: User, code: str) -> list[str]:
    """Replace the recovery codes; the former ones no longer work. Raises Conflict `mfa_disabled`
    and what `check_code` does."""
    if not is_enabled(user):
        raise Conflict("MFA is not set up.", code="mfa_disabled")
    confirmed(user, code)
    audit.record("mfa.recovery_codes.renew", "user", user.pk, user.get_username())
    return _new_recovery_codes(user)


@transaction.atomic
def add_key(
    request: Request, user: User, session: SessionBase, name: str, answer: Mapping[str, Any]
) -> list[str]:
    """Keep a security key. With the first one the user gets recovery codes, which are shown this
    once; there are none for further ones. Raises what `security_keys.register` does."""
    security_keys.register(request, user, name, answer["credential"], answer["state"])
    session[VERIFIED] = True
    if Authenticator.objects.filter(user=user, type=RECOVERY_CODES).exists():
        return []
    return _new_recovery_codes(user)


def confirmed(user: User, code: str) -> None:
    """Check a code of a user who is logged in. Raises SkepError `mfa_code_wrong`, TooMany."""
    try:
        check_code(user, code)
    except Unauthorized as error:
        raise SkepError(error.message, code=error.code) from None


def _new_recovery_codes(user: User) -> list[str]:
    Authenticator.objects.filter(user=user, type=RECOVERY_CODES).delete()
    return RecoveryCodes.activate(user).get_unused_codes()


@transaction.atomic
def disable(user: User, action: str) -> None:
    """Delete the key and the recovery codes; `action` says in the audit log who did it. Raises
    Conflict `mfa_disabled`."""
    deleted, _ = Authenticator.objects.filter(user=user).delete()
    if not deleted:
        raise Conflict(f"MFA is not set up for {user.get_username()}.", code="mfa_disabled")
    audit.record(action, "user", user.pk, user.get_username())


def forget(user: User) -> None:
    """Delete what a user has, as when the user is deleted."""
    Authenticator.objects.filter(user=user).delete()


def refuse_missing(user: User, session: SessionBase) -> None:
    """Raises Forbidden `mfa_setup_required` where `is_missing`."""
    if is_missing(user, session):
        message = "Set up multi-factor authentication on the settings page first."
        raise Forbidden(message, code="mfa_setup_required")


def _refuse_app(user: User) -> None:
    if Authenticator.objects.filter(user=user, type=TOTP).exists():
        message = "MFA is set up already; switch it off first to use another app."
        raise Conflict(message, code="mfa_enabled")
