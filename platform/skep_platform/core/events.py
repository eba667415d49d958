"""Writing events, and keeping their table bounded.

An event is written with one call, inside the transaction of the change that it reports.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Max

from skep_jobfile.plain import plain, plain_data
from skep_platform.core.bulk import deletion_time, fetch, new
from skep_platform.core.models import Event
from skep_platform.core.user_events import BY_KIND

SUBJECTS = 1000  # looked at in one statement
ROWS = 5000  # deleted in one statement
BUDGET_S = 30.0  # of one run; the next one goes on


def event(
    subject_type: str,
    subject_id: object,
    kind: str,
    message: str,
    *,
    actor: str = "",
    notify: object = False,
    **data: Any,
) -> Event:
    """An unsaved event, for `Event.objects.bulk_create` in code that handles many at once.
    `notify`: users are notified of it, as they chose; its kind is one of `core.user_events`."""
    return new(
        Event,
        subject_type=subject_type,
        subject_id=str(subject_id),
        kind=kind,
        message=plain(message),
        actor=actor,
        data=plain_data(data),
        notify=bool(notify),
    )


def record(
    subject_type: str,
    subject_id: object,
    kind: str,
    message: str,
    *,
    actor: str = "",
    notify: object = False,
    **data: Any,
) -> None:
    event(subject_type, subject_id, kind, message, actor=actor, notify=notify, **data).save()


def notify(
    kind: str, subject_type: str, subject_id: object, message: str, *, key: str = "", **data: Any
) -> bool:
    """Record an event of `core.user_events` of which users are notified: the owner of a job, the
    VC admins of a virtual cluster, the user. Call it inside the transaction of the change.

    `message` is a sentence for those users. With a `key`, an event of this kind and key of the
    subject is recorded once: returns False when there is one."""
    if kind not in BY_KIND:
        raise KeyError(kind)
    if key:
        same = Event.objects.filter(subject_type=subject_type, subject_id=str(subject_id))
        if same.filter(kind=kind, data__key=key).exists():
            return False
        data["key"] = key
    record(subject_type, subject_id, kind, message, notify=True, **data)
    return True


class Folder:
    """Keeps at most `SKEP_EVENTS_PER_SUBJECT` events of each job, node, user and so on.

    Of a subject with more, the newest three quarters stay as they are. Of the others, those of one
    kind by one person become one row: the newest of them, with their `count` and the time of the
    first (as in Kubernetes). Only subjects with events since the last run are looked at; the first
    run of a process looks at all.
    """

    def __init__(self) -> None:
        self._looked_at = 0  # id of an event

    def fold(self) -> int:
        """Fold what is too much; returns of how many subjects. Two runs at once do no harm."""
        most = settings.SKEP_EVENTS_PER_SUBJECT
        newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
        if most <= 0 or newest <= self._looked_at:
            return 0
        folded = 0
        for subject in self._with_too_many(most, newest):
            for by_actor in (True, False):
                if _count(subject) > most:
                    _fold(subject, most * 3 // 4, by_actor=by_actor)
            folded += 1
        self._looked_at = newest
        return folded

    def _with_too_many(self, most: int, newest: int) -> Iterator[tuple[str, str]]:
        last = ("", "")
        while True:
            found = fetch(SUBJECTS_SINCE, [most, self._looked_at, newest, *last, SUBJECTS])
            yield from ((kind, subject) for kind, subject, is_over in found if is_over)
            if len(found) < SUBJECTS:
                return
            last = found[-1][:2]


# The number is counted for each of them by the index, and no further than it matters.
SUBJECTS_SINCE = """
SELECT s.subject_type, s.subject_id, EXISTS (
           SELECT FROM core_event e
            WHERE e.subject_type = s.subject_type AND e.subject_id = s.subject_id OFFSET %s)
  FROM (SELECT DISTINCT subject_type, subject_id FROM core_event
         WHERE id > %s AND id <= %s AND (subject_type, subject_id) > (%s, %s)
         ORDER BY subject_type, subject_id LIMIT %s) s
 ORDER BY 1, 2
"""

FOLD = """
WITH aged AS (
  SELECT id, kind, actor, at, first_at, count, row_number() OVER (ORDER BY id DESC) AS age
    FROM core_event WHERE subject_type = %s AND subject_id = %s
), old AS (
  SELECT id, max(id) OVER same AS newest, sum(count) OVER same AS total,
         min(coalesce(first_at, at)) OVER same AS first_at
    FROM aged WHERE age > %s
  WINDOW same AS (PARTITION BY kind, CASE WHEN %s THEN actor END)
), gone AS (
  DELETE FROM core_event e USING old WHERE e.id = old.id AND old.id < old.newest
)
UPDATE core_event e SET count = old.total, first_at = old.first_at
  FROM old WHERE e.id = old.newest AND old.id = old.newest AND old.total > e.count
"""


def _count(subject: tuple[str, str]) -> int:
    return Event.objects.filter(subject_type=subject[0], subject_id=subject[1]).count()


def _fold(subject: tuple[str, str], keep: int, *, by_actor: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FOLD, [*subject, keep, by_actor])


def delete_old_events() -> int:
    """Delete events that are older than `SKEP_EVENT_RETENTION_DAYS`; returns how many. Ids rise
    with time, so that the oldest rows are found without an index of their own."""
    days = settings.SKEP_EVENT_RETENTION_DAYS
    if days <= 0:
        return 0
    return delete_oldest(Event, deletion_time() - timedelta(days=days))


def delete_oldest(model: Any, before: Any) -> int:
    """Delete rows of a model whose `at` is before a time, a bounded number at a time and for a
    bounded time; its ids must rise with `at`, about. Returns how many."""
    until, deleted = time.monotonic() + BUDGET_S, 0
    while time.monotonic() < until:
        oldest = model.objects.order_by("id").values_list("id", "at")[:ROWS]
        over = [pk for pk, at in oldest if at < before]
        # Plain SQL deletes: nothing refers to these rows.
        deleted += model.objects.filter(pk__in=over)._raw_delete(model.objects.db) if over else 0
        if len(over) < ROWS:
            break
    return deleted
