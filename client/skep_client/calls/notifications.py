"""Requests about notifications and webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page


def notifications(**params: Any) -> Call[Page[models.Notification]]:
    """Iterate over your notifications, newest first. `params`: unread."""
    return Call("GET", "notifications", Page[models.Notification], params=given(params))


def mark_read(ids: Sequence[str] | None = None) -> Call[models.UnreadNotifications]:
    """Mark some of your notifications as read, or all of them."""
    body = {} if ids is None else {"ids": list(ids)}
    return Call("POST", "notifications/read", models.UnreadNotifications, json=body)


def notification_preferences() -> Call[models.NotificationPreferences]:
    """Return what you are notified of, and by which channels."""
    return Call("GET", "notifications/preferences", models.NotificationPreferences)


def set_notification_preferences(
    events: Mapping[str, Mapping[str, bool]],
) -> Call[models.NotificationPreferences]:
    """Turn channels of events on and off: {event: {channel: on}}."""
    body = {"events": {event: dict(channels) for event, channels in events.items()}}
    return Call("PATCH", "notifications/preferences", models.NotificationPreferences, json=body)


def send_test_notification(
    channel: str, webhook: str | None = None
) -> Call[models.NotificationDelivery]:
    """Send yourself a test by e-mail, or to one of your webhooks (its id)."""
    body = given({"channel": channel, "webhook": webhook})
    answer = models.NotificationDelivery
    return Call("POST", "notifications/test", answer, json=body, repeatable=False)


def notification_delivery(delivery_id: str) -> Call[models.NotificationDelivery]:
    """Return what became of an e-mail or a message of a webhook."""
    return Call("GET", f"notifications/deliveries/{delivery_id}", models.NotificationDelivery)


def notification_deliveries(**params: Any) -> Call[Page[models.NotificationDelivery]]:
    """Iterate over the e-mails and webhook messages for you, newest first. `params`: webhook."""
    answer = Page[models.NotificationDelivery]
    return Call("GET", "notifications/deliveries", answer, params=given(params))


def webhooks(**params: Any) -> Call[Page[models.Webhook]]:
    """Iterate over your webhooks, by name."""
    return Call("GET", "webhooks", Page[models.Webhook], params=given(params))


def create_webhook(name: str, url: str, *, format: str = "skep") -> Call[models.NewWebhook]:
    """Create a webhook. The answer has the secret that signs its requests, this once."""
    body = {"name": name, "url": url, "format": format}
    return Call("POST", "webhooks", models.NewWebhook, json=body, repeatable=False)


def update_webhook(webhook_id: str, **changes: Any) -> Call[models.Webhook]:
    """Change name, url, format or enabled of a webhook."""
    return Call("PATCH", f"webhooks/{webhook_id}", models.Webhook, json=changes)


def new_webhook_secret(webhook_id: str) -> Call[models.WebhookSecret]:
    """Replace the secret of a webhook; the old one ends at once."""
    path = f"webhooks/{webhook_id}/secret"
    return Call("POST", path, models.WebhookSecret, repeatable=False)


def delete_webhook(webhook_id: str) -> Call[None]:
    """Delete a webhook, with what was not sent to it yet."""
    return Call("DELETE", f"webhooks/{webhook_id}", None)


def dismiss_announcement(announcement_id: str) -> Call[None]:
    """Hide an announcement from you; others go on seeing it."""
    return Call("PUT", f"announcements/{announcement_id}/dismissal", None)
