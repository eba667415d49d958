"""Ending sessions and tokens of users whom the directory has disabled or removed.

A user counts as disabled where a login would not find its entry: SKEP_LDAP_USER_FILTER, with any
name, does not match the entry of this UID. A directory that does not answer changes nothing. Who
logs in otherwise, too, by a password kept here or single sign-on, is left alone.
"""

from __future__ import annotations

import structlog
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.core.cache import cache
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from skep_platform.accounts import external, ldap_login, services, sessions
from skep_platform.accounts.models import ApiToken, BrowserSession, User
from skep_platform.audit import services as audit

log = structlog.get_logger(__name__)
BATCH = 500  # users in one round; a turn is as many rounds as come to all users
AT_ONCE = 50  # in one search
CURSOR = "skep:ldap-sync-turn"  # the last user of the turn, and whether a round was a mistake
CURSOR_S = 86_400
# More than a half of so many at once is a mistake in a setting, and not people who left.
PLAUSIBLE = 10


def sync() -> int:
    """Look at the next BATCH users of the directory and sign out those who are disabled; return
    how many. After a round that looks like a mistake, the rest of its turn ends nothing either.
    Raises Unavailable `ldap_unavailable`; the same users are next then."""
    if not ldap_login.is_on():
        return 0
    after, mistaken = cache.get(CURSOR) or (0, False)
    found = _accounts().filter(pk__gt=after).order_by("pk").values_list("pk", "uid", "user")
    rows = list(found[:BATCH])
    uids = [uid for _, uid, _ in rows]
    known: set[str] = set()
    for first in range(0, len(uids), AT_ONCE):
        known |= ldap_login.enabled(uids[first : first + AT_ONCE])
    gone = [user for _, uid, user in rows if uid not in known]
    mistaken = mistaken or _is_mistake(len(rows), len(gone))
    more = len(rows) == BATCH
    cache.set(CURSOR, (rows[-1][0], mistaken) if more else (0, False), CURSOR_S)
    if mistaken:
        log.error("ldap_sync_refused", users=len(rows), gone=len(gone))
        return 0
    return sum(_end(user) for user in gone)


def _accounts() -> QuerySet[SocialAccount]:
    """Return the accounts of active users who log in by the directory only and have something that
    could be ended: who left long ago must not count as one who leaves now."""
    password = ~Q(user__password__startswith=UNUSABLE_PASSWORD_PREFIX)
    if not settings.SKEP_PASSWORD_LOGIN:
        password &= Q(user__is_superuser=True)
    sso = SocialAccount.objects.filter(user=OuterRef("user"), provider=settings.SKEP_OIDC_ISSUER)
    accounts = SocialAccount.objects.filter(provider=external.LDAP, user__is_active=True)
    token = ApiToken.objects.filter(user=OuterRef("user"))
    session = BrowserSession.objects.filter(
        user=OuterRef("user"), sign_outs=OuterRef("user__sign_outs")
    )
    return accounts.exclude(password).exclude(Exists(sso)).filter(Exists(token) | Exists(session))


def _is_mistake(users: int, gone: int) -> bool:
    return gone == users >= 2 or (users >= PLAUSIBLE and gone > users / 2)


@transaction.atomic
def _end(user_id: int) -> bool:
    """End what the user has left; return whether there was anything."""
    user = User.objects.select_for_update().get(pk=user_id)
    tokens = user.auth_token_set.count()
    if not tokens and not sessions.of_user(user).exists():
        return False
    services.sign_out(user)
    user.save(update_fields=["sign_outs"])
    audit.record("user.sign_out", "user", user.pk, user.get_username(), ended=tokens)
    return True
