"""Webhooks of users: all writes. Address and secret are sealed together; the secret is shown once,
when it is made."""

from __future__ import annotations

import json
import secrets
from typing import Any

import structlog
from django.db import IntegrityError, transaction

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import encryption
from skep_platform.core.encryption import DecryptionFailed
from skep_platform.core.errors import Conflict
from skep_platform.notifications import addresses
from skep_platform.notifications.models import Webhook, WebhookFormat

MAX_WEBHOOKS = 10  # of one user
log = structlog.get_logger(__name__)


@transaction.atomic
def create(
    user: User, name: str, url: str, format: str = WebhookFormat.SKEP
) -> tuple[Webhook, str]:
    """Create a webhook; return it with its secret, which is returned nowhere else.

    Raises SkepError `webhook_url_invalid` and `webhook_address_refused`, Conflict `name_taken` and
    `too_many_webhooks`."""
    origin = addresses.origin(addresses.parse(url))
    User.objects.select_for_update().get(pk=user.pk)  # so that the count holds
    count = Webhook.objects.filter(user=user).count()
    if count >= MAX_WEBHOOKS:
        message = f"You have {count} webhooks already; delete one of them first."
        raise Conflict(message, code="too_many_webhooks", now=count, most=MAX_WEBHOOKS)
    made = Webhook(user=user, name=name, origin=origin, format=format)
    secret = _seal(made, url)
    _save(made)
    audit.record("webhook.create", "webhook", made.pk, name, after=_facts(made))
    return made, secret


@transaction.atomic
def update(webhook: Webhook, **changes: Any) -> Webhook:
    """Change any of name, url, format and enabled. What was not sent while it was disabled is not
    sent later. Raises what `create` does."""
    before = _facts(webhook)
    for name in ("name", "format", "enabled"):
        setattr(webhook, name, changes.get(name, getattr(webhook, name)))
    if url := changes.get("url"):
        webhook.origin = addresses.origin(addresses.parse(url))
        _seal(webhook, url, known=opened(webhook))
    if changes.get("enabled"):
        webhook.failures, webhook.disabled_reason = 0, ""
    _save(webhook)
    audit.record(
        "webhook.update", "webhook", webhook.pk, webhook.name, before=before, after=_facts(webhook)
    )
    return webhook


@transaction.atomic
def new_secret(webhook: Webhook) -> str:
    """Replace the secret; return the new one, which is returned nowhere else. The next request is
    signed by it. Raises DecryptionFailed where no key opens the address."""
    known = json.loads(encryption.open(webhook.sealed))
    secret = _seal(webhook, known["url"])
    webhook.save()
    audit.record("webhook.secret.create", "webhook", webhook.pk, webhook.name)
    return secret


@transaction.atomic
def delete(webhook: Webhook) -> None:
    """Delete a webhook, with what was not sent to it yet."""
    audit.record("webhook.delete", "webhook", webhook.pk, webhook.name, before=_facts(webhook))
    webhook.delete()


def opened(webhook: Webhook) -> dict[str, str] | None:
    """Return {url, secret}; None where no key of this server opens them."""
    try:
        known: dict[str, str] = json.loads(encryption.open(webhook.sealed))
    except DecryptionFailed:
        log.error("webhook_locked", webhook=str(webhook.pk))
        return None
    # Sealed with its id, so that a row that was copied over another one opens nothing.
    return known if known["id"] == str(webhook.pk) else None


def _seal(webhook: Webhook, url: str, known: dict[str, str] | None = None) -> str:
    secret = known["secret"] if known else f"whsec_{secrets.token_urlsafe(32)}"
    plain = {"id": str(webhook.pk), "url": url, "secret": secret}
    webhook.sealed = encryption.seal(json.dumps(plain).encode())
    return secret


def _save(webhook: Webhook) -> None:
    try:
        with transaction.atomic():
            webhook.save()
    except IntegrityError:
        message = f"You have a webhook named {webhook.name}."
        raise Conflict(message, code="name_taken", name=webhook.name) from None


def _facts(webhook: Webhook) -> dict[str, Any]:
    return {name: getattr(webhook, name) for name in ("name", "origin", "format", "enabled")}
