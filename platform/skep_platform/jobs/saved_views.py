"""Saved views: filters of the list of jobs that a user keeps under a name."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import QuerySet

from skep_platform.accounts.models import User
from skep_platform.core.errors import Conflict, NotFound
from skep_platform.core.models import Entity


class SavedView(Entity):
    """Filters of the list of jobs that a user keeps under a name."""

    MAX_NAME = 64

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", db_index=False
    )
    name = models.CharField(max_length=MAX_NAME)
    filters = models.JSONField()  # {parameter of GET /jobs: value}

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_once")]


MOST_VIEWS = 50  # of one user


def of_user(user: User) -> QuerySet[SavedView]:
    """Select the saved views of a user by name, at most MOST_VIEWS."""
    return SavedView.objects.filter(user=user).order_by("name")


def save(user: User, name: str, filters: Mapping[str, str | bool]) -> SavedView:
    """Keep filters under a name; those that the user has under it are replaced. Raises Conflict
    `too_many_views`."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if not of_user(user).filter(name=name).exists() and of_user(user).count() >= MOST_VIEWS:
            message = f"You have {MOST_VIEWS} saved views, which is the most. Delete one first."
            raise Conflict(message, code="too_many_views", most=MOST_VIEWS)
        found, _ = SavedView.objects.update_or_create(
            user=user, name=name, defaults={"filters": dict(filters)}
        )
    return found


def delete(user: User, view_id: UUID) -> None:
    """Raises NotFound, also for the view of another user."""
    deleted, _ = of_user(user).filter(pk=view_id).delete()
    if not deleted:
        raise NotFound("There is no such saved view.")
