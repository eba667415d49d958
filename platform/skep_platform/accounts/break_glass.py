"""The way back in when no admin can log in: a command on the server's machine."""

from __future__ import annotations

import secrets
from contextlib import suppress

from django.db import transaction

from skep_platform.accounts import mfa, queries, services
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record


@transaction.atomic
def reset_password(
    username: str, *, reason: str, by: str, mfa_too: bool = False, activate: bool = False
) -> str:
    """Set a random password for a user, end all sessions and tokens of the user, and return the
    password. For a command on the server's machine; `by` is its user there. Raises NotFound,
    Conflict `user_inactive` unless it shall `activate`, and SkepError `reason_missing`."""
    if not reason.strip():
        raise SkepError("Say why: the audit log records it.", code="reason_missing")
    user = queries.people().select_for_update(no_key=True).filter(username=username).first()
    if user is None or user.deleted_at is not None:
        raise NotFound(f"There is no user named {username}.")
    if not user.is_active and not activate:
        message = f"{username} is deactivated: give --activate to let the user in again."
        raise Conflict(message, code="user_inactive")
    if mfa_too:
        with suppress(Conflict):  # it has none
            mfa.disable(user, "mfa.reset")
    password = secrets.token_urlsafe(12)
    user.is_active = True
    user.set_password(password)
    services.sign_out(user)
    user.save(update_fields=["password", "is_active", "sign_outs"])
    message = f"{by} reset the password on the server: {reason}"
    record("user", user.pk, "user.break_glass", message)
    audit.record(
        "user.break_glass",
        "user",
        user.pk,
        username,
        reason=reason[:500],
        by=by[:200],
        mfa_reset=mfa_too,
        activated=activate,
    )
    return password
