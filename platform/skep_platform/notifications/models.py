"""What users want to be notified of, their notifications, and what is sent to them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from skep_platform.core.models import Entity
from skep_platform.core.user_events import Channel

EVENT_NAME = 64


class Preferences(models.Model):
    """The channels that a user chose. An event that is missing has its defaults."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        primary_key=True,
        related_name="notification_preferences",
    )
    channels = models.JSONField(default=dict)  # {event: [channel, …]}


class Notification(Entity):
    """What a user finds in the page. Events of one kind within a short time are one row: `items`
    describes the first of them, `count` is how many they are."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notifications")
    event = models.CharField(max_length=EVENT_NAME)
    items = models.JSONField()  # see `texts.Item`
    count = models.PositiveIntegerField(default=1)
    open_until = models.DateTimeField()  # until then it takes more events of its kind
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="notification_of_user"),
            models.Index(fields=["user"], condition=Q(read_at=None), name="notification_unread"),
            models.Index(fields=["created_at"], name="notification_age"),
        ]


class WebhookFormat(models.TextChoices):
    """`slack`: {"text": …}, which Slack, Mattermost and others take."""

    SKEP = "skep"
    SLACK = "slack"


class Webhook(Entity):
    """An address to which a user's notifications are sent."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=63)
    # Scheme, host and port alone: the path may hold a secret, as that of Slack does.
    origin = models.CharField(max_length=300)
    sealed = models.BinaryField()  # JSON {"id", "url", "secret"}
    format = models.CharField(
        max_length=8, choices=WebhookFormat.choices, default=WebhookFormat.SKEP
    )
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=300, blank=True)  # by the platform
    failures = models.PositiveIntegerField(default=0)  # in a row, of single requests

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="webhook_name_once")]


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class Delivery(Entity):
    """One e-mail, or one message to one webhook, from when it is wanted until it was sent. Until
    it is due it takes more events of its kind."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    channel = models.CharField(max_length=8, choices=[(c.value, c.value) for c in Channel])
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="deliveries")
    event = models.CharField(max_length=EVENT_NAME)
    items = models.JSONField()
    count = models.PositiveIntegerField(default=1)
    state = models.CharField(
        max_length=8, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    # By a worker that sends it now: what another one did meanwhile counts, not what it reports.
    claim = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True)  # of the last attempt

    class Meta:
        indexes = [
            models.Index(
                fields=["channel", "due_at"], condition=Q(state="pending"), name="delivery_due"
            ),
            models.Index(fields=["user", "-id"], name="delivery_of_user"),
            models.Index(fields=["created_at"], name="delivery_age"),
        ]
