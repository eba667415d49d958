"""All reads of users and tokens."""

from __future__ import annotations

from functools import lru_cache

from django.db.models import F, Model, Q, QuerySet
from django.utils import timezone
from knox.crypto import hash_token

from skep_platform.accounts import mfa
from skep_platform.accounts.models import ApiToken, User
from skep_platform.core import ports
from skep_platform.core.bulk import fetch
from skep_platform.core.errors import NotFound

MAX_TOKEN_CHARS = 200


def living_token(token: str) -> ApiToken | None:
    """Return the unexpired token of an active user, with `user` loaded. One query, and one more
    for the token of a job, which ends with the job."""
    if not token or len(token) > MAX_TOKEN_CHARS:
        return None
    rows = fetch(_living(), [hash_token(token)])
    if not rows:
        return None
    names, split = _column_names(ApiToken), len(_column_names(ApiToken))
    found = ApiToken.from_db(None, names, rows[0][:split])
    if found.job_id is not None and not ports.job_goes_on.call(found.job_id):
        return None
    found.user = User.from_db(None, _column_names(User), rows[0][split:])
    found.user.token_scope, found.user.used_token = found.scope, found
    return found


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
