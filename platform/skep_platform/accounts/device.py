"""Logging a program in by a browser (the device authorization grant, RFC 8628).

The program gets a long code, which it keeps, and a short one, which its user reads to the page. Who
is logged in there allows or denies it. The token is made when the program next asks with its long
code; neither code is stored, and both are of use once, for LIFETIME_S.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from skep_jobfile.plain import plain
from skep_platform.accounts import services
from skep_platform.accounts.models import ApiToken, DeviceLogin, User
from skep_platform.audit import services as audit
from skep_platform.core import caller
from skep_platform.core.bulk import deletion_time
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import NotFound, SkepError, Unauthorized

LIFETIME_S = 600
INTERVAL_S = 5  # between two questions of a program
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # RFC 8628, 6.1: no vowels, so no words
CODE_LETTERS = 8


def start(name: str, scope: str) -> tuple[str, str]:
    """Begin a login; return the code that the program keeps, and the one that its user reads."""
    device = secrets.token_urlsafe(32)
    code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LETTERS))
    who = caller.current()
    DeviceLogin.objects.create(
        device_digest=_digest(device),
        code_digest=_code_digest(code),
        name=plain(name) or "program",
        scope=scope,
        address=who.address[:64],
        user_agent=plain(who.user_agent)[:200],
        expires_at=timezone.now() + timedelta(seconds=LIFETIME_S),
    )
    return device, f"{code[:4]}-{code[4:]}"


def page_address(code: str = "") -> str:
    """Return the address of the page at which a user types the code."""
    page = f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/device"
    return f"{page}?code={code}" if code else page


def find(code: str, *, lock: bool = False) -> DeviceLogin:
    """Return the login that waits for this code; `lock` its row. Raises NotFound."""
    rows = DeviceLogin.objects.filter(
        code_digest=_code_digest(code), allowed=None, expires_at__gt=timezone.now()
    )
    row = (rows.select_for_update() if lock else rows).first()
    if row is None:
        message = "No program waits for this code: it is mistyped, was used, or is too old."
        raise NotFound(message, code="device_code_unknown")
    return row


@transaction.atomic
def decide(user: User, code: str, allow: bool, scope: str, expires_in_s: int | None) -> None:
    """Allow a program to act as the user, with a token of this scope and lifetime, or deny it.
    Raises NotFound, SkepError `ttl_invalid`, Unauthorized for a user who was just signed out."""
    sign_outs = User.objects.select_for_update(no_key=True).values_list("sign_outs", flat=True)
    if sign_outs.filter(pk=user.pk).first() != user.sign_outs:
        raise Unauthorized("You were logged out just now; log in again.")
    row = find(code, lock=True)
    longest = settings.SKEP_TOKEN_MAX_DAYS * 86_400
    if allow and expires_in_s is not None and not 0 < expires_in_s <= longest:
        message = f"A token lives at most {settings.SKEP_TOKEN_MAX_DAYS:g} days."
        raise SkepError(message, code="ttl_invalid", longest_s=longest)
    row.user, row.allowed, row.scope = user, allow, scope
    row.expires_in_s = expires_in_s if allow else None
    row.save()
    audit.record(
        *("device_login.decide", "user", user.pk, user.get_username()),
        allowed=allow,
        program=row.name,
        asked_from=row.address,
        scope=scope,
    )


@transaction.atomic
def _fetch(device: str) -> tuple[ApiToken, str] | str:
    """Return the token, once, or the code of why there is none. The user is locked first, as what
    ends the user's tokens does: it finds this login or its token."""
    rows = DeviceLogin.objects.filter(device_digest=_digest(device))
    decided_by = rows.values_list("user", flat=True).first()
    users = User.objects.select_for_update(no_key=True)
    user = users.filter(pk=decided_by).first() if decided_by else None
    row = rows.select_for_update().first()
    now = timezone.now()
    if row is None or row.expires_at <= now:
        return "expired_token"
    early = row.polled_at is not None and (now - row.polled_at).total_seconds() < INTERVAL_S - 1
    if row.allowed is None or row.user_id != decided_by or early:
        row.polled_at = now
        row.save(update_fields=["polled_at", "updated_at"])
        return "slow_down" if early else "authorization_pending"
    row.delete()
    if not row.allowed or user is None or not user.is_active:
        return "access_denied"
    caller.identify(user)
    user.login_method = "device"
    services.note_login(user)
    return services.create_token(user, row.name, row.expires_in_s, row.scope)


def fetch(device: str) -> tuple[ApiToken, str]:
    """Return the token that a program was allowed, once. Raises SkepError with the codes of RFC
    8628: `authorization_pending`, `slow_down`, `access_denied`, `expired_token`; and what
    `create_token` does."""
    found = _fetch(device)
    if isinstance(found, str):
        raise SkepError(REASONS[found], code=found)
    return found


REASONS = {
    "authorization_pending": "No user has allowed this login yet; ask again in a few seconds.",
    "slow_down": f"Wait {INTERVAL_S} seconds between two questions.",
    "access_denied": "The login was denied in the browser.",
    "expired_token": "The code was used or is too old; begin the login again.",
}


def forget_expired() -> None:
    """Delete logins that were not finished in time."""
    delete_in_batches(DeviceLogin.objects.filter(expires_at__lte=deletion_time()))


def _digest(device: str) -> str:
    return hashlib.sha256(device.encode("utf-8", "replace")).hexdigest()


def _code_digest(code: str) -> str:
    letters = "".join(letter for letter in code.upper() if letter in LETTERS)
    return salted_hmac("skep.accounts.device", letters, algorithm="sha256").hexdigest()
