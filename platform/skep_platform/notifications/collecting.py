"""Turn recorded events into notifications, and into e-mails and webhooks that are due.

The rows of `core.models.Event` with `notify` set are the outbox: written in the transaction of the
change, and cleared here in the transaction that writes what follows from them, so that an event
notifies once, however often the task runs. Events of one kind and user within a short time become
one notification, one e-mail and one webhook message that name their number: 500 jobs that fail at
once are one e-mail. A constant number of queries for any number of events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core import notifications, one_by_one, user_events
from skep_platform.core.bulk import loaded
from skep_platform.core.compiled import Compiled
from skep_platform.core.models import Event
from skep_platform.core.user_events import BY_KIND, Channel, UserEvent, wants
from skep_platform.jobs.models import Job
from skep_platform.notifications import mail, preferences
from skep_platform.notifications.models import Delivery, DeliveryState, Notification, Webhook
from skep_platform.notifications.texts import MAX_ITEMS, Item
from skep_platform.tenancy.models import Membership, Role

log = structlog.get_logger(__name__)

BATCH = 1000  # events
ROUNDS = 20  # batches in one run of the task
LOCK = 7_011_944  # of the advisory lock: one worker collects at a time
MAX_LINE = 500  # characters of a line of a log
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _For:
    """An event of a user: what it is about, and by which channels the user gets it."""

    user: int
    event: UserEvent
    item: Item
    channels: Sequence[str]


def collect() -> int:
    """Handle all events that wait; return how many. Does nothing while another worker does it."""
    done = 0
    if not _ANY.finds():
        return done
    for _ in range(ROUNDS):
        with transaction.atomic():
            if not _alone():
                return done
            rows = [loaded(Event, _COLUMNS, values) for values in _WAITING.rows()]
            if rows:
                one_by_one.change(rows, partial(_handle, now=timezone.now()), _leave_out)
                Event.objects.filter(pk__in=[row.pk for row in rows]).update(notify=False)
        done += len(rows)
        if len(rows) < BATCH:
            break
    return done


_COLUMNS = tuple(field.attname for field in Event._meta.concrete_fields)
_ANY = Compiled(lambda: Event.objects.filter(notify=True))
_WAITING = Compiled(lambda: Event.objects.filter(notify=True).order_by("id")[:BATCH], *_COLUMNS)


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def _leave_out(row: Event) -> None:
    """Have an event that cannot be handled notify no one, so that those behind it do."""
    log.exception("event_not_notified", id=row.pk, kind=row.kind)


def _handle(rows: Sequence[Event], now: datetime) -> None:
    by_subject: dict[str, list[Event]] = defaultdict(list)
    for row in rows:
        if row.kind in BY_KIND:
            by_subject[row.subject_type].append(row)
    found: list[_For] = []
    for subject, of_subject in by_subject.items():
        found += _AUDIENCES[subject](of_subject) if subject in _AUDIENCES else []
    _write_notifications([f for f in found if Channel.IN_PAGE in f.channels], now)
    _write_deliveries(found, now)


# --- who is to know, of each kind of subject


def _of_jobs(rows: Sequence[Event]) -> list[_For]:
    """A job's events are for its owner, who always may see it."""
    ids = {row.subject_id for row in rows}
    columns = ("name", "owner", "owner__username", "vc__name", "notified_events", "diagnosis")
    jobs = {
        str(pk): dict(zip(columns, values, strict=True))
        for pk, *values in Job.objects.filter(pk__in=ids, owner__is_active=True).values_list(
            "pk", *columns
        )
    }
    chosen = preferences.of_users({job["owner"] for job in jobs.values()})
    found = []
    for row in rows:
        job, event = jobs.get(row.subject_id), BY_KIND[row.kind]
        if job is None:
            continue
        channels = set(preferences.channels_of(event, chosen.get(job["owner"], {})))
        if row.kind == "job.stopped" and job["owner__username"] in (row.actor, row.data.get("by")):
            channels = set()
        if wants(0, row.kind, job["notified_events"]):  # the job file asks for it
            channels |= {Channel.IN_PAGE, Channel.EMAIL}
        item = _item(
            row,
            name=job["name"],
            url=f"/jobs/{row.subject_id}",
            virtual_cluster=job["vc__name"],
            log_line=_log_line(job["diagnosis"]) if row.kind == "job.failed" else "",
        )
        found.append(_For(job["owner"], event, item, sorted(channels)))
    return found


def _of_vcs(rows: Sequence[Event]) -> list[_For]:
    """The events of a virtual cluster are for its VC admins."""
    ids = {UUID(row.subject_id) for row in rows}
    admins: dict[str, list[tuple[int, str]]] = defaultdict(list)
    managing = Membership.objects.filter(vc__in=ids, role=Role.ADMIN, user__is_active=True)
    for vc, user, name in managing.values_list("vc", "user", "vc__name"):
        admins[str(vc)].append((user, name))
    chosen = preferences.of_users({user for users in admins.values() for user, _ in users})
    return [
        _For(
            user,
            BY_KIND[row.kind],
            _item(row, name=name, url=f"/virtual-clusters/{name}", virtual_cluster=name),
            preferences.channels_of(BY_KIND[row.kind], chosen.get(user, {})),
        )
        for row in rows
        for user, name in admins[row.subject_id]
    ]


def _of_users(rows: Sequence[Event]) -> list[_For]:
    known = User.objects.filter(pk__in={row.subject_id for row in rows}, is_active=True)
    users = {str(pk): pk for pk in known.values_list("pk", flat=True)}
    chosen = preferences.of_users(users.values())
    return [
        _For(
            users[row.subject_id],
            BY_KIND[row.kind],
            _item(row, name=str(row.data.get("name", "")), url=str(row.data.get("url", "/"))),
            preferences.channels_of(BY_KIND[row.kind], chosen.get(users[row.subject_id], {})),
        )
        for row in rows
        if row.subject_id in users
    ]


def _of_announcements(rows: Sequence[Event]) -> list[_For]:
    """Announcements are on every page; those who asked for more get it."""
    event = user_events.BY_NAME["announcement.created"]
    bit = user_events.mask([event.name])
    users = User.objects.alias(wanted=F("notified_events").bitand(bit))
    users = users.filter(is_active=True, wanted__gt=0)
    chosen = preferences.of_users(list(users.values_list("pk", flat=True)))
    return [
        _For(user, event, _item(row, name="", url="/"), preferences.channels_of(event, channels))
        for row in rows
        for user, channels in chosen.items()
    ]


_AUDIENCES = {
    Event.Subject.JOB.value: _of_jobs,
    Event.Subject.VC.value: _of_vcs,
    Event.Subject.USER.value: _of_users,
    Event.Subject.ANNOUNCEMENT.value: _of_announcements,
}


def _item(
    row: Event, *, name: str, url: str, virtual_cluster: str = "", log_line: str = ""
) -> dict[str, str]:
    return {
        "name": name,
        "message": row.message,
        "log_line": log_line,
        "url": url,
        "at": row.at.isoformat(),
        "virtual_cluster": virtual_cluster,
    }


def _log_line(diagnosis: Mapping[str, Any] | None) -> str:
    """Return the line of the log that a diagnosis rests on; "" where there is none."""
    evidence = (diagnosis or {}).get("evidence") or {}
    return str(evidence["text"])[:MAX_LINE] if evidence.get("source") == "log" else ""


# --- writing


def _grouped(found: Iterable[_For]) -> dict[tuple[int, str], list[Item]]:
    groups: dict[tuple[int, str], list[Item]] = defaultdict(list)
    for one in found:
        groups[one.user, one.event.name].append(one.item)
    return groups


def _write_notifications(found: Sequence[_For], now: datetime) -> None:
    groups = _grouped(found)
    if not groups:
        return
    users = {user for user, _ in groups}
    rows = Notification.objects.filter(user__in=users, open_until__gt=now, read_at=None)
    known = {(row.user_id, row.event): row for row in rows.order_by("id").select_for_update()}
    window = timedelta(seconds=settings.SKEP_NOTIFICATION_WINDOW_S)
    new, changed = [], []
    for (user, event), items in groups.items():
        if row := known.get((user, event)):
            _append(row, items, now)
            changed.append(row)
        else:
            row = Notification(user_id=user, event=event, items=[], count=0)
            row.open_until = now + window
            _append(row, items, now)
            new.append(row)
    Notification.objects.bulk_create(new)
    Notification.objects.bulk_update(changed, ["items", "count", "updated_at"])
    for user in users:
        notifications.notify_topic("notifications", user)


def _append(row: Notification | Delivery, items: Sequence[Item], now: datetime) -> None:
    row.items = [*row.items, *items][:MAX_ITEMS]
    row.count += len(items)
    row.updated_at = now


Where = tuple[int, str, str, UUID | None]  # user, event, channel, webhook


def _write_deliveries(found: Sequence[_For], now: datetime) -> None:
    wanted = _destinations(found)
    if not wanted:
        return
    users = {user for user, _, _, _ in wanted}
    pending = Delivery.objects.filter(
        user__in=users, state=DeliveryState.PENDING, attempts=0, claim=None
    )
    # One that a worker claims at this moment is passed over, and a new one is begun.
    known = {_where(row): row for row in pending.order_by("id").select_for_update(skip_locked=True)}
    recent = _recent(users, now)
    new, changed = [], []
    for where, items in wanted.items():
        if row := known.get(where):
            _append(row, items, now)
            changed.append(row)
            continue
        user, event, channel, webhook = where
        row = Delivery(user_id=user, event=event, channel=channel, webhook_id=webhook)
        row.items, row.count = [], 0
        row.due_at = now + _delay(channel, recent.get((user, channel), 0))
        _append(row, items, now)
        new.append(row)
    Delivery.objects.bulk_create(new)
    Delivery.objects.bulk_update(changed, ["items", "count", "updated_at"])


def _where(row: Delivery) -> Where:
    return row.user_id, row.event, row.channel, row.webhook_id


def _destinations(found: Sequence[_For]) -> dict[Where, list[Item]]:
    """Return what goes where: e-mails of users who have an address, and webhooks that are
    enabled."""
    by_mail = [f for f in found if Channel.EMAIL in f.channels] if mail.problem() == "" else []
    by_hook = [f for f in found if Channel.WEBHOOK in f.channels]
    wanted: dict[Where, list[Item]] = defaultdict(list)
    if by_mail:
        known = User.objects.filter(pk__in={f.user for f in by_mail}).exclude(email="")
        addressed = set(known.values_list("pk", flat=True))
        for one in by_mail:
            if one.user in addressed:
                wanted[one.user, one.event.name, Channel.EMAIL.value, None].append(one.item)
    if by_hook:
        hooks: dict[int, list[UUID]] = defaultdict(list)
        rows = Webhook.objects.filter(user__in={f.user for f in by_hook}, enabled=True)
        for user, pk in rows.values_list("user", "pk"):
            hooks[user].append(pk)
        for one in by_hook:
            for hook in hooks[one.user]:
                wanted[one.user, one.event.name, Channel.WEBHOOK.value, hook].append(one.item)
    return wanted


def _recent(users: Iterable[int], now: datetime) -> dict[tuple[int, str], int]:
    """Return how many messages each of these users got, or is about to get, within an hour."""
    rows = Delivery.objects.filter(user__in=users).filter(
        Q(created_at__gt=now - HOUR) | Q(state=DeliveryState.PENDING)
    )
    counts = rows.order_by().values_list("user", "channel").annotate(n=Count("pk"))
    return {(user, channel): n for user, channel, n in counts}


def _delay(channel: str, recent: int) -> timedelta:
    """Return how long a message waits for more of its kind: an hour for users who had very many."""
    if channel == Channel.EMAIL:
        most, window_s = settings.SKEP_MAILS_PER_HOUR, settings.SKEP_NOTIFICATION_WINDOW_S
    else:
        most, window_s = MAX_WEBHOOKS_PER_HOUR, WEBHOOK_WINDOW_S
    return HOUR if recent >= most else timedelta(seconds=window_s)


MAX_WEBHOOKS_PER_HOUR = 600
WEBHOOK_WINDOW_S = 5.0
