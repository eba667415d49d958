"""Rollups of minutes become rollups of hours, and these of days: less and less of what is old.

A row of an hour or a day has the same columns as one of a minute, so that whatever sums up rows
need not know of it; `metrics` takes a step that no row exceeds. All rows of one GPU (or task) and
hour become one in one statement, which deletes them: nothing is counted twice, or lost, by a run
that is killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.utils import timezone

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
OWNERS = 500  # GPUs or tasks of which one statement makes rows
BUDGET_S = 30.0  # per run; the next one goes on

_MERGE = """
WITH owners AS (
  SELECT DISTINCT {owner} AS owner FROM {table}
   WHERE seconds < %(coarse)s AND at >= %(since)s AND at < %(until)s LIMIT {owners}
), gone AS (
  DELETE FROM {table} r USING owners o
   WHERE r.{owner} = o.owner
     AND r.seconds < %(coarse)s AND r.at >= %(since)s AND r.at < %(until)s
  RETURNING r.*
)
"""

_INSERT_GPUS = """
INSERT INTO telemetry_gpurollup AS r (device_id, attempt_id, at, seconds, samples, utilization_sum,
                                      utilization_max, memory_used_mb_max, power_w_sum,
                                      power_samples)
SELECT device_id, {attempt}, {at}, {seconds}, sum(samples), sum(utilization_sum),
       max(utilization_max), max(memory_used_mb_max), sum(power_w_sum),
       coalesce(sum(coalesce(power_samples, samples)) FILTER (WHERE power_w_sum IS NOT NULL), 0)
  FROM gone GROUP BY device_id, {group}
    ON CONFLICT (device_id, at, attempt_id) DO UPDATE
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
GPUS = _MERGE.format(
    table="telemetry_gpurollup", owner="device_id", owners=OWNERS
) + _INSERT_GPUS.format(
    attempt="attempt_id", at="%(since)s", seconds="%(coarse)s", group="attempt_id"
)
# What GPUs did stays known of them when the jobs that held them are deleted.
GPUS_OF_JOBS = """
WITH gone AS (
  DELETE FROM telemetry_gpurollup r USING jobs_taskattempt a
   WHERE r.attempt_id = a.id AND a.job_id = ANY(%(jobs)s) RETURNING r.*
)
""" + _INSERT_GPUS.format(attempt="NULL", at="at", seconds="max(seconds)", group="at")  # noqa: S608


def _measured(number: int, column: str) -> str:
    """Return how many samples had the bytes of a column. `seconds` is that of the whole hour, also
    where the task ran for a part of it: the share of samples stands for the share of time."""
    seconds = f"seconds * coalesce(byte_samples[{number}], samples)::float8 / nullif(samples, 0)"
    known = f"sum({seconds}) FILTER (WHERE {column} IS NOT NULL)"
    return f"coalesce(round(sum(samples) * {known} / %(coarse)s)::int, 0)"


BYTES = ("network_rx_bytes", "network_tx_bytes", "disk_read_bytes", "disk_written_bytes")
TASKS = (
    _MERGE.format(table="telemetry_taskrollup", owner="attempt_id", owners=OWNERS)
    + f"""
INSERT INTO telemetry_taskrollup AS r (attempt_id, at, seconds, samples, cpu_percent_sum,
                                       cpu_percent_max, memory_mb_max, {", ".join(BYTES)},
                                       byte_samples)
SELECT attempt_id, %(since)s, %(coarse)s, sum(samples), sum(cpu_percent_sum),
       max(cpu_percent_max), max(memory_mb_max), {", ".join(f"sum({name})" for name in BYTES)},
       ARRAY[{", ".join(_measured(i, name) for i, name in enumerate(BYTES, 1))}]
  FROM gone GROUP BY attempt_id
    ON CONFLICT (attempt_id, at) DO UPDATE
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
TABLES = {"telemetry_gpurollup": GPUS, "telemetry_taskrollup": TASKS}


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
    for coarse, days in steps():
        before = timezone.now() - timedelta(days=days)
        for table, statement in TABLES.items():
            while time.monotonic() < until and (since := _oldest(table, coarse, before)):
                end = since + timedelta(seconds=coarse)
                with connection.cursor() as cursor:
                    cursor.execute(statement, {"coarse": coarse, "since": since, "until": end})
                    written += cursor.rowcount
    return written


def forget_jobs(jobs: Sequence[UUID]) -> None:
    """Make the rows of GPUs that these jobs held rows of the GPUs alone: within the transaction
    that deletes the jobs."""
    with connection.cursor() as cursor:
        cursor.execute(GPUS_OF_JOBS, {"jobs": list(jobs)})


def _oldest(table: str, coarse: int, before: datetime) -> datetime | None:
    """Return the beginning of the oldest hour (or day) that is over and has finer rows."""
    oldest = None
    with connection.cursor() as cursor:
        for finer in (MINUTE_S, HOUR_S):
            if finer < coarse:
                cursor.execute(
                    f"SELECT min(at) FROM {table} WHERE seconds = %s AND at < %s",  # noqa: S608
                    [finer, before],
                )
                [(found,)] = cursor.fetchall()
                oldest = min(filter(None, (oldest, found)), default=None)
    if oldest is None:
        return None
    since = datetime.fromtimestamp(oldest.timestamp() // coarse * coarse, UTC)
    return since if since + timedelta(seconds=coarse) <= before else None
