"""All reads of notifications: each user's own, and no one else's, admins included."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core.errors import NotFound
from skep_platform.notifications.models import Delivery, Notification, Webhook

MOST_COUNTED = 100  # unread; a page writes "99+"


def of(user: User, *, unread: bool = False) -> QuerySet[Notification]:
    rows = Notification.objects.filter(user=user)
    return rows.filter(read_at=None) if unread else rows


def unread(user: User) -> int:
    """Return how many notifications were not read, at most MOST_COUNTED. One query."""
    return of(user, unread=True).order_by()[:MOST_COUNTED].count()


def webhooks_of(user: User) -> QuerySet[Webhook]:
    return Webhook.objects.filter(user=user)


def webhook(user: User, webhook_id: UUID) -> Webhook:
    """Return a webhook of the user. Raises NotFound."""
    found = webhooks_of(user).filter(pk=webhook_id).first()
    if found is None:
        raise NotFound(f"You have no webhook {webhook_id}.", code="webhook_not_found")
    return found


def deliveries_of(user: User) -> QuerySet[Delivery]:
    return Delivery.objects.filter(user=user).select_related("webhook")


def delivery(user: User, delivery_id: UUID) -> Delivery:
    """Return an e-mail or a message of a webhook of the user. Raises NotFound."""
    found = deliveries_of(user).filter(pk=delivery_id).first()
    if found is None:
        raise NotFound(f"You have no delivery {delivery_id}.", code="delivery_not_found")
    return found


def tests_within_a_minute(user: User) -> int:
    since = timezone.now() - timedelta(minutes=1)
    return Delivery.objects.filter(user=user, event="test", created_at__gt=since).count()
