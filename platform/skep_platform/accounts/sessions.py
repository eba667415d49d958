"""The sessions of a user: from where, by which program, and when each was used last.

Django's sessions know nothing of this. A row beside each is written when its key is new, and then
at most once in NOTED_S; Valkey remembers that it was, so that a request costs no query.
"""

from __future__ import annotations

import hashlib
from typing import Any

import redis
import structlog
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from skep_jobfile.plain import plain
from skep_platform.accounts.models import BrowserSession, User
from skep_platform.audit import services as audit
from skep_platform.core import caller
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import NotFound
from skep_platform.core.notifications import valkey

log = structlog.get_logger(__name__)
NOTED_S = 300
MAX_LISTED = 100


def note_use(user: User, session: SessionBase) -> None:
    """Remember that the session was used just now, by the present caller. Neither Valkey nor a
    database that takes no writes must keep people from reading."""
    key = session.session_key
    if not key or not _is_due(key):
        return
    who = caller.current()
    values = {
        "user": user,
        "sign_outs": user.sign_outs,
        "address": who.address[:64],
        "user_agent": plain(who.user_agent)[:200],
        "last_seen_at": timezone.now(),
    }
    try:
        with transaction.atomic():
            BrowserSession.objects.update_or_create(session_key=key, defaults=values)
    except DatabaseError as error:
        log.warning("session_use_not_noted", error=type(error).__name__)


def _is_due(key: str) -> bool:
    name = f"skep:session-noted:{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    try:
        return bool(valkey().set(name, 1, ex=NOTED_S, nx=True))
    except redis.RedisError as error:
        log.warning("throttle_down", error=type(error).__name__)
        return False


def of_user(user: User) -> QuerySet[BrowserSession]:
    """Return the sessions of a user that go on, the one used last first."""
    lives = Session.objects.filter(
        session_key=OuterRef("session_key"), expire_date__gt=timezone.now()
    )
    rows = BrowserSession.objects.filter(Exists(lives), user=user, sign_outs=user.sign_outs)
    return rows.order_by("-last_seen_at")[:MAX_LISTED]


@transaction.atomic
def end(user: User, public_id: Any) -> None:
    """End a session of the user. Raises NotFound."""
    row = BrowserSession.objects.filter(user=user, pk=public_id).first()
    if row is None:
        raise NotFound("You have no such session.")
    Session.objects.filter(session_key=row.session_key).delete()
    row.delete()
    name = user.get_username()
    audit.record("session.end", "user", user.pk, name, address=row.address, program=row.user_agent)


def forget_ended() -> None:
    """Delete the rows of sessions that are over."""
    lives = Session.objects.filter(session_key=OuterRef("session_key"))
    delete_in_batches(BrowserSession.objects.filter(~Exists(lives)))
