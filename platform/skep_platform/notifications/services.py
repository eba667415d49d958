"""Writes to notifications: what was read, tests of a channel, reminders, retention."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, Q
from django.db.models.functions import Cast, Coalesce, Now
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import notifications, user_events
from skep_platform.core.bulk import deletion_time, insert_rows
from skep_platform.core.errors import Conflict, NotFound, SkepError, TooMany
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.core.user_events import Channel
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.notifications import mail, queries, texts
from skep_platform.notifications.models import Delivery, Notification

MAX_TESTS = 5  # of one user within a minute
REMINDED = 500  # jobs in one round
DELETED = 5000  # rows in one statement
BUDGET_S = 30.0


def mark_read(user: User, ids: Collection[UUID] | None, *, read: bool = True) -> int:
    """Mark notifications of the user as read, or as unread; None: all of them. Ids of others are
    passed over. Return how many changed."""
    rows = queries.of(user).filter(read_at__isnull=read)
    if ids is not None:
        rows = rows.filter(pk__in=ids)
    changed = rows.update(read_at=Now() if read else None, updated_at=Now())
    if changed:
        notifications.notify_topic("notifications", user.pk)
    return changed


def delete(user: User, notification_id: UUID) -> None:
    """Raises NotFound."""
    deleted, _ = queries.of(user).filter(pk=notification_id).delete()
    if not deleted:
        raise NotFound(f"You have no notification {notification_id}.")
    notifications.notify_topic("notifications", user.pk)


@transaction.atomic
def send_test(user: User, channel: str, webhook_id: UUID | None = None) -> Delivery:
    """Queue a test message of a channel, by the way that all others go; it is tried once.

    Raises NotFound for a webhook that is not the user's, Conflict `email_unavailable`,
    `no_email_address` and `webhook_disabled`, SkepError `webhook_required`, TooMany."""
    User.objects.select_for_update().get(pk=user.pk)
    if queries.tests_within_a_minute(user) >= MAX_TESTS:
        message = f"At most {MAX_TESTS} tests a minute; try again in a minute."
        raise TooMany(message, code="throttled", retry_after_s=60)
    one = Delivery(user=user, channel=channel, event=texts.TEST, due_at=timezone.now())
    one.items = [_test_item()]
    if channel == Channel.EMAIL:
        _check_mail(user)
    elif webhook_id is None:
        raise SkepError("Say which webhook.", code="webhook_required", field="webhook")
    else:
        one.webhook = queries.webhook(user, webhook_id)
        if not one.webhook.enabled:
            message = "The webhook is disabled: enable it first."
            raise Conflict(message, code="webhook_disabled")
    one.save()
    audit.record("notification.test", "delivery", one.pk, channel)
    return one


def _check_mail(user: User) -> None:
    if why := mail.problem():
        raise Conflict(why, code="email_unavailable")
    if not user.email:
        message = "Your account has no e-mail address: ask an administrator to set it."
        raise Conflict(message, code="no_email_address")


def _test_item() -> dict[str, str]:
    return {
        "name": "",
        "message": "Notifications by this channel reach you.",
        "log_line": "",
        "url": "/settings/notifications",
        "at": timezone.now().isoformat(),
        "virtual_cluster": "",
    }


def remind_of_waiting() -> int:
    """Record an event for each job that has waited in the queue for longer than
    SKEP_NOTIFICATION_WAITING_H hours and whose owner wants to know, once. Return how many."""
    hours = settings.SKEP_NOTIFICATION_WAITING_H
    if hours <= 0:
        return 0
    bit = user_events.mask(["job.waiting_long"])
    reminded = Event.objects.filter(
        subject_type=Event.Subject.JOB,
        subject_id=Cast(OuterRef("pk"), CharField()),
        kind="job.waiting_long",
    )
    since = timezone.now() - timedelta(hours=hours)
    chosen = Coalesce("owner__notified_events", user_events.DEFAULT_MASK)
    jobs = Job.objects.filter(
        Q(not_before=None) | Q(not_before__lt=since),
        ~Exists(reminded),
        state=JobState.WAITING,
        placed_at=None,
        awaits_dependencies=False,
        created_at__lt=since,
    )
    found = jobs.alias(wanted=chosen.bitand(bit)).filter(wanted__gt=0).order_by("pk")[:REMINDED]
    made = [_reminder(pk, reason, hours) for pk, reason in found.values_list("pk", "wait_reason")]
    insert_rows(made)
    return len(made)


def _reminder(job_id: UUID, reason: dict[str, Any] | None, hours: float) -> Event:
    why = f" {reason['message']}" if reason else ""
    message = f"It has waited for more than {hours:g} hours.{why}"
    return event("job", job_id, "job.waiting_long", message, notify=True)


def delete_old() -> int:
    """Delete notifications and deliveries that are older than SKEP_NOTIFICATION_RETENTION_DAYS, a
    bounded number at a time and for a bounded time; return how many."""
    before = deletion_time() - timedelta(days=settings.SKEP_NOTIFICATION_RETENTION_DAYS)
    until, deleted = time.monotonic() + BUDGET_S, 0
    for model in (Notification, Delivery):
        while time.monotonic() < until:
            old = model.objects.filter(created_at__lt=before).order_by("created_at")
            ids = list(old.values_list("pk", flat=True)[:DELETED])
            if ids:
                deleted += model.objects.filter(pk__in=ids)._raw_delete(model.objects.db)
            if len(ids) < DELETED:
                break
    return deleted
