"""Rollups lie in partitions by month; those that are empty or old are dropped whole."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
import time_machine
from django.db import connection, connections
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from tests.support.clocks import every_clock_at
from tests.support.gateway_rows import running_attempt

from skep_platform.core.bulk import fetch
from skep_platform.core.database import months
from skep_platform.jobs.models import TaskAttempt
from skep_platform.telemetry import downsampling, metrics, ranks, tasks
from skep_platform.telemetry.models import GpuHistory, GpuRollup, TaskHistory, TaskRollup

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
START = datetime(2040, 1, 31, 22, tzinfo=UTC)  # no month was made then


@pytest.fixture(autouse=True)
def windows(settings):
    settings.SKEP_METRIC_RETENTION_DAYS = 10
    settings.SKEP_METRIC_HOURLY_DAYS = 40
    settings.SKEP_METRIC_DAILY_DAYS = 100


def run(at: datetime) -> None:
    """The periodic task at that time. It drops what the same transaction has inserted only after
    keys were checked."""
    connection.check_constraints()
    with every_clock_at(at, tick=False):
        tasks.delete_old_rollups()
    connection.check_constraints()


def minutes(
    at: datetime, count: int, attempt: TaskAttempt | None = None, every_s: int = 60
) -> TaskAttempt:
    """An attempt that was measured in so many minutes from a time on."""
    attempt = attempt or running_attempt(gpus=1)
    moments = [at + timedelta(seconds=every_s * number) for number in range(count)]
    GpuRollup.objects.bulk_create(
        GpuRollup(
            device_id=attempt.gpu_uuids[0], attempt=attempt, at=moment, seconds=60, samples=12,
            utilization_sum=600, utilization_max=50, memory_used_mb_max=100, power_samples=0,
        )
        for moment in moments
    )  # fmt: skip
    TaskRollup.objects.bulk_create(
        TaskRollup(
            attempt=attempt, at=moment, seconds=60, samples=12, cpu_percent_sum=1200,
            cpu_percent_max=100, memory_mb_max=100,
        )
        for moment in moments
    )  # fmt: skip
    return attempt


def places(table: str) -> dict[str, int]:
    """Return the number of rows by partition."""
    return Counter(name for (name,) in fetch(f"SELECT tableoid::regclass::text FROM {table}"))


def samples() -> int:
    found = [m.objects.aggregate(n=Sum("samples"))["n"] or 0 for m in (GpuRollup, GpuHistory)]
    return sum(found)


def names(table: str) -> list[str]:
    return [part.name for part in months.parts(table)]


def test_rows_lie_in_their_month_and_months_are_made_ahead():
    run(START)
    minutes(START, 240)
    assert places("telemetry_gpurollup") == {
        "telemetry_gpurollup_2040_01": 120,
        "telemetry_gpurollup_2040_02": 120,
    }
    assert places("telemetry_taskrollup") == {
        "telemetry_taskrollup_2040_01": 120,
        "telemetry_taskrollup_2040_02": 120,
    }
    assert "telemetry_gpurollup_2040_03" in names("telemetry_gpurollup")
    with CaptureQueriesContext(connection) as queries, time_machine.travel(START, tick=False):
        assert downsampling.add_months() == 0
    assert len(queries) == 2


def test_a_month_of_minutes_is_dropped_when_all_of_it_was_merged():
    run(START)
    minutes(START, 240)
    before = samples()
    run(START + 9 * DAY)
    assert places("telemetry_gpurollup")["telemetry_gpurollup_2040_01"] == 120
    run(START + 12 * DAY)
    run(START + 12 * DAY)
    assert samples() == before
    assert not GpuRollup.objects.exists()
    assert not TaskRollup.objects.exists()
    assert places("telemetry_gpuhistory") == {
        "telemetry_gpuhours_2040_01": 2,
        "telemetry_gpuhours_2040_02": 2,
    }
    assert TaskHistory.objects.count() == 4
    for kind in ("gpu", "task"):
        left = names(f"telemetry_{kind}rollup")
        assert f"telemetry_{kind}rollup_2040_01" not in left
        assert f"telemetry_{kind}rollup_2040_02" in left, "it goes on"


def test_hours_become_days_and_the_oldest_months_are_dropped():
    minutes(START, 240)
    before = samples()
    for days in (12, 42, 73):
        run(START + days * DAY)
        assert samples() == before
    assert places("telemetry_gpuhistory") == {
        "telemetry_gpudays_2040_01": 1,
        "telemetry_gpudays_2040_02": 1,
    }
    assert not {n for n in names("telemetry_gpuhours") if n < "telemetry_gpuhours_2040_03"}
    run(START + 101 * DAY)
    assert names("telemetry_gpudays") == ["telemetry_gpudays_2040_02"], "not all of it is that old"
    run(START + 131 * DAY)
    assert names("telemetry_gpudays") == names("telemetry_taskdays") == []
    assert not GpuHistory.objects.exists()


def test_rows_outside_of_all_months_are_found_merged_and_deleted():
    """As after months without the task, or of a node's clock that is wrong."""
    attempt = minutes(START, 120)
    assert places("telemetry_gpurollup") == {"telemetry_gpurollup_default": 120}
    run(START + DAY)
    minutes(START + timedelta(hours=2), 60, attempt)
    before = samples()
    run(START + 12 * DAY)
    assert samples() == before
    assert places("telemetry_gpuhistory").keys() == {
        "telemetry_gpuhours_2040_01",
        "telemetry_gpuhours_2040_02",
    }
    minutes(START, 1, attempt)  # the month is gone by now
    run(START + 12 * DAY)
    run(START + 12 * DAY)
    assert samples() == before + 12
    minutes(START - 300 * DAY, 1, attempt)
    run(START + 12 * DAY)
    assert samples() == before + 12


def test_hours_that_old_servers_merge_into_the_table_of_minutes_are_moved():
    attempt = minutes(START, 1)
    for model in (GpuRollup, TaskRollup):
        row = model.objects.get()
        row.pk, row.at, row.seconds = None, START - timedelta(hours=3), 3600
        row.save(force_insert=True)
    run(START + 12 * DAY)
    assert not GpuRollup.objects.exists()
    assert not TaskRollup.objects.exists()
    found = GpuHistory.objects.filter(attempt=attempt).order_by("at")
    assert [(row.at, row.seconds, row.samples) for row in found] == [
        (START - timedelta(hours=3), 3600, 12),
        (START, 3600, 12),
    ]


def test_without_a_limit_no_month_is_dropped(settings):
    settings.SKEP_METRIC_RETENTION_DAYS = 0
    run(START)
    minutes(START, 10)
    run(START + 1000 * DAY)
    assert GpuRollup.objects.count() == 10
    assert "telemetry_gpurollup_2040_02" in names("telemetry_gpurollup")


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_merge_each_row_once():
    for _ in range(4):
        minutes(START, 240)
    for kind in downsampling.KINDS:  # who waits for a lock of these leaves the rest to the next run
        months.add(f"telemetry_{kind}hours", START, ahead=1)
    before, start = samples(), Barrier(2)

    def merge() -> int:
        try:
            start.wait()
            return downsampling.merge_old()
        finally:
            connections.close_all()

    try:
        with every_clock_at(START + 20 * DAY), ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(merge) for _ in range(2)]
            assert sum(found.result() for found in runs) >= 2 * 4 * 4
        assert samples() == before
        assert GpuHistory.objects.count() == TaskHistory.objects.count() == 16
    finally:
        drop_all()


@pytest.mark.django_db(transaction=True)
def test_a_month_that_is_read_is_left_to_the_next_run(settings):
    with time_machine.travel(START, tick=False):
        downsampling.add_months()
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            reader.set_autocommit(False)
            cursor.execute("SELECT count(*) FROM telemetry_gpurollup")
            with every_clock_at(START + 200 * DAY, tick=False):
                left = downsampling.drop_old_months()
            assert "telemetry_gpurollup_2040_01" not in left
            assert "telemetry_taskrollup_2040_01" in left
        reader.rollback()
        with every_clock_at(START + 200 * DAY, tick=False):
            assert "telemetry_gpurollup_2040_01" in downsampling.drop_old_months()
    finally:
        reader.close()
        drop_all()


def drop_all() -> None:
    """Drop the months that a test has committed, and make those of today."""
    for kind in downsampling.KINDS:
        for table, _, _ in downsampling.levels(kind):
            for part in months.parts(table):
                if part.until > START:
                    months.drop(table, part.name)
    downsampling.add_months()


def looked_at(sql: str, params: object) -> set[str]:
    """Return the partitions of GPUs that a query looks at."""
    plan = "\n".join(line for (line,) in fetch(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", params))
    executed = "\n".join(line for line in plan.splitlines() if "never executed" not in line)
    return set(re.findall(r"telemetry_gpu\w+_(?:\d{4}_\d\d|default)\b", executed))


def test_queries_look_at_the_months_of_their_attempt_alone():
    """With more than two years of months."""
    for number in range(26):
        at = months.month_after(START, number)
        for kind in downsampling.KINDS:
            for table, _, _ in downsampling.levels(kind):
                months.add(table, at)
    attempt = minutes(START, 240)
    ended = {"created_at": START, "released_at": START + timedelta(hours=4)}
    TaskAttempt.objects.filter(pk=attempt.pk).update(**ended)
    span = {"attempts": [attempt.pk], "since": START, "until": START + timedelta(hours=4)}
    chart = {**span, "step": 60}
    gpus = {f"telemetry_gpu{t}_2040_0{m}" for t in ("rollup", "hours", "days") for m in (1, 2)}
    for sql, params in (
        (ranks.GPUS, span),
        (metrics.GPUS, chart),
        (metrics.FINE_GPUS, span),
        (ranks.OF_ATTEMPT, {"job": attempt.job_id, "index": attempt.index}),
    ):
        found = looked_at(sql, params)
        assert found <= gpus, sql
        assert "telemetry_gpurollup_2040_01" in found
