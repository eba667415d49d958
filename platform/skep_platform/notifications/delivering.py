"""Send what is due: claim some messages, send them outside of any transaction, store what became
of them. A worker that dies leaves its claim to run out, and another one sends them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from skep_platform.core.compiled import Compiled, Given
from skep_platform.core.events import notify
from skep_platform.core.models import Event
from skep_platform.core.user_events import Channel
from skep_platform.notifications import mail, sending, texts, webhooks
from skep_platform.notifications.models import Delivery, DeliveryState, Webhook

log = structlog.get_logger(__name__)

# Seconds until the next attempt, after the first, the second and so on; then it has failed.
RETRY_S = (30, 120, 600, 3600, 6 * 3600)
JITTER = 0.1
MAX_FAILURES = 20  # of a webhook in a row, until it is disabled
BATCH = 20
CLAIM_S = 240
# So long a worker begins to send the e-mails of a claim. Each takes some answers of the server, for
# which EMAIL_TIMEOUT is waited: where it is slow, 20 would outlast the claim and be sent twice.
MAIL_S = 100.0
ROUND_S = 20.0  # then another run goes on


def deliver(channel: str) -> int:
    """Send what is due of a channel; return how many messages were tried. Any number of workers
    may do so at once."""
    end, tried = time.monotonic() + ROUND_S, 0
    while time.monotonic() < end:
        token = uuid4()
        claimed = _claim(channel, token)
        if not claimed:
            break
        _SENDERS[channel](claimed, token)
        tried += len(claimed)
    return tried


def is_due(channel: str) -> bool:
    """Return whether a message of this channel may be sent now. One query."""
    return _DUE.finds(channel=str(channel))


_DUE = Compiled(
    lambda: Delivery.objects.filter(
        Q(claimed_until=None) | Q(claimed_until__lt=Now()),
        channel=Given("channel"),
        state=DeliveryState.PENDING,
        due_at__lte=Now(),
    )
)


def _claim(channel: str, token: UUID) -> list[Delivery]:
    now = timezone.now()
    with transaction.atomic():
        due = Delivery.objects.filter(
            channel=channel, state=DeliveryState.PENDING, due_at__lte=now
        ).filter(Q(claimed_until=None) | Q(claimed_until__lt=now))
        ids = due.order_by("due_at").select_for_update(skip_locked=True).values_list("pk")[:BATCH]
        claimed = [pk for (pk,) in ids]
        until = now + timedelta(seconds=CLAIM_S)
        Delivery.objects.filter(pk__in=claimed).update(claim=token, claimed_until=until)
    rows = Delivery.objects.filter(pk__in=claimed).order_by("due_at")
    return list(rows.select_related("user", "user__notification_preferences", "webhook"))


# --- by channel


def _send_mails(claimed: Sequence[Delivery], token: UUID) -> None:
    def done(one: Delivery, error: str, final: bool) -> None:
        _record(one, token, error, final=final)

    ready = []
    for one in claimed:
        if why := mail.problem() or _undeliverable(one) or _no_address(one):
            done(one, why, True)
        else:
            ready.append(one)
    if ready:
        left = mail.send(ready, done, time.monotonic() + MAIL_S)
        rows = Delivery.objects.filter(pk__in=[one.pk for one in left], claim=token)
        rows.update(claim=None, claimed_until=None)


def _undeliverable(one: Delivery) -> str:
    return "" if one.user.is_active else "The user is not active any more."


def _no_address(one: Delivery) -> str:
    return "" if one.user.email else "The user has no e-mail address."


def _send_webhooks(claimed: Sequence[Delivery], token: UUID) -> None:
    ready = []
    for one in claimed:
        hook = one.webhook
        if why := _undeliverable(one) or ("" if hook and hook.enabled else "It is disabled."):
            _record(one, token, why, final=True)
        else:
            ready.append(one)
    for one, error in asyncio.run(_post_all(ready)) if ready else ():
        _record(one, token, error)
        _count_failure(one, error)


async def _post_all(ready: Sequence[Delivery]) -> list[tuple[Delivery, str]]:
    errors = await asyncio.gather(*map(_post, ready))
    return list(zip(ready, errors, strict=True))


async def _post(one: Delivery) -> str:
    try:
        return await _send(one)
    except Exception as error:  # the others of the claim would be sent again with it
        log.exception("webhook_not_sent", delivery=str(one.pk))
        return f"It could not be sent ({type(error).__name__})."


async def _send(one: Delivery) -> str:
    assert one.webhook is not None
    secrets = webhooks.opened(one.webhook)
    if secrets is None:
        return "No key opens its secret: delete the webhook and create it again."
    return await sending.post(
        secrets["url"],
        secrets["secret"],
        texts.payload(str(one.pk), one.event, one.count, one.items, one.webhook.format),
        delivery=str(one.pk),
        event=one.event,
        timestamp=int(time.time()),
    )


_SENDERS: dict[str, Callable[[Sequence[Delivery], UUID], None]] = {
    Channel.EMAIL.value: _send_mails,
    Channel.WEBHOOK.value: _send_webhooks,
}


# --- what became of it


def _record(one: Delivery, token: UUID, error: str, *, final: bool = False) -> None:
    """Store the end of an attempt, unless another worker has taken over. `final`: it is not tried
    again."""
    attempts = one.attempts + 1
    values: dict[str, Any] = {
        "attempts": attempts,
        "claim": None,
        "claimed_until": None,
        "error": error[:300],
    }
    if not error:
        values |= {"state": DeliveryState.SENT, "sent_at": Now()}
    elif final or one.event == texts.TEST or attempts > len(RETRY_S):
        values |= {"state": DeliveryState.FAILED}
    else:
        wait_s = RETRY_S[attempts - 1] * random.uniform(1, 1 + JITTER)  # noqa: S311 no secret
        values |= {"due_at": timezone.now() + timedelta(seconds=wait_s)}
    Delivery.objects.filter(pk=one.pk, claim=token).update(**values)
    if error:
        log.info("notification_not_sent", channel=one.channel, delivery=str(one.pk), error=error)


def _count_failure(one: Delivery, error: str) -> None:
    """Count failures in a row of a webhook, and disable one that has had too many."""
    assert one.webhook_id is not None
    hook = Webhook.objects.filter(pk=one.webhook_id)
    if not error:
        hook.filter(failures__gt=0).update(failures=0)
        return
    hook.update(failures=F("failures") + 1)
    with transaction.atomic():
        found = hook.filter(enabled=True, failures__gte=MAX_FAILURES).select_for_update().first()
        if found is None:
            return
        found.enabled, found.disabled_reason = False, error[:300]
        found.save()
        message = (
            f"Webhook {found.name} ({found.origin}) failed {found.failures} times in a row and was "
            f"disabled. The last time: {error} Enable it again in your settings."
        )
        url = {"name": found.name, "url": "/settings/notifications"}
        notify("webhook.disabled", Event.Subject.USER, found.user_id, message, **url)
