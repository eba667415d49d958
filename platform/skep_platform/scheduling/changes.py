"""Reading the change log: what has changed since the last look, whatever order it committed in.

A transaction may write its rows early and commit late, so neither ids nor times tell what is new.
Transaction ids do: all below PostgreSQL's `pg_snapshot_xmin` have ended, so a reader that keeps
this number reads every row from it on the next time, and skips those it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connection

from skep_platform.scheduling.models import Change

KEEP = timedelta(minutes=10)  # a reader that looks less often reads everything anew


@dataclass(slots=True)
class News:
    """Subjects that have changed, by kind; `all` when the log cannot tell."""

    nodes: set[str] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)
    inventory: bool = False
    all: bool = False

    def __bool__(self) -> bool:
        return bool(self.nodes or self.gangs or self.inventory or self.all)

    def add(self, kind: str, subject: str) -> None:
        if kind == Change.Kind.GANG:
            self.gangs.add(subject)
        elif kind == Change.Kind.NODE:
            self.nodes.add(subject)
        elif kind == Change.Kind.INVENTORY:
            self.inventory = True
        else:
            self.all = True


class Reader:
    """One reader's place in the log. Its first look finds `all`."""

    def __init__(self) -> None:
        self._horizon: int | None = None
        self._seen: set[int] = set()  # rows of transactions at or above the horizon
        self._writer: int | None = None

    def look(self) -> News:
        """One query. What is read from the tables afterwards is at least as new as what it tells.

        A look inside a transaction that has written sees what may be rolled back; the next look
        from outside of it finds `all`."""
        with connection.cursor() as cursor:
            cursor.execute(LOOK, [self._horizon])
            rows = cursor.fetchall()
        horizon, writer, pruned = rows[0][:3]
        lost = self._horizon is None or self._horizon < pruned
        news = News(all=lost or self._writer not in (None, writer))
        told = [row[3:] for row in rows if row[3] is not None]
        for pk, _, kind, subject in told:
            if pk not in self._seen:
                news.add(kind, subject)
        self._seen = {pk for pk, txid, _, _ in told if txid >= horizon}
        self._horizon, self._writer = horizon, writer
        return news


# One statement, one snapshot: the horizon is that of the rows.
LOOK = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       pg_current_xact_id_if_assigned()::text::bigint,
       COALESCE((SELECT max(txid) FROM scheduling_change WHERE kind = 'pruned'), 0),
       c.id, c.txid, c.kind, c.subject
  FROM (SELECT 1) AS once
  LEFT JOIN scheduling_change c
    ON c.txid >= COALESCE(%s, pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
   AND c.kind <> 'pruned'
"""


def prune(keep: timedelta = KEEP) -> int:
    """Delete what is older; returns the number of rows. Readers behind it begin anew."""
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, [keep.total_seconds()])
        return int(cursor.rowcount)


# Transactions that still run are kept, however old their rows are.
PRUNE = """
WITH mark AS (
    SELECT least(max(txid) + 1, pg_snapshot_xmin(pg_current_snapshot())::text::bigint) AS txid
      FROM scheduling_change
     WHERE at < clock_timestamp() - make_interval(secs => %s) AND kind <> 'pruned'
    HAVING count(*) > 0
), marked AS (
    INSERT INTO scheduling_change (txid, kind, subject, at)
    SELECT txid, 'pruned', '', clock_timestamp() FROM mark
)
DELETE FROM scheduling_change c USING mark WHERE c.txid < mark.txid
"""
