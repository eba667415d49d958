"""All reads of users and tokens."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import F, Model, Q, QuerySet
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone
from knox.crypto import hash_token

from skep_platform.accounts import mfa
from skep_platform.accounts.models import ApiToken, User
from skep_platform.core import ports
from skep_platform.core.bulk import fetch, loaded
from skep_platform.core.errors import NotFound

MAX_TOKEN_CHARS = 200


def living_token(token: str, fresh_s: float = 0.0) -> ApiToken | None:
    """Return the unexpired token of an active user, with `user` loaded. One query, and one more
    for the token of a job, which ends with the job.

    `fresh_s`: for so many seconds what was read before is good enough, and the one query is not
    made. What this process changes of a token or a user holds at once."""
    if not token or len(token) > MAX_TOKEN_CHARS:
        return None
    digest, now = hash_token(token), time.monotonic()
    known = _remembered.get(digest)
    if known is not None and now - known[0] < fresh_s:
        row = known[1]
    else:
        changes = _changes
        rows = fetch(_living(), [digest])
        if not rows:
            return None
        row = rows[0]
        if changes == _changes:  # else it may have been read before what has changed
            _remember(digest, now, row)
    names, split = _column_names(ApiToken), len(_column_names(ApiToken))
    found = loaded(ApiToken, names, row[:split])
    if found.job_id is not None and not ports.job_goes_on.call(found.job_id):
        return None
    found.user = loaded(User, _column_names(User), row[split:])
    found.user.token_scope, found.user.used_token = found.scope, found
    return found


MOST_REMEMBERED = 1_000  # tokens
_remembered: dict[
    str, tuple[float, tuple[Any, ...]]
] = {}  # when it was read, and the row, by digest
_changes = 0


def _remember(digest: str, now: float, row: tuple[Any, ...]) -> None:
    if len(_remembered) >= MOST_REMEMBERED:
        _remembered.clear()
    _remembered[digest] = (now, row)


def forget_tokens() -> None:
    """Have each token read anew when it is used next."""
    global _changes
    _changes += 1
    _remembered.clear()


@receiver([post_save, post_delete], sender=ApiToken)
@receiver([post_save, post_delete], sender=User)
def _forget_at_change(**_: object) -> None:
    forget_tokens()
    transaction.on_commit(forget_tokens)  # another thread may read the old row until then


@lru_cache
def _living() -> str:
    """Return the query as SQL: it runs for every request, and the ORM takes ten times as long to
    build it as the database to answer."""
    columns = [
        f'{table}."{field.column}"'
        for table, model in (("t", ApiToken), ("u", User))
        for field in model._meta.concrete_fields
    ]
    return (
        f"SELECT {', '.join(columns)} FROM accounts_apitoken t "  # noqa: S608 names of ours
        "JOIN accounts_user u ON u.id = t.user_id "
        "WHERE t.digest = %s AND u.is_active AND (t.expiry IS NULL OR t.expiry > now())"
    )


@lru_cache
def _column_names(model: type[Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return the tokens that were made for a user, without those of the user's jobs."""
    return _unexpired(ApiToken.objects.filter(user=user, job_id=None)).order_by("-created")


def all_tokens(username: str = "") -> QuerySet[ApiToken]:
    """Return the tokens of all users, or of one, each with `user` loaded and the name of its
    `owner`. The name of a user who does not exist gives none."""
    found = _unexpired(ApiToken.objects.select_related("user"))
    found = found.annotate(owner=F("user__username"))
    return found.filter(user__username=username) if username else found


def people() -> QuerySet[User]:
    """Return all users who log in: not those that were deleted, and no service accounts."""
    return User.objects.filter(deleted_at=None, is_service_account=False)


def users() -> QuerySet[User]:
    """Return all people by name, each with `mfa`."""
    return people().order_by("username").annotate(mfa=mfa.enabled())


def find_user(username: str) -> User:
    """Return a user by name. Raises NotFound."""
    user = users().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user named {username}.")
    return user


def admins() -> list[str]:
    """Return the names of some admins, for users who have to ask one."""
    found = users().filter(is_superuser=True, is_active=True)
    return list(found.values_list("username", flat=True)[:MAX_ADMINS])


MAX_ADMINS = 3


def memberships(user: User) -> list[dict[str, str]]:
    """Return [{name, role}] of the virtual clusters that the user belongs to, by name."""
    rows = user.memberships.order_by("vc__name").values_list("vc__name", "role")
    return [{"name": name, "role": role} for name, role in rows]


def _unexpired(tokens: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
    return tokens.filter(Q(expiry=None) | Q(expiry__gt=timezone.now()))
