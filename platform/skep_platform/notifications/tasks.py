"""Periodic work on notifications. Every task may run twice at once."""

from __future__ import annotations

from functools import partial

from celery import shared_task

from skep_platform.core import rounds
from skep_platform.core.user_events import Channel
from skep_platform.notifications import collecting, delivering, services


@shared_task(name="skep.notifications.collect")
def collect() -> None:
    """Turn events into notifications and into messages that are due, every two seconds."""
    collecting.collect()


@shared_task(name="skep.notifications.send_mails")
def send_mails() -> None:
    """Send the e-mails that are due. Apart from webhooks, so that a mail server that hangs delays
    none of them."""
    delivering.deliver(Channel.EMAIL)


@shared_task(name="skep.notifications.send_webhooks")
def send_webhooks() -> None:
    """Send the messages of webhooks that are due."""
    delivering.deliver(Channel.WEBHOOK)


rounds.sent_when(send_mails.name, partial(delivering.is_due, Channel.EMAIL))
rounds.sent_when(send_webhooks.name, partial(delivering.is_due, Channel.WEBHOOK))


@shared_task(name="skep.notifications.remind")
def remind() -> None:
    """Record which jobs wait for a long time."""
    services.remind_of_waiting()


@shared_task(name="skep.notifications.tidy")
def tidy() -> None:
    """Delete what is older than its retention."""
    services.delete_old()
