"""The channel of e-mails: one connection to the SMTP server for a batch of them."""

from __future__ import annotations

import smtplib
import time
from collections.abc import Callable, Sequence
from email.utils import parseaddr
from typing import Any

import structlog
from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from skep_platform.core import smtp
from skep_platform.notifications import preferences, texts
from skep_platform.notifications.models import Delivery

log = structlog.get_logger(__name__)
Done = Callable[[Delivery, str, bool], None]  # delivery, error or "", whether it is final


def problem() -> str:
    """Return why no e-mail can be sent from here; "" when they can."""
    if not settings.EMAIL_HOST:
        return "E-mail is not set up on this cluster: an administrator sets SKEP_SMTP_HOST."
    return ""


def send(deliveries: Sequence[Delivery], done: Done, until: float) -> Sequence[Delivery]:
    """Send e-mails, and report each by `done`. What a server refuses for good (a code of 5xx) is
    not tried again; a server that is down is asked once for all of them. Return those that were
    left when the monotonic clock showed `until`; the first one is tried in any case."""
    connection = get_connection(timeout=settings.EMAIL_TIMEOUT)
    try:
        connection.open()
    except (OSError, smtplib.SMTPException) as error:
        for one in deliveries:
            done(one, f"The mail server cannot be reached ({type(error).__name__}).", False)
        return ()
    try:
        for number, one in enumerate(deliveries):
            if number and time.monotonic() > until:
                return deliveries[number:]
            _send(one, connection, done)
        return ()
    finally:
        _close(connection)


def _send(one: Delivery, connection: Any, done: Done) -> None:
    try:
        _message(one, connection).send()
    except smtp.ERRORS as error:
        done(one, *smtp.meaning(error))
    except (KeyError, ValueError, TypeError) as error:
        # It cannot be written, as one of an event that only a newer server knows: the others of
        # the claim are sent all the same.
        log.exception("mail_not_written", delivery=str(one.pk))
        done(one, f"It could not be written ({type(error).__name__}).", False)
    else:
        done(one, "", True)


def _close(connection: Any) -> None:
    try:
        connection.close()
    except (OSError, smtplib.SMTPException) as error:
        log.info("smtp_close_failed", error=type(error).__name__)


def _message(one: Delivery, connection: Any) -> EmailMessage:
    url, headers = "", {}
    chosen = getattr(one.user, "notification_preferences", None)
    known = preferences.BY_NAME.get(one.event)
    wanted = known is not None and "email" in preferences.channels_of(
        known, chosen.channels if chosen else {}
    )
    if wanted:
        token = preferences.unsubscribe_token(one.user_id, one.event)
        url = preferences.unsubscribe_url(token)
        api = f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/api/v1/notifications/unsubscribe"
        # RFC 8058: mail programs show a button, and send a POST when it is pressed.
        headers["List-Unsubscribe"] = f"<{api}?token={token}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    return EmailMessage(
        subject=f"[Skep] {texts.title(one.event, one.count, one.items)}",
        body=texts.mail_body(
            *(one.event, one.count, one.items),
            unsubscribe=url,
            asked_by_job=not wanted,
        ),
        to=[one.user.email],
        connection=connection,
        headers=headers
        | {
            # The same at each attempt, so that a mail program shows one that came twice once.
            "Message-ID": f"<{one.pk}@{domain}>",
            "Auto-Submitted": "auto-generated",
        },
    )
