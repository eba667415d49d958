"""Counting GPU time: from the leases, by job and day, into the rows of `UsageDay`.

A lease is counted until `Lease.counted_until`, and for good once that equals its end. A round reads
only leases that are not counted for good, whatever the clocks say and in whatever order the
transactions commit: a flag in the row cannot be overtaken as a time could be. It computes the days
of their jobs anew instead of adding to them, so a round that died, ran twice or ran while another
one did changes nothing.

Times are those of the database, which dates the leases. A lease that ends before it begins, because
its clock was set back, counts as no time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from skep_platform.core.bulk import deletion_time, fetch
from skep_platform.telemetry.downsampling import GPU_ROWS

LOCK = 0x5CEE  # of PostgreSQL's advisory locks: one round at a time
LEASES = 5000  # looked at in one transaction
BUDGET_S = 40.0  # of one round; the next one goes on
ROWS = 5000  # of days, merged or deleted in one transaction: who counts waits for it
# By then all samples of a lease that has ended are stored, also those of a server that was busy.
SETTLE = timedelta(minutes=5)
DAY_SETTLE = timedelta(hours=1)  # after its end a day of a lease that goes on is counted for good


@dataclass(slots=True)
class _Due:
    """A job with leases that are not counted for good."""

    job: UUID
    since: datetime  # what is before it is counted for good
    held: bool  # one of its leases has not ended
    leases: list[int]
    starts: list[datetime]
    counted: list[datetime | None]
    ends: list[datetime | None]

    @property
    def first_day(self) -> date:
        return self.since.astimezone(UTC).date()

    def has_settled(self, now: datetime) -> bool:
        return not self.held and all(end is None or end <= now - SETTLE for end in self.ends)

    def counted_until(self, now: datetime) -> Iterator[tuple[int, datetime]]:
        """Return until when each lease is counted for good, after its use was measured at `now`."""
        midnight = (
            (now - DAY_SETTLE).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        )
        rows = zip(self.leases, self.starts, self.counted, self.ends, strict=True)
        for lease, start, counted, end in rows:
            if end is not None and end <= now - SETTLE:
                yield lease, end
            elif end is None and midnight > max(start, counted or start):
                yield lease, midnight


def count(now: datetime | None = None, *, measure: bool = False) -> int:
    """Count all leases that are not counted for good, up to `now`, by default that of the database;
    return the number of jobs.

    `measure`: also read the samples of jobs that hold GPUs, which costs a row for each minute and
    GPU since midnight. Those of jobs that have ended are always read, once."""
    last, jobs, end = 0, 0, time.monotonic() + BUDGET_S
    while time.monotonic() < end:
        found = _count_some(last, now, measure)
        if found is None:
            break
        last, some = found
        jobs += some
    return jobs


@transaction.atomic
def _count_some(after: int, until: datetime | None, measure: bool) -> tuple[int, int] | None:
    """Count the jobs of the next leases after an id. Return the last id and the number of jobs;
    None when there are no more, or another process counts."""
    [(free, now)] = fetch("SELECT pg_try_advisory_xact_lock(%s), statement_timestamp()", [LOCK])
    if not free:
        return None
    now = until or now
    [(last, ids)] = fetch(NEXT, [after, LEASES])
    if not ids:
        return None
    due = [_Due(*row) for row in fetch(DUE, [now, ids])]
    measured = [job for job in due if measure or job.has_settled(now)]
    _write([job for job in due if not (measure or job.has_settled(now))], now, SUMS)
    _write(measured, now, MEASURED_SUMS)
    _mark([row for job in measured for row in job.counted_until(now)])
    return last, len(due)


def _write(due: Sequence[_Due], now: datetime, sql: str) -> None:
    if due:
        values: dict[str, Any] = {
            "jobs": [job.job for job in due],
            "days": [job.first_day for job in due],
            "now": now,
        }
        with connection.cursor() as cursor:
            cursor.execute(sql, values)


def _mark(rows: Sequence[tuple[int, datetime]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(MARK, [list(column) for column in zip(*rows, strict=True)])


UNCOUNTED = "(released_at IS NULL OR counted_until IS NULL OR counted_until <> released_at)"

NEXT = f"""
SELECT max(id), array_agg(DISTINCT job_id)
  FROM (SELECT l.id, a.job_id
          FROM (SELECT id, attempt_id FROM jobs_lease
                 WHERE {UNCOUNTED} AND id > %s ORDER BY id LIMIT %s) l
          JOIN jobs_taskattempt a ON a.id = l.attempt_id) next
"""  # noqa: S608 no values

# The clock of the database may have been set back between the start, a count and the end.
DUE = f"""
SELECT a.job_id, min(least(coalesce(l.counted_until, l.acquired_at),
                           coalesce(l.released_at, %s::timestamptz))),
       bool_or(l.released_at IS NULL), array_agg(l.id), array_agg(l.acquired_at),
       array_agg(l.counted_until), array_agg(l.released_at)
  FROM jobs_taskattempt a
  JOIN (SELECT * FROM jobs_lease WHERE {UNCOUNTED}) l ON l.attempt_id = a.id
 WHERE a.job_id = ANY(%s::uuid[])
 GROUP BY 1
"""  # noqa: S608 no values

# Who releases a lease meanwhile is not waited for: the next round marks it.
MARK = """
WITH given AS (
    SELECT * FROM unnest(%s::bigint[], %s::timestamptz[]) rows(id, until)
), free AS (
    SELECT l.id, g.until FROM jobs_lease l JOIN given g ON g.id = l.id
     ORDER BY l.id FOR UPDATE OF l SKIP LOCKED
)
UPDATE jobs_lease l SET counted_until = f.until FROM free f WHERE l.id = f.id
"""

# Pieces of leases that lie within one day and one rank of their job.
PIECES = """
WITH given AS (
    SELECT id, first_day, first_day::timestamp AT TIME ZONE 'UTC' AS since
      FROM unnest(%(jobs)s::uuid[], %(days)s::date[]) AS jobs(id, first_day)
), held AS (
    SELECT a.job_id, a.index, a.id AS attempt_id, l.device_id, a.gpu_model,
           a.cell_type <> '' AS owned, greatest(l.acquired_at, g.since) AS since,
           coalesce(l.released_at, %(now)s::timestamptz) AS until
      FROM given g
      JOIN jobs_taskattempt a ON a.job_id = g.id
      JOIN jobs_lease l ON l.attempt_id = a.id
     WHERE coalesce(l.released_at, %(now)s::timestamptz) > greatest(l.acquired_at, g.since)
), changes AS (
    SELECT c.* FROM jobs_rankchange c JOIN given g ON g.id = c.job_id
), ranks AS (
    SELECT job_id, index, at AS since, guaranteed,
           lead(at, 1, 'infinity') OVER (PARTITION BY job_id, index ORDER BY at, id) AS until
      FROM changes
     UNION ALL
    SELECT job_id, index, '-infinity', NULL, min(at) FROM changes GROUP BY 1, 2
), pieces AS (
    SELECT h.job_id, h.attempt_id, h.device_id, h.gpu_model, d.day::date,
           coalesce(r.guaranteed, h.owned) AS guaranteed,
           greatest(h.since, r.since, d.day AT TIME ZONE 'UTC') AS since,
           least(h.until, r.until, (d.day + interval '1 day') AT TIME ZONE 'UTC') AS until
      FROM held h
      LEFT JOIN ranks r ON r.job_id = h.job_id AND r.index = h.index
     CROSS JOIN LATERAL generate_series(date_trunc('day', h.since AT TIME ZONE 'UTC'),
                                        h.until AT TIME ZONE 'UTC', interval '1 day') d(day)
)"""

MICROSECONDS = "(1000000 * extract(epoch FROM {}))::bigint"

# Each bucket counts as much as of it lies within the piece.
INSIDE = MICROSECONDS.format(
    "least(p.until, b.at + make_interval(secs => b.seconds)) - greatest(p.since, b.at)"
)
MEASURED = f"""
 LEFT JOIN LATERAL (
     SELECT sum(inside) AS known, sum(inside * percent / 100) AS used
       FROM (SELECT {INSIDE} AS inside, least(b.utilization_sum / b.samples, 100) AS percent
               FROM {GPU_ROWS} b
              WHERE b.device_id = p.device_id AND b.attempt_id = p.attempt_id
                AND b.at < p.until AND b.at >= date_trunc('day', p.since AT TIME ZONE 'UTC')
                                                  AT TIME ZONE 'UTC'
                AND b.at + make_interval(secs => b.seconds) > p.since
                AND b.samples > 0) buckets) m ON true"""  # noqa: S608 no values


def _statement(measured: bool) -> str:
    """Return the statement that writes the days of jobs. Without `measured` it leaves alone what
    is known of their use."""
    columns = ("allocated_us", "used_us", "known_us") if measured else ("allocated_us",)
    old = ", ".join(f"u.{column}" for column in columns)
    new = ", ".join(f"excluded.{column}" for column in columns)
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
    use = "coalesce(sum(m.used), 0)::bigint, coalesce(sum(m.known), 0)::bigint"
    return f"""{PIECES}, sums AS (
    SELECT p.job_id, p.day, p.gpu_model, p.guaranteed,
           sum({MICROSECONDS.format("p.until - p.since")})::bigint AS allocated,
           {use if measured else "0, 0"}
      FROM pieces p{MEASURED if measured else ""}
     WHERE p.until > p.since
     GROUP BY 1, 2, 3, 4
), gone AS (
    DELETE FROM usage_usageday u USING given g
     WHERE u.job_id = g.id AND u.day >= g.first_day
       AND (u.job_id, u.day, u.gpu_model, u.guaranteed) NOT IN (
           SELECT job_id, day, gpu_model, guaranteed FROM sums)
)
INSERT INTO usage_usageday AS u (user_id, vc_id, job_id, day, gpu_model, guaranteed, allocated_us,
                                 used_us, known_us)
SELECT j.owner_id, j.vc_id, s.* FROM sums s JOIN jobs_job j ON j.id = s.job_id
    ON CONFLICT (job_id, day, gpu_model, guaranteed, vc_id, user_id) DO UPDATE
   SET {changes}
 WHERE ({old}) IS DISTINCT FROM ({new})
"""  # noqa: S608 no values


SUMS, MEASURED_SUMS = _statement(measured=False), _statement(measured=True)


def merge_old_days(today: date | None = None) -> int:
    """Merge the rows of days that are older than `SKEP_USAGE_JOB_RETENTION_DAYS` into one for each
    user, virtual cluster, model and class; return of how many days. 0: never."""
    days = settings.SKEP_USAGE_JOB_RETENTION_DAYS
    if days <= 0:
        return 0
    before = (today or deletion_time().astimezone(UTC).date()) - timedelta(days=days)
    end, merged, day = time.monotonic() + BUDGET_S, 0, None
    while time.monotonic() < end:
        with transaction.atomic():
            wait_for_count()
            if day is None:
                [(day,)] = fetch(OLDEST, [before])
            if day is None:
                break
            [(rows,)] = fetch(MERGE, [day, ROWS])
        if rows < ROWS:
            day, merged = None, merged + 1
    return merged


OLDEST = "SELECT min(day) FROM usage_usageday WHERE job_id IS NOT NULL AND day < %s::date"

# The number of the rows that were merged. Materialized: PostgreSQL may run a subquery once for each
# row, with a limit of its own each time.
_MERGE = """
WITH old AS MATERIALIZED (
    SELECT id FROM usage_usageday WHERE {}
), gone AS (
    DELETE FROM usage_usageday d USING old WHERE d.id = old.id RETURNING d.*
), merged AS (
    INSERT INTO usage_usageday AS u (day, job_id, user_id, vc_id, gpu_model, guaranteed,
                                     allocated_us, used_us, known_us)
    SELECT day, NULL, user_id, vc_id, gpu_model, guaranteed, sum(allocated_us)::bigint,
           sum(used_us)::bigint, sum(known_us)::bigint
      FROM gone GROUP BY 1, 3, 4, 5, 6
        ON CONFLICT (job_id, day, gpu_model, guaranteed, vc_id, user_id) DO UPDATE
       SET allocated_us = u.allocated_us + excluded.allocated_us,
           used_us = u.used_us + excluded.used_us, known_us = u.known_us + excluded.known_us
)
SELECT count(*) FROM gone
"""
MERGE = _MERGE.format("day = %s::date AND job_id IS NOT NULL LIMIT %s")
MERGE_JOBS = _MERGE.format("job_id = ANY(%s::uuid[])")


def merge_jobs(jobs: Sequence[UUID]) -> None:
    """Merge the rows of these jobs, which are about to be deleted, into those of their users: no
    sum changes. Call `wait_for_count` first, before their rows are locked."""
    fetch(MERGE_JOBS, [list(jobs)])


def delete_old_days(today: date | None = None) -> int:
    """Delete days that are older than `SKEP_USAGE_RETENTION_DAYS`, oldest first and for a bounded
    time; return how many rows. 0: keep all of them."""
    days = settings.SKEP_USAGE_RETENTION_DAYS
    if days <= 0:
        return 0
    before = (today or deletion_time().astimezone(UTC).date()) - timedelta(days=days)
    end, deleted = time.monotonic() + BUDGET_S, 0
    for statement, counts in ((OLD_DAYS, 1), (EMPTY, 0)):
        rows = ROWS
        while rows == ROWS and time.monotonic() < end:
            with transaction.atomic(), connection.cursor() as cursor:
                wait_for_count()
                cursor.execute(statement, [before, ROWS])
                rows = int(cursor.rowcount)
            deleted += rows * counts
    return deleted


_DELETE = """
WITH old AS MATERIALIZED (SELECT id FROM {table} WHERE day < %s::date {more} ORDER BY day LIMIT %s)
DELETE FROM {table} d USING old WHERE d.id = old.id
"""
OLD_DAYS = _DELETE.format(table="usage_usageday", more="")
EMPTY = _DELETE.format(table="usage_usagerollup", more="AND allocated_us = 0")


def wait_for_count() -> None:
    """Let one transaction at a time change the sums of days."""
    fetch("SELECT pg_advisory_xact_lock(%s)", [LOCK])
