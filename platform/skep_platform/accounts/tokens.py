"""All writes to API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from skep_platform.accounts import queries
from skep_platform.accounts.models import ApiToken, Scope, User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, NotFound, SkepError

log = structlog.get_logger(__name__)

MAX_TOKENS = 50
USE_NOTED_S = 3600  # how exactly it is known when a token was used last


@transaction.atomic
def create_token(
    user: User,
    name: str = "",
    ttl: timedelta | float | None = None,
    scope: str = Scope.ADMIN,
    *,
    vc: Any = None,
) -> tuple[ApiToken, str]:
    """Create a named API token that lives `ttl` (a timedelta, or seconds; SKEP_TOKEN_DAYS when
    None). The secret is the second value, and not stored. The VC admins of `vc` see it in the audit
    log. Raises SkepError `ttl_invalid`, Conflict
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
    held = ApiToken.objects.filter(user=user, job_id=None).count()
    if held >= MAX_TOKENS:
        who = f"{user.username} holds" if user.is_service_account else "You hold"
        message = f"{who} {held} tokens; delete one first."
        raise Conflict(message, code="too_many_tokens", most=MAX_TOKENS)
    row, secret = ApiToken.objects.create(
        user, expiry=timedelta(seconds=seconds), name=name or "token", scope=Scope(scope)
    )
    row.last4 = secret[-4:]
    row.save(update_fields=["last4"])
    data = {"scope": row.scope, "expires_at": row.expiry}
    owner = user.username
    audit.record("token.create", "token", row.public_id, row.name, after=data, vc=vc, owner=owner)
    return row, secret


def create_job_token(user: User, job_id: UUID, vc_id: UUID, name: str, scope: str) -> str:
    """Create the token of a job and return its secret, which is not stored here. The token is of
    use while the job goes on, in its virtual cluster; see `jobs.submission.followers`."""
    row, secret = ApiToken.objects.create(
        user, expiry=None, name=name, scope=Scope(scope), job_id=job_id, vc_id=vc_id
    )
    ApiToken.objects.filter(pk=row.pk).update(last4=secret[-4:])
    return secret


def note_use(token: ApiToken) -> None:
    """Remember that it was used just now; at most one write an hour. A database that takes no
    writes must not keep people from reading."""
    now = timezone.now()
    if token.last_used_at is None or (now - token.last_used_at).total_seconds() > USE_NOTED_S:
        try:
            with transaction.atomic():
                ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
            queries.forget_tokens()
        except DatabaseError as error:
            log.warning("token_use_not_noted", error=type(error).__name__)


@transaction.atomic
def delete_token(user: User, public_id: object, *, vc: Any = None) -> None:
    """Delete a token of this user. Raises NotFound, also for the token of another user."""
    token = ApiToken.objects.filter(user=user, public_id=public_id).first()
    if token is None:
        owner = f"{user.username} has" if user.is_service_account else "You have"
        raise NotFound(f"{owner} no such token.")
    audit.record("token.delete", "token", public_id, token.name, vc=vc, owner=user.username)
    token.delete()


@transaction.atomic
def revoke_any_token(public_id: object) -> None:
    """Delete a token of any user, as an admin. Raises NotFound."""
    token = queries.all_tokens().filter(public_id=public_id).first()
    if token is None:
        raise NotFound("There is no such token.")
    audit.record("token.delete", "token", public_id, token.name, owner=token.user.username)
    token.delete()


def revoke_token(token: ApiToken) -> None:
    """Delete the token that a request was made with; its sockets are closed. Does nothing
    when another request deleted it before."""
    ApiToken.objects.filter(pk=token.pk).delete()
