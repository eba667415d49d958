"""Rings the live sockets whose right to listen may have ended."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.models import Session
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from skep_platform.accounts.models import ApiToken, User
from skep_platform.core import doorbells
from skep_platform.gateway.callers import digest_group, session_group, user_group
from skep_platform.tenancy.models import Membership

RIGHTS_CHANGED: doorbells.Message = {"type": "rights.changed"}


@receiver(post_delete, sender=Session)
def session_ended(instance: Session, **_: Any) -> None:
    doorbells.ring(session_group(instance.session_key), RIGHTS_CHANGED)


@receiver(post_delete, sender=ApiToken)
def token_revoked(instance: ApiToken, **_: Any) -> None:
    doorbells.ring(digest_group(instance.digest), RIGHTS_CHANGED)


@receiver(post_save, sender=User)
def user_changed(instance: User, update_fields: frozenset[str] | None = None, **_: Any) -> None:
    if update_fields != frozenset({"last_login"}):
        doorbells.ring(user_group(instance.pk), RIGHTS_CHANGED)


@receiver([post_save, post_delete], sender=Membership)
def membership_changed(instance: Membership, **_: Any) -> None:
    doorbells.ring(user_group(instance.user_id), RIGHTS_CHANGED)
