"""Account recovery by e-mail: confirming an address, and a reset link for who forgot the password.

A request for recovery looks for no user: it stores what was typed, and a task looks for whom it is.
So the answer, and the time that it takes, are the same for names that exist and for others. Links
are made when their e-mail is sent, and are in no row and no message of the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import redis
import structlog
from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.accounts import queries, services
from skep_platform.accounts.models import AccountMail, User
from skep_platform.audit import services as audit
from skep_platform.core import caller, smtp
from skep_platform.core.compiled import Compiled
from skep_platform.core.errors import Conflict, SkepError, TooMany, Unavailable
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)
Kind = AccountMail.Kind

SALT = "skep.accounts.email"
CONFIRM_S = 86_400  # how long a link that confirms an address works
KEPT_S = 3600  # an e-mail that could not be sent for so long is dropped
RETRY_S = 60
ROUND_S = 20.0
MAX_ACCOUNTS = 5  # of one address get a link each
PER_HOUR = {Kind.RECOVERY: 3, Kind.CONFIRM: 5}  # e-mails to one user


def is_offered() -> bool:
    """Return whether users recover their accounts by e-mail: a mail server is set, and passwords
    kept here log in."""
    return bool(settings.EMAIL_HOST) and settings.SKEP_PASSWORD_LOGIN


def ask(whom: str) -> None:
    """Queue a reset link for the account of this user name or e-mail address, whether or not there
    is one. Raises Conflict `recovery_unavailable`."""
    if not is_offered():
        message = "Passwords are not recovered by e-mail on this server; ask an administrator."
        raise Conflict(message, code="recovery_unavailable")
    address = caller.current().address
    row = AccountMail(kind=Kind.RECOVERY, whom=whom, address=address, due_at=timezone.now())
    AccountMail.objects.bulk_create([row], ignore_conflicts=True)


def ask_to_confirm(user: User, email: str) -> None:
    """Queue an e-mail with a link by which the user makes this address its own. Raises Conflict
    `email_unavailable`, TooMany, Unavailable."""
    if not settings.EMAIL_HOST:
        message = "E-mail is not set up on this server: an administrator sets SKEP_SMTP_HOST."
        raise Conflict(message, code="email_unavailable")
    if not _may_send(user, Kind.CONFIRM):
        message = f"At most {PER_HOUR[Kind.CONFIRM]} such e-mails an hour; try again later."
        raise TooMany(message, code="throttled", retry_after_s=3600)
    row = AccountMail(kind=Kind.CONFIRM, user=user, whom=email, due_at=timezone.now())
    AccountMail.objects.bulk_create([row], ignore_conflicts=True)


def confirm_token(user: User, email: str) -> str:
    """Return what makes this address the user's; it ends when the user has another one, and with
    the sessions of the user, as by a new password."""
    return signing.dumps([email, *_signed(user)], salt=SALT)


def _signed(user: User) -> list[Any]:
    return [user.pk, user.email, user.sign_outs]


@transaction.atomic
def confirm(user: User, token: str) -> User:
    """Make the address of such a link the user's own. Only the user who asked may open it: who
    gets an e-mail by mistake gains nothing. Raises SkepError `link_invalid`."""
    user = User.objects.select_for_update().get(pk=user.pk)
    try:
        email, *signed = signing.loads(token, salt=SALT, max_age=CONFIRM_S)
    except (signing.BadSignature, ValueError, TypeError):
        email, signed = None, []
    if signed != _signed(user):
        message = (
            "The link is too old, was used already, or is another user's: log in as the user who "
            "asked for it, or ask for a new one in the settings."
        )
        raise SkepError(message, code="link_invalid")
    was = {"email": user.email, "confirmed": user.email_confirmed}
    user.email = user.confirmed_email = str(email)
    user.save(update_fields=["email", "confirmed_email"])
    now = {"email": user.email, "confirmed": True}
    audit.record("user.email.confirm", "user", user.pk, user.get_username(), before=was, after=now)
    return user


def send_due() -> int:
    """Send the e-mails that are due, one row at a time and for a bounded time, until the mail
    server cannot be reached; return how many rows were taken. A row is deleted before its e-mail is
    sent, so that none is sent twice; one that could not be sent comes back until it is KEPT_S
    old."""
    end, taken = time.monotonic() + ROUND_S, 0
    while time.monotonic() < end:
        row = _take()
        if row is None:
            break
        taken += 1
        if not _handle(row):
            break
    return taken


def is_due() -> bool:
    """Return whether anything is to be sent now. One query."""
    return _DUE.finds()


_DUE = Compiled(lambda: AccountMail.objects.filter(due_at__lte=Now()))


@transaction.atomic
def _take() -> AccountMail | None:
    due = AccountMail.objects.filter(due_at__lte=timezone.now()).order_by("due_at")
    row = due.select_for_update(skip_locked=True, of=("self",)).select_related("user").first()
    if row is not None:
        AccountMail.objects.filter(pk=row.pk).delete()
    return row


def _handle(row: AccountMail) -> bool:
    """Look for whom a request is, or send an e-mail; return whether the mail server is there."""
    if timezone.now() - row.created_at > timedelta(seconds=KEPT_S):
        log.warning("account_mail_dropped", kind=row.kind)
    elif row.user is not None:
        return _send(row, row.user)
    else:
        found = _recoverable(row.whom) if is_offered() else []
        _queue(row, *found, due=timezone.now())
    return True


def _queue(row: AccountMail, *users: User, due: datetime) -> None:
    """Queue an e-mail to each of these users, which is as old as the row."""
    values: dict[str, Any] = {"kind": row.kind, "whom": row.whom, "address": row.address}
    rows = [AccountMail(user=user, due_at=due, **values) for user in users]
    AccountMail.objects.bulk_create(rows, ignore_conflicts=True)
    AccountMail.objects.filter(pk__in=[one.pk for one in rows]).update(created_at=row.created_at)


def _send(row: AccountMail, user: User) -> bool:
    """Send the e-mail of a row to its user; return whether the mail server is there. What it
    refuses for good is not tried again."""
    try:
        _SENDERS[row.kind](row, user)
    except smtp.ERRORS as error:
        (reason, final), there = smtp.meaning(error), smtp.is_answer(error)
    except (_Unreachable, Unavailable) as error:
        reason, final, there = str(error), False, False
    else:
        return True
    log.warning("account_mail_not_sent", kind=row.kind, error=reason, final=final)
    if not final:
        _queue(row, user, due=timezone.now() + timedelta(seconds=RETRY_S))
    return there


def _send_recovery(row: AccountMail, user: User) -> None:
    if not is_offered() or user not in _recoverable(row.whom) or not _may_send(user, row.kind):
        return
    link = services.reset_url(user)
    try:
        _post(user.email, "Your password", _RECOVERY, user, link=link)
    except Exception:
        _give_back(user, row.kind)
        raise
    name = user.get_username()
    audit.record("user.recovery.send", "user", user.pk, name, asked_from=row.address)


def _recoverable(whom: str) -> list[User]:
    """Return whom a link is sent: active people with a password kept here and a confirmed address,
    which is what was typed, or theirs."""
    who = Q(username=whom[:150])
    if "@" in whom:
        who |= Q(confirmed_email__iexact=whom)
    found = queries.people().filter(who, is_active=True).exclude(confirmed_email="")
    users = found.order_by("pk")[:MAX_ACCOUNTS]
    return [user for user in users if user.email_confirmed and user.has_usable_password()]


def _send_confirmation(row: AccountMail, user: User) -> None:
    if not user.is_active:
        return
    token = confirm_token(user, row.whom)
    link = f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/confirm-email?token={token}"
    _post(row.whom, "Confirm your e-mail address", _CONFIRMATION, user, link=link)


_SENDERS: dict[str, Callable[[AccountMail, User], None]] = {
    Kind.RECOVERY: _send_recovery,
    Kind.CONFIRM: _send_confirmation,
}


class _Unreachable(Exception):
    """There is no connection to the mail server."""


def _post(to: str, subject: str, text: str, user: User, **values: str) -> None:
    """Raises `_Unreachable` and, with a connection, one of `smtp.ERRORS`."""
    public = settings.SKEP_PUBLIC_URL.rstrip("/")
    connection = get_connection(timeout=settings.EMAIL_TIMEOUT)
    message = EmailMessage(
        subject=f"[Skep] {subject}",
        body=text.format(name=user.get_username(), public=public, **values),
        to=[to],
        connection=connection,
        headers={"Auto-Submitted": "auto-generated"},
    )
    try:
        connection.open()
    except smtp.ERRORS as error:
        raise _Unreachable(type(error).__name__) from error
    try:
        message.send()
    finally:
        with suppress(*smtp.ERRORS):
            connection.close()


def _may_send(user: User, kind: Any) -> bool:
    """Count an e-mail to a user. Raises Unavailable without Valkey: nothing would bound them."""
    key = _quota(user, kind)
    try:
        pipeline = valkey().pipeline()
        pipeline.incr(key)
        pipeline.expire(key, 3600, nx=True)
        allowed = int(pipeline.execute()[0]) <= PER_HOUR[kind]
    except redis.RedisError as error:
        log.warning("throttle_down", error=type(error).__name__)
        raise Unavailable("E-mails cannot be sent now; try again in a minute.") from None
    if not allowed:
        _give_back(user, kind)
    return allowed


def _give_back(user: User, kind: Any) -> None:
    """Do not count an e-mail that was not sent."""
    key = _quota(user, kind)
    try:
        pipeline = valkey().pipeline()
        pipeline.decr(key)
        pipeline.expire(key, 3600, nx=True)
        pipeline.execute()
    except redis.RedisError as error:
        log.warning("throttle_down", error=type(error).__name__)


def _quota(user: User, kind: Any) -> str:
    return f"skep:account-mail:{kind}:{user.pk}"


_RECOVERY = """\
Someone, probably you, forgot the password of {name} at {public}.

Set a new one here; the link works once and for a day:

{link}

A second factor that you have set up is asked for as before. If you did not ask for this, you need
not do anything: your password stays as it is.
"""

_CONFIRMATION = """\
Confirm that this is the e-mail address of {name} at {public}:

{link}

The link works for a day, and only for who is logged in as {name}. If that is not you, ignore this
e-mail.
"""
