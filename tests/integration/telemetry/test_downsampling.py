"""Old rollups become hours, then days: sums, means and peaks stay, and charts have no seam."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.gateway_rows import running_attempt

from skep_platform.core.bulk import fetch
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry import downsampling, tasks
from skep_platform.telemetry.metrics import MAX_POINTS, job_metrics
from skep_platform.telemetry.models import GpuHistory, GpuRollup, TaskHistory, TaskRollup

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def clock():
    """How many hours are old enough would change with the hour in the middle of a test."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


@pytest.fixture(autouse=True)
def windows(settings):
    settings.SKEP_METRIC_RETENTION_DAYS = 2
    settings.SKEP_METRIC_HOURLY_DAYS = 5
    settings.SKEP_METRIC_DAILY_DAYS = 10


def ran(days: float, *, gpus: int = 2, every_s: int = 600) -> TaskAttempt:
    """An attempt that began so many days ago and goes on, with one minute measured in every
    `every_s` seconds, first use 10 %, then 20 %, and so on to 90 % and again."""
    attempt = running_attempt(gpus=gpus)
    began = timezone.now() - days * DAY
    began = datetime.fromtimestamp(began.timestamp() // 60 * 60, UTC)
    TaskAttempt.objects.filter(pk=attempt.pk).update(created_at=began, started_at=began)
    Job.objects.filter(pk=attempt.job_id).update(started_at=began, created_at=began)
    moments = [began + timedelta(seconds=s) for s in range(0, int(days * 86400) - 60, every_s)]
    GpuRollup.objects.bulk_create(
        GpuRollup(
            device_id=uuid,
            attempt=attempt,
            at=at,
            seconds=60,
            samples=12,
            utilization_sum=12 * percent(n),
            utilization_max=percent(n) + 1,
            memory_used_mb_max=100 + n % 50,
            power_w_sum=12 * 250 if n % 2 else None,
            power_samples=12 if n % 2 else 0,
        )
        for n, at in enumerate(moments)
        for uuid in attempt.gpu_uuids
    )
    TaskRollup.objects.bulk_create(
        TaskRollup(
            attempt=attempt,
            at=at,
            seconds=60,
            samples=12,
            cpu_percent_sum=12 * percent(n),
            cpu_percent_max=percent(n),
            memory_mb_max=100 + n % 50,
            network_rx_bytes=60 * 1000,
            byte_samples=[12, 0, 0, 0],
        )
        for n, at in enumerate(moments)
    )
    return attempt


def percent(number: int) -> int:
    return 10 * (1 + number % 9)


def totals() -> list[float]:
    """Return sums and peaks of all resolutions."""
    [gpus] = fetch(
        "SELECT sum(samples), sum(utilization_sum), max(utilization_max), max(memory_used_mb_max),"
        f" sum(power_w_sum), sum(power_samples) FROM {downsampling.GPU_ROWS} r"
    )
    [tasks] = fetch(
        "SELECT sum(cpu_percent_sum), max(memory_mb_max), sum(network_rx_bytes) "
        f"FROM {downsampling.TASK_ROWS} r"
    )
    return [float(value) for value in (*gpus, *tasks)]


def kinds() -> dict[int, int]:
    """Return the number of rows of each resolution."""
    return dict(fetch(f"SELECT seconds, count(*) FROM {downsampling.GPU_ROWS} r GROUP BY 1"))


def ages(seconds: int) -> tuple[float, float]:
    """Return the ages in days of the oldest and the newest row of a resolution."""
    model = GpuRollup if seconds == 60 else GpuHistory
    rows = model.objects.filter(seconds=seconds).order_by("at").values_list("at", flat=True)
    now = timezone.now()
    return (now - rows[0]) / DAY, (now - list(rows)[-1]) / DAY


def test_sums_and_peaks_stay_while_rows_become_fewer():
    ran(8)
    before, rows = totals(), GpuRollup.objects.count()
    downsampling.merge_old()
    assert totals() == pytest.approx(before)
    assert sum(kinds().values()) < rows / 2.5  # the more the later in the day
    assert kinds().keys() == {60, 3600, 86400}
    assert ages(60)[0] <= 2 + 1 / 24
    assert ages(3600)[0] <= 5 + 1
    assert ages(3600)[1] >= 2
    assert ages(86400)[1] >= 5
    hours = TaskHistory.objects.values_list("at", "seconds")
    assert len(hours) > 0
    assert all(at.timestamp() % seconds == 0 for at, seconds in hours)


def test_a_second_run_finds_nothing_and_late_minutes_are_added_to_their_hour():
    attempt = ran(3)
    downsampling.merge_old()
    assert downsampling.merge_old() == 0
    hour = GpuHistory.objects.filter(seconds=3600).order_by("at")[1]
    late = GpuRollup(
        device_id=hour.device_id, attempt=attempt, at=hour.at + timedelta(seconds=60), seconds=60,
        samples=1, utilization_sum=100, utilization_max=100, memory_used_mb_max=9999,
        power_samples=0,
    )  # fmt: skip
    late.save()
    downsampling.merge_old()
    now = GpuHistory.objects.get(device=hour.device_id, at=hour.at)
    assert (now.samples, now.memory_used_mb_max) == (hour.samples + 1, 9999)
    assert now.utilization_sum == pytest.approx(hour.utilization_sum + 100)


def test_a_chart_over_all_resolutions_has_points_of_one_length_and_the_same_means():
    attempt = ran(8)
    job = Job.objects.get()
    downsampling.merge_old()
    found = job_metrics(job, None, timezone.now())
    [gpu, _] = found.gpus
    gaps = {b[0] - a[0] for a, b in zip(gpu.points, gpu.points[1:], strict=False)}
    assert gaps == {found.step_s} == {86400}
    # Each day has nearly as many of each percentage as any other one.
    assert all(point[1] == pytest.approx(50, abs=2) for point in gpu.points[1:-1])
    assert gpu.points[0][0] <= attempt.job.created_at.timestamp()
    [task] = found.tasks
    assert all(point[3] == pytest.approx(1000, rel=0.05) for point in task.points[1:-1])


def test_a_chart_of_hours_and_minutes_has_points_of_an_hour():
    ran(4)
    job = Job.objects.get()
    whole = job_metrics(job, None, timezone.now()).gpus[0].points
    downsampling.merge_old()
    found = job_metrics(job, None, timezone.now())
    assert found.step_s % 3600 == 0
    assert len(found.gpus[0].points) <= MAX_POINTS
    assert sum(p[1] for p in whole) / len(whole) == pytest.approx(
        sum(p[1] for p in found.gpus[0].points) / len(found.gpus[0].points), abs=2
    )
    young = job_metrics(job, timezone.now() - timedelta(hours=12), timezone.now())
    assert young.step_s < 3600


def test_rows_older_than_the_last_window_are_deleted(settings):
    ran(14, gpus=1)
    tasks.delete_old_rollups()
    tasks.delete_old_rollups()
    assert ages(86400)[0] <= 11


@pytest.mark.parametrize(
    ("hourly", "daily", "left"), [(0, 0, {60}), (5, 0, {60, 3600}), (0, 10, {60, 86400})]
)
def test_a_window_of_0_days_leaves_its_resolution_out(settings, hourly, daily, left):
    settings.SKEP_METRIC_HOURLY_DAYS, settings.SKEP_METRIC_DAILY_DAYS = hourly, daily
    ran(4.5, gpus=1)
    tasks.delete_old_rollups()
    assert kinds().keys() == left
    assert ages(60)[0] <= 3


def test_for_ever_by_the_minute_with_0_days(settings):
    settings.SKEP_METRIC_RETENTION_DAYS = 0
    ran(4, gpus=1)
    rows = GpuRollup.objects.count()
    tasks.delete_old_rollups()
    assert GpuRollup.objects.count() == rows


def test_an_hour_costs_the_same_number_of_statements_with_more_gpus():
    def statements(gpus: int) -> int:
        for model in (GpuRollup, TaskRollup, GpuHistory, TaskHistory):
            model.objects.all().delete()
        ran(2.2, gpus=gpus)
        with CaptureQueriesContext(connection) as queries:
            downsampling.merge_old()
        return len(queries)

    statements(1)  # makes the months
    one = statements(1)
    assert statements(4) == one
