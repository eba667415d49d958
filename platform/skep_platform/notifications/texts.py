"""The words of notifications: titles, e-mails, and the payloads of webhooks.

Pure, but for the public address. Nothing of a job file or its environment is repeated here: of a
job its name, its virtual cluster, the platform's sentence, and the line of its log that the
diagnosis names (in which the node's agent has masked the values of secrets)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from django.conf import settings

from skep_platform.core.user_events import BY_NAME
from skep_platform.notifications.models import WebhookFormat

# {name, message, log_line, url (a path of the page), at, virtual_cluster}; texts, each may be "".
Item = Mapping[str, str]
MAX_ITEMS = 50  # described in one notification; all are counted
MAX_TITLE_NAME = 100
TEST = "test"

# (of one, of several)
_TITLES = {
    "job.started": ("Job {name} started", "{count} jobs started"),
    "job.failed": ("Job {name} failed", "{count} jobs failed"),
    "job.succeeded": ("Job {name} succeeded", "{count} jobs succeeded"),
    "job.stopped": ("Job {name} was stopped", "{count} jobs were stopped"),
    "job.retried": ("Job {name} is tried again", "{count} jobs are tried again"),
    "job.preempted": ("Job {name} was preempted", "{count} jobs were preempted"),
    "job.waiting_long": ("Job {name} still waits", "{count} jobs still wait"),
    "job.idle": ("Job {name} leaves its GPUs idle", "{count} jobs leave their GPUs idle"),
    "budget.warning": (
        "Most of the GPU-hour budget of {name} is used",
        "Most of the GPU-hour budgets of {count} virtual clusters is used",
    ),
    "budget.used_up": (
        "The GPU-hour budget of {name} is used up",
        "The GPU-hour budgets of {count} virtual clusters are used up",
    ),
    "announcement.created": ("Announcement", "{count} announcements"),
    "webhook.disabled": ("Webhook {name} was disabled", "{count} webhooks were disabled"),
    "job.image_saved": ("Image {name} was saved", "{count} images were saved"),
    "job.image_not_saved": ("Image {name} was not saved", "{count} images were not saved"),
    "platform.alert": ("Alert {name}", "{count} alerts"),
    TEST: ("Test notification", "{count} test notifications"),
}


def title(event: str, count: int, items: Sequence[Item]) -> str:
    """Return one line that says what happened, without line ends."""
    one, several = _TITLES[event]
    if count > 1:
        return several.format(count=f"{count:,}")
    name = items[0]["name"] if items else ""
    return one.format(name=name[:MAX_TITLE_NAME])


def link(item: Item) -> str:
    """Return the address of the page about an item."""
    return settings.SKEP_PUBLIC_URL.rstrip("/") + item["url"]


def mail_body(
    event: str, count: int, items: Sequence[Item], *, unsubscribe: str, asked_by_job: bool
) -> str:
    """Return the text of an e-mail. `unsubscribe`: the address that ends e-mails of this event, ""
    where there is none."""
    parts = [f"{title(event, count, items)}.", *(_described(item) for item in items)]
    if count > len(items):
        parts.append(f"And {count - len(items):,} more: {page_of(event)}")
    parts.append("-- \n" + _footer(event, unsubscribe, asked_by_job=asked_by_job))
    return "\n\n".join(parts) + "\n"


def page_of(event: str) -> str:
    """Return the address of the list of what an event is about."""
    path = "/jobs" if event.startswith("job.") else "/notifications"
    return settings.SKEP_PUBLIC_URL.rstrip("/") + path


def payload(
    delivery_id: str, event: str, count: int, items: Sequence[Item], format: str
) -> dict[str, Any]:
    """Return the body of a webhook's request, as JSON has it."""
    if format == WebhookFormat.SLACK:
        return {"text": _slack(event, count, items)}
    return {
        "id": delivery_id,
        "event": event,
        "title": title(event, count, items),
        "count": count,
        "items": [{**item, "url": link(item)} for item in items],
    }


def _described(item: Item) -> str:
    where = f" ({item['virtual_cluster']})" if item["virtual_cluster"] else ""
    lines = [item["name"] + where if item["name"] else "", item["message"]]
    if item["log_line"]:
        lines.append(f"Log: {item['log_line']}")
    lines.append(link(item))
    return "\n".join(filter(None, lines))


def _footer(event: str, unsubscribe: str, *, asked_by_job: bool) -> str:
    public = settings.SKEP_PUBLIC_URL.rstrip("/")
    if event == TEST:
        why = "You get this because you asked for a test."
    elif asked_by_job:
        why = "You get this because the job file asks for it (jobStatusChangeNotification)."
    else:
        why = f"You get this because of your settings: {BY_NAME[event].description}"
    lines = [why, f"Change what you get: {public}/settings/notifications"]
    if unsubscribe:
        lines.append(f"No more e-mails of this kind: {unsubscribe}")
    return "\n".join(lines)


def _slack(event: str, count: int, items: Sequence[Item]) -> str:
    lines = [f"*{_escaped(title(event, count, items))}*"]
    for item in items[:10]:
        name = _escaped(item["name"] or "open")
        lines.append(f"<{quote(link(item), safe=':/?&=#%')}|{name}>: {_escaped(item['message'])}")
        if item["log_line"]:
            lines.append(f"> {_escaped(item['log_line'])}")
    if count > 10:
        lines.append(f"and {count - 10:,} more")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """As Slack asks for: these three characters control its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
