"""All reads of users and tokens."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.utils import timezone
from knox.crypto import hash_token

from skep_platform.accounts.models import ApiToken, User
from skep_platform.core.errors import NotFound

MAX_TOKEN_CHARS = 200


def living_token(token: str) -> ApiToken | None:
    """The unexpired token of an active user, with `user` loaded; one query."""
    if not token or len(token) > MAX_TOKEN_CHARS:
        return None
    living = _unexpired(ApiToken.objects.filter(user__is_active=True)).select_related("user")
    try:
        found = living.get(digest=hash_token(token))
    except ApiToken.DoesNotExist:
        return None
    found.user.token_scope = found.scope
    return found


def tokens_of(user: User) -> QuerySet[ApiToken]:
    return _unexpired(ApiToken.objects.filter(user=user)).order_by("-created")


def users() -> QuerySet[User]:
    """Without those that were deleted but are still referred to."""
    return User.objects.filter(deleted_at=None).order_by("username")


def find_user(username: str) -> User:
    """Raises NotFound."""
    user = users().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user named {username}.")
    return user


def admins() -> list[str]:
    """The names of some admins, for somebody who has to ask one."""
    found = users().filter(is_superuser=True, is_active=True)
    return list(found.values_list("username", flat=True)[:MAX_ADMINS])


MAX_ADMINS = 3


def memberships(user: User) -> list[dict[str, str]]:
    """[{name, role}] of the virtual clusters that the user belongs to, by name."""
    rows = user.memberships.order_by("vc__name").values_list("vc__name", "role")
    return [{"name": name, "role": role} for name, role in rows]


def _unexpired(tokens: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
    return tokens.filter(Q(expiry=None) | Q(expiry__gt=timezone.now()))
