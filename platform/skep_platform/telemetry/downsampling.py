"""Rollups of minutes become rollups of hours, and these of days: less and less of what is old.

A row of an hour or a day has the same columns as one of a minute, so that whatever sums up rows
need not know of it; `metrics` takes a step that no row exceeds. All rows of one GPU (or task) and
hour become one in one statement, which deletes them: nothing is counted twice, or lost, by a run
that is killed.

Each resolution has a table of its own, partitioned by months. So a month of minutes, which takes
sixty times the space of its hours, is empty when all of it was merged, and is dropped; in one table
its few hours would keep all of it. What old servers merged lies among the minutes, and is moved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

import structlog
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone

from skep_platform.core.bulk import deletion_time, fetch
from skep_platform.core.database import months

log = structlog.get_logger(__name__)
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
OWNERS = 500  # GPUs or tasks of which one statement makes rows
BUDGET_S = 30.0  # per run; the next one goes on

_GPU_COLUMNS = """attempt_id, device_id, at, seconds, samples, utilization_sum, utilization_max,
       memory_used_mb_max, power_w_sum, power_samples"""
_TASK_COLUMNS = """attempt_id, at, seconds, samples, cpu_percent_sum, cpu_percent_max,
       memory_mb_max, network_rx_bytes, network_tx_bytes, disk_read_bytes, disk_written_bytes,
       byte_samples"""
_BOTH = """(SELECT {columns} FROM telemetry_{kind}rollup
     UNION ALL SELECT {columns} FROM telemetry_{kind}history)"""
# Rows of all resolutions, in the place of a table. Say a range of `at` where one is known: other
# months are not looked at.
GPU_ROWS = _BOTH.format(kind="gpu", columns=_GPU_COLUMNS)
TASK_ROWS = _BOTH.format(kind="task", columns=_TASK_COLUMNS)


def first_row(at: str) -> str:
    """Return SQL for a time before the first row of what began at `at`: rows begin with their day,
    and clocks differ a little."""
    return f"date_trunc('day', {at} - interval '1 hour', 'UTC')"


def last_row(at: str) -> str:
    """Return SQL for a time after the last row of what ended at `at`."""
    return f"{at} + interval '1 hour'"


_MERGE = """
WITH owners AS (
  SELECT DISTINCT owner FROM (
    SELECT {owner} AS owner FROM telemetry_{kind}rollup
     WHERE seconds <= %(coarse)s AND at >= %(since)s AND at < %(until)s
     UNION ALL
    SELECT {owner} FROM telemetry_{kind}history
     WHERE seconds < %(coarse)s AND at >= %(since)s AND at < %(until)s) rows
   LIMIT {owners}
), minutes AS (
  DELETE FROM telemetry_{kind}rollup r USING owners o
   WHERE r.{owner} = o.owner
     AND r.seconds <= %(coarse)s AND r.at >= %(since)s AND r.at < %(until)s
  RETURNING r.*
), hours AS (
  DELETE FROM telemetry_{kind}history r USING owners o
   WHERE r.{owner} = o.owner
     AND r.seconds < %(coarse)s AND r.at >= %(since)s AND r.at < %(until)s
  RETURNING r.*
), gone AS (
  SELECT {columns} FROM minutes UNION ALL SELECT {columns} FROM hours
)
"""

_INSERT_GPUS = """
INSERT INTO {table} AS r (device_id, attempt_id, at, seconds, samples, utilization_sum,
                          utilization_max, memory_used_mb_max, power_w_sum, power_samples)
SELECT device_id, {attempt}, {at}, {seconds}, sum(samples), sum(utilization_sum),
       max(utilization_max), max(memory_used_mb_max), sum(power_w_sum),
       coalesce(sum(coalesce(power_samples, samples)) FILTER (WHERE power_w_sum IS NOT NULL), 0)
  FROM gone GROUP BY device_id, {group}
    ON CONFLICT ({unique}) DO UPDATE
   SET seconds = excluded.seconds,
       samples = r.samples + excluded.samples,
       utilization_sum = r.utilization_sum + excluded.utilization_sum,
       utilization_max = greatest(r.utilization_max, excluded.utilization_max),
       memory_used_mb_max = greatest(r.memory_used_mb_max, excluded.memory_used_mb_max),
       power_w_sum = coalesce(r.power_w_sum + excluded.power_w_sum, excluded.power_w_sum,
                              r.power_w_sum),
       power_samples = coalesce(r.power_samples,
                                CASE WHEN r.power_w_sum IS NULL THEN 0 ELSE r.samples END)
                       + excluded.power_samples
"""
_ONCE = "device_id, at, attempt_id"
GPUS = _MERGE.format(
    kind="gpu", owner="device_id", owners=OWNERS, columns=_GPU_COLUMNS
) + _INSERT_GPUS.format(
    table="telemetry_gpuhistory",
    attempt="attempt_id",
    at="%(since)s",
    seconds="%(coarse)s",
    group="attempt_id",
    unique=f"{_ONCE}, seconds",
)
# In all months: a row that is left would keep the job.
_GONE_OF_JOBS = """
WITH gone AS (
  DELETE FROM {table} r USING jobs_taskattempt a
   WHERE r.attempt_id = a.id AND a.job_id = ANY(%(jobs)s) RETURNING r.*
)
"""
# What GPUs did stays known of them when the jobs that held them are deleted.
GPUS_OF_JOBS = [
    _GONE_OF_JOBS.format(table=table)
    + _INSERT_GPUS.format(
        table=table, attempt="NULL", at="at", seconds=seconds, group=group, unique=unique
    )
    for table, seconds, group, unique in (
        ("telemetry_gpurollup", "max(seconds)", "at", _ONCE),
        ("telemetry_gpuhistory", "seconds", "at, seconds", f"{_ONCE}, seconds"),
    )
]


def _measured(number: int, column: str) -> str:
    """Return how many samples had the bytes of a column. `seconds` is that of the whole hour, also
    where the task ran for a part of it: the share of samples stands for the share of time."""
    seconds = f"seconds * coalesce(byte_samples[{number}], samples)::float8 / nullif(samples, 0)"
    known = f"sum({seconds}) FILTER (WHERE {column} IS NOT NULL)"
    return f"coalesce(round(sum(samples) * {known} / %(coarse)s)::int, 0)"


BYTES = ("network_rx_bytes", "network_tx_bytes", "disk_read_bytes", "disk_written_bytes")
TASKS = (
    _MERGE.format(kind="task", owner="attempt_id", owners=OWNERS, columns=_TASK_COLUMNS)
    + f"""
INSERT INTO telemetry_taskhistory AS r (attempt_id, at, seconds, samples, cpu_percent_sum,
                                        cpu_percent_max, memory_mb_max, {", ".join(BYTES)},
                                        byte_samples)
SELECT attempt_id, %(since)s, %(coarse)s, sum(samples), sum(cpu_percent_sum),
       max(cpu_percent_max), max(memory_mb_max), {", ".join(f"sum({name})" for name in BYTES)},
       ARRAY[{", ".join(_measured(i, name) for i, name in enumerate(BYTES, 1))}]
  FROM gone GROUP BY attempt_id
    ON CONFLICT (attempt_id, at, seconds) DO UPDATE
   SET seconds = excluded.seconds,
       samples = r.samples + excluded.samples,
       cpu_percent_sum = r.cpu_percent_sum + excluded.cpu_percent_sum,
       cpu_percent_max = greatest(r.cpu_percent_max, excluded.cpu_percent_max),
       memory_mb_max = greatest(r.memory_mb_max, excluded.memory_mb_max),
       {", ".join(f"{n} = coalesce(r.{n} + excluded.{n}, excluded.{n}, r.{n})" for n in BYTES)},
       byte_samples = ARRAY[{
        ", ".join(
            f"coalesce(r.byte_samples[{i}], r.samples) + excluded.byte_samples[{i}]"
            for i in range(1, len(BYTES) + 1)
        )
    }]
"""  # noqa: S608 no values
)
KINDS = {"gpu": GPUS, "task": TASKS}


class Resolution(NamedTuple):
    """A table with rows of one resolution, and the columns of the index by which its oldest are
    found. Where old servers merged, that of minutes has all of them."""

    table: str
    seconds: tuple[int, ...]
    order: str


def levels(kind: str) -> tuple[Resolution, Resolution, Resolution]:
    """Return the tables of GPUs ("gpu") or tasks ("task"), the finest first."""
    name = f"telemetry_{kind}"
    return (
        Resolution(f"{name}rollup", (MINUTE_S, HOUR_S, DAY_S), "seconds, at"),
        Resolution(f"{name}hours", (HOUR_S,), "at"),
        Resolution(f"{name}days", (DAY_S,), "at"),
    )


def steps() -> Iterator[tuple[int, float]]:
    """Return the resolutions that older rows have, in seconds, each with the days after which a row
    becomes one of it."""
    minutes = settings.SKEP_METRIC_RETENTION_DAYS
    if minutes <= 0:
        return
    hours, days = settings.SKEP_METRIC_HOURLY_DAYS, settings.SKEP_METRIC_DAILY_DAYS
    if hours > minutes:
        yield HOUR_S, minutes
    if days > max(minutes, hours):
        yield DAY_S, max(minutes, hours)


def kept_days() -> float:
    """Return after how many days rollups are deleted, whatever their resolution; 0: never."""
    minutes = settings.SKEP_METRIC_RETENTION_DAYS
    longest = max(minutes, settings.SKEP_METRIC_HOURLY_DAYS, settings.SKEP_METRIC_DAILY_DAYS)
    return longest if minutes > 0 else 0


def coarsest(since: datetime) -> int:
    """Return the largest number of seconds that a row of that time, or of later ones, may have."""
    found = MINUTE_S
    age = (timezone.now() - since).total_seconds() / DAY_S
    for seconds, days in steps():
        # A row becomes a part of a larger one as soon as all of that is old enough.
        if age >= days:
            found = seconds
    return found


def merge_old() -> int:
    """Make the rows whose time has come coarser, oldest first, for a bounded time. Return the
    number of rows that were written. Two runs at once do no harm: what one deletes, the other does
    not find."""
    until, written = time.monotonic() + BUDGET_S, 0
    for coarse, days in reversed(list(steps())):  # so that what is very old becomes days at once
        before = deletion_time() - timedelta(days=days)
        for kind, statement in KINDS.items():
            made: set[datetime] = set()
            while time.monotonic() < until and (since := _oldest(kind, coarse, before)):
                month = months.month_after(since, 0)
                if month not in made and not _add_month(kind, coarse, since):
                    break
                made.add(month)
                end = since + timedelta(seconds=coarse)
                with connection.cursor() as cursor:
                    cursor.execute(statement, {"coarse": coarse, "since": since, "until": end})
                    written += cursor.rowcount
    return written


def _add_month(kind: str, coarse: int, since: datetime) -> bool:
    """Make the partition for merged rows. Returns whether it can go on: rows that came into the
    default partition would keep the month from being made later."""
    [table] = [level.table for level in levels(kind)[1:] if level.seconds == (coarse,)]
    try:
        months.add(table, since)
    except OperationalError as error:
        log.warning("month_not_made", table=table, error=str(error)[:200])
        return False
    return True


def delete_older(before: datetime) -> int:
    """Delete all rows that are older, oldest first, for a bounded time; return how many. Months
    that are older as a whole are dropped before, see `drop_old_months`."""
    until, deleted = time.monotonic() + BUDGET_S, 0
    for kind in KINDS:
        for table, resolutions, _ in levels(kind):
            for seconds in resolutions:
                while time.monotonic() < until and (oldest := _first(table, seconds, before)):
                    end = min(oldest + timedelta(seconds=seconds), before)
                    with connection.cursor() as cursor:
                        cursor.execute(
                            f"DELETE FROM {table} "  # noqa: S608
                            "WHERE seconds = %s AND at >= %s AND at < %s",
                            [seconds, oldest, end],
                        )
                        deleted += cursor.rowcount
    return deleted


def add_months() -> int:
    """Create the partitions of minutes for this month and the next ones. Returns how many."""
    tables = [levels(kind)[0].table for kind in KINDS]
    return sum(months.add(table, timezone.now(), months.MONTHS_AHEAD) for table in tables)


def drop_old_months() -> list[str]:
    """Drop the partitions that are older than all that is kept, and those whose rows were all
    merged. Returns their names; none where rows are kept for ever."""
    kept = kept_days()
    if kept <= 0:
        return []
    now = deletion_time()
    merged = dict(steps())
    after = (min(merged.values(), default=kept), merged.get(DAY_S, kept), kept)
    dropped = []
    for kind in KINDS:
        for (table, _, order), days in zip(levels(kind), after, strict=True):
            for part in months.parts(table):
                if part.until <= now - timedelta(days=kept):
                    is_dropped = months.drop(table, part.name)
                elif part.until <= now - timedelta(days=days):
                    is_dropped = months.drop(table, part.name, partial(months.is_empty, order))
                else:
                    is_dropped = False
                if is_dropped:
                    dropped.append(part.name)
    return dropped


def forget_jobs(jobs: Sequence[UUID]) -> None:
    """Make the rows of GPUs that these jobs held rows of the GPUs alone: within the transaction
    that deletes the jobs."""
    with connection.cursor() as cursor:
        for statement in GPUS_OF_JOBS:
            cursor.execute(statement, {"jobs": list(jobs)})


def _oldest(kind: str, coarse: int, before: datetime) -> datetime | None:
    """Return the beginning of the oldest hour (or day) that is over and has finer rows."""
    minutes, hours, _ = levels(kind)
    sources = [(minutes.table, seconds) for seconds in minutes.seconds if seconds <= coarse]
    if coarse > HOUR_S:
        sources.append((hours.table, HOUR_S))
    found = [_first(table, seconds, before) for table, seconds in sources]
    oldest = min(filter(None, found), default=None)
    if oldest is None:
        return None
    since = datetime.fromtimestamp(oldest.timestamp() // coarse * coarse, UTC)
    return since if since + timedelta(seconds=coarse) <= before else None


def _first(table: str, seconds: int, before: datetime) -> datetime | None:
    [(found,)] = fetch(
        f"SELECT min(at) FROM {table} WHERE seconds = %s AND at < %s",  # noqa: S608
        [seconds, before],
    )
    return found
