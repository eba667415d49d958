"""Use of GPUs and containers: summed up, stored, attributed, shown."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from tests.support.gateway_rows import running_attempt
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node

from skep_agent.protocol import AttemptSpec, ContainerSample, GpuSample, ImageSpec, Samples
from skep_platform.core.notifications import valkey
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry import retention, rollups, services
from skep_platform.telemetry.metrics import (
    MAX_ALL_POINTS,
    MAX_POINTS,
    MIN_POINTS,
    _step,
    job_metrics,
)
from skep_platform.telemetry.models import GpuRollup, TaskRollup
from skep_platform.telemetry.rollups import ClusterUse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def use(monkeypatch: pytest.MonkeyPatch) -> ClusterUse:
    fresh = ClusterUse()
    monkeypatch.setattr(services, "_use", fresh)
    return fresh


def hold(*attempts: TaskAttempt) -> None:
    """The node was asked to run these."""
    services.hold(
        attempts[0].node_id,
        [
            AttemptSpec(
                attempt_id=str(a.pk),
                epoch=a.epoch,
                job_id=str(a.job_id),
                job_name="j",
                task_role="worker",
                task_index=0,
                image=ImageSpec(reference="x"),
                command="true",
                cpus=1,
                memory_mb=1,
                gpu_uuids=a.gpu_uuids,
            )
            for a in attempts
        ],
    )


def sample(attempt: TaskAttempt, percent: float, memory_mb: int = 100) -> Samples:
    return Samples(
        at=0,
        gpus=[
            GpuSample(uuid=uuid, utilization=percent, memory_used_mb=memory_mb)
            for uuid in attempt.gpu_uuids
        ],
        containers=[
            ContainerSample(
                attempt_id=str(attempt.pk), cpu_percent=percent * 2, memory_mb=memory_mb * 3
            )
        ],
    )


def test_samples_of_a_minute_become_one_row_each_however_often_they_are_flushed(use):
    attempt = running_attempt(gpus=2)
    hold(attempt)
    start = 1_800_000_000 // 60 * 60
    for second, percent in ((0, 10.0), (5, 30.0), (59, 20.0), (60, 99.0)):
        use.add(attempt.node_id, sample(attempt, percent, int(percent)), start + second)
        services.flush_rollups()
    rows = GpuRollup.objects.filter(device_id=attempt.gpu_uuids[0]).order_by("at")
    assert [
        (r.at.timestamp() - start, r.samples, r.utilization_sum, r.utilization_max) for r in rows
    ] == [(0, 3, 60.0, 30.0), (60, 1, 99.0, 99.0)]
    assert rows[0].attempt == attempt
    assert (rows[0].seconds, rows[0].memory_used_mb_max) == (60, 30)
    assert GpuRollup.objects.count() == 4
    task = TaskRollup.objects.earliest("at")
    assert (task.samples, task.cpu_percent_sum, task.memory_mb_max) == (3, 120.0, 90)


def counted(attempt: TaskAttempt, received: int, power_w: float | None = None) -> Samples:
    """What the counters of a container stand at, which has read twice of what it received."""
    found = sample(attempt, 50)
    (task,), gpus = found.containers, found.gpus
    counters = {"network_rx_bytes": received, "disk_read_bytes": 2 * received}
    return found.model_copy(
        update={
            "containers": [task.model_copy(update=counters)],
            "gpus": [gpu.model_copy(update={"power_w": power_w}) for gpu in gpus],
        }
    )


def test_the_first_hour_has_a_point_for_each_ten_seconds(use):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    start = int(time.time()) // 60 * 60 - 120
    attempt.job.started_at = datetime.fromtimestamp(start, UTC)
    for second in range(0, 90, 5):
        use.add(attempt.node_id, counted(attempt, 1000 * second, 100.0 + second), start + second)
        if second == 45:
            use.put_back(use.take_buckets(start + second))
            rollups.store_rollups(use.take_buckets(start + second))
    rollups.store_rollups(use.take_buckets(start + 100))
    found = job_metrics(attempt.job, None)
    assert found.step_s == 10
    (gpu,), (task,) = found.gpus, found.tasks
    assert [point[0] - start for point in gpu.points] == list(range(0, 90, 10))
    assert [point[3] for point in gpu.points] == [102.5 + ten for ten in range(0, 90, 10)]
    # The first sample only says where the counters stand: its seconds do not count.
    assert [point[3] for point in task.points] == [1000.0] * 9
    assert [point[5] for point in task.points] == [2000.0] * 9
    assert {point[4] for point in task.points} == {None}
    minute = TaskRollup.objects.earliest("at")
    assert (minute.samples, minute.network_rx_bytes, minute.disk_read_bytes) == (
        12,
        55_000,
        110_000,
    )
    assert GpuRollup.objects.earliest("at").power_w_sum == sum(100 + s for s in range(0, 60, 5))


@pytest.mark.parametrize("minutes", [2, 24 * 60])
def test_means_are_of_the_samples_that_had_a_value(use, minutes):
    """Every third sample says neither watts nor bytes; in points of 10 s, and of more."""
    attempt = running_attempt(gpus=1)
    hold(attempt)
    start = int(time.time()) // 60 * 60 - 120
    attempt.job.started_at = datetime.fromtimestamp(start, UTC) - timedelta(minutes=minutes)
    for number, second in enumerate(range(0, 60, 5)):
        known = number % 3 != 2
        given = counted(attempt, 1000 * second, 300.0) if known else sample(attempt, 50)
        use.add(attempt.node_id, given, start + second)
        if second == 30:
            rollups.store_rollups(use.take_buckets(start + second))
    rollups.store_rollups(use.take_buckets(start + 100))
    found = job_metrics(attempt.job, None)
    assert (found.step_s == 10) is (minutes == 2)
    (gpu,), (task,) = found.gpus, found.tasks
    assert {point[3] for point in gpu.points} == {300.0}
    assert {point[3] for point in task.points} - {None} == {1000.0}
    assert GpuRollup.objects.get().power_samples == 8
    # Bytes are known only between two samples that both have the counter.
    assert TaskRollup.objects.get().byte_samples == [4, 0, 4, 0]


def test_rows_of_before_samples_were_counted_are_read_as_wholly_measured():
    attempt = running_attempt(gpus=1)
    at = datetime.fromtimestamp(int(time.time()) // 60 * 60 - 120, UTC)
    used = {"cpu_percent_sum": 12, "cpu_percent_max": 1, "memory_mb_max": 1}
    TaskRollup.objects.create(
        attempt=attempt, at=at, seconds=60, samples=12, network_rx_bytes=6000, **used
    )
    found = job_metrics(attempt.job, at)
    assert {point[3] for point in found.tasks[0].points} == {100.0}


def test_the_first_hour_begins_when_the_container_does(use):
    """A large image may be pulled for longer than an hour."""
    attempt = running_attempt(gpus=1)
    now = timezone.now()
    TaskAttempt.objects.update(created_at=now - timedelta(hours=2), started_at=now)
    hold(attempt)
    start = int(time.time()) // 60 * 60
    pulling = sample(attempt, 0).model_copy(update={"containers": []})
    use.add(attempt.node_id, pulling, start - 7000)
    use.take_buckets()
    for second in (0, 5):
        use.add(attempt.node_id, counted(attempt, 1000 * second, 100.0), start + second)
    rollups.store_rollups(use.take_buckets(start + 60))
    assert GpuRollup.objects.get().fine
    assert TaskRollup.objects.get().fine


def test_the_first_hour_does_not_begin_anew_with_the_gateway(use):
    """A process that sees a node for the first time knows not how long its attempts have run."""
    attempt = running_attempt(gpus=1)
    past = timezone.now() - timedelta(hours=2)
    TaskAttempt.objects.update(created_at=past, started_at=past)
    hold(attempt)
    start = int(time.time()) // 60 * 60
    for second in (0, 5):
        use.add(attempt.node_id, counted(attempt, 1000 * second, 100.0), start + second)
    rollups.store_rollups(use.take_buckets(start + 60))
    assert GpuRollup.objects.get().fine is None
    assert TaskRollup.objects.get().fine is None


def test_later_points_are_of_a_minute(use):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    start = int(time.time()) // 60 * 60 - 7200
    use.add(attempt.node_id, sample(attempt, 1), start - 3600)
    for second in (0, 30, 60):
        use.add(attempt.node_id, counted(attempt, 600 * second), start + second)
    rollups.store_rollups(use.take_buckets())
    since, until = (datetime.fromtimestamp(start + s, UTC) for s in (0, 120))
    found = job_metrics(attempt.job, since, until)
    assert found.step_s == 60
    assert [(p[0] - start, p[3]) for p in found.tasks[0].points] == [(0, 600.0), (60, 300.0)]
    assert not GpuRollup.objects.filter(at=since).exclude(fine=None).exists()


@pytest.mark.parametrize("rises", [-1, 2**50])
def test_counters_that_cannot_be_are_not_counted(use, rises):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    for second, received in ((0, 1000), (5, 1000 + rises), (10, 1500 + rises)):
        use.add(attempt.node_id, counted(attempt, received), 1_800_000_000 + second)
    rollups.store_rollups(use.take_buckets())
    assert TaskRollup.objects.get().network_rx_bytes == 500


def test_an_impossible_use_on_one_node_does_not_keep_others_from_being_stored(use):
    rogue, good = running_attempt(gpus=1), running_attempt(gpus=1)
    hold(rogue)
    hold(good)
    start = 1_800_000_000 // 60 * 60
    use.add(rogue.node_id, sample(rogue, 1e9), start)
    use.add(good.node_id, sample(good, 50.5), start)
    rollups.store_rollups(use.take_buckets(start + 60))
    assert sorted(GpuRollup.objects.values_list("utilization_max", flat=True)) == [50.5, 100.0]


def test_a_rogue_node_does_not_keep_others_from_being_stored(use, monkeypatch):
    """Bytes that each are possible, but so many of them that their sum is no number of a row."""
    monkeypatch.setattr(rollups, "MAX_BYTES", 2**62)  # else it takes half a million samples
    rogue, good = running_attempt(gpus=1), running_attempt(gpus=1)
    hold(rogue)
    hold(good)
    start = 1_800_000_000 // 60 * 60
    for number in range(6):
        use.add(rogue.node_id, counted(rogue, number * 2**62), start)
        use.add(good.node_id, counted(good, 100 * number), start)
        if number in (2, 5):
            rollups.store_rollups(use.take_buckets(start + 30))
    assert TaskRollup.objects.get(attempt=good).network_rx_bytes == 500
    assert TaskRollup.objects.get(attempt=rogue).network_rx_bytes == 2 * rollups.MAX_STORED


def test_a_flush_is_two_statements_for_any_number_of_nodes(django_assert_num_queries):
    attempts = [running_attempt(gpus=4) for _ in range(5)]
    for attempt in attempts:
        hold(attempt)
        services.store_samples(attempt.node_id, sample(attempt, 50))
    with django_assert_num_queries(2):
        services.flush_rollups()
    assert GpuRollup.objects.count() == 20
    with django_assert_num_queries(0):
        services.flush_rollups()


def test_a_gpu_that_changes_hands_is_attributed_to_each_holder(use):
    first = running_attempt(gpus=1)
    hold(first)
    use.add(first.node_id, sample(first, 40), 0.0)
    services.hold(first.node_id, [])
    use.add(first.node_id, sample(first, 0), 5.0)
    services.flush_rollups()
    held = {r.attempt_id: r.utilization_sum for r in GpuRollup.objects.all()}
    assert held == {first.pk: 40.0, None: 0.0}


def test_the_use_of_an_attempt_that_cannot_be_described_is_counted_on(use):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    services.hold(attempt.node_id, [], [str(attempt.pk)])
    use.add(attempt.node_id, sample(attempt, 40), 0.0)
    services.flush_rollups()
    assert GpuRollup.objects.get().attempt_id == attempt.pk


@pytest.mark.parametrize("uuid", ["", "\x00", "x" * 200, "GPU-\n", "unknown"])
def test_26_a_gpu_that_cannot_be_spoils_no_other(uuid):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    good = sample(attempt, 50)
    bad = good.model_copy(
        update={"gpus": [GpuSample(uuid=uuid, utilization=1, memory_used_mb=1), *good.gpus]}
    )
    services.store_samples(attempt.node_id, bad)
    services.flush_live()
    services.flush_rollups()
    assert GpuRollup.objects.get().device_id == attempt.gpu_uuids[0]


def test_25_a_node_cannot_speak_of_another_nodes_devices_and_attempts():
    attempt, rogue = running_attempt(gpus=1), make_node()
    services.store_samples(rogue.pk, sample(attempt, 50))
    services.flush_live()
    services.flush_rollups()
    assert not GpuRollup.objects.exists()
    assert not TaskRollup.objects.exists()
    assert not valkey().exists(rollups.gpu_live_key(attempt.node_id))


def test_samples_survive_a_database_that_is_away(monkeypatch):
    attempt = running_attempt(gpus=1)
    hold(attempt)
    services.store_samples(attempt.node_id, sample(attempt, 50))

    def away(_: object) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as outage:
        outage.setattr(rollups, "store_rollups", away)
        with pytest.raises(OperationalError):
            services.flush_rollups()
    services.store_samples(attempt.node_id, sample(attempt, 50))
    services.flush_rollups()
    assert sum(GpuRollup.objects.values_list("samples", flat=True)) == 2


def test_live_values_of_many_nodes_are_one_round_trip_and_expire():
    attempts = [running_attempt(gpus=1) for _ in range(3)]
    for attempt in attempts:
        hold(attempt)
        services.store_samples(attempt.node_id, sample(attempt, 12.34))
    calls = int(valkey().info("commandstats").get("cmdstat_hset", {}).get("calls", 0))
    services.flush_live()
    services.flush_live()
    after = valkey().info("commandstats")["cmdstat_hset"]["calls"]
    assert after - calls >= 6  # others may use the same server
    for attempt in attempts:
        assert 0 < valkey().ttl(rollups.gpu_live_key(attempt.node_id)) <= rollups.LIVE_S


def metrics(job: Job, **query: Any) -> Any:
    response = Api(job.owner).get(f"/jobs/{job.pk}/metrics", **query)
    assert response.status_code == 200, response.json()
    return response.json()


def fill(attempt: TaskAttempt, minutes: int) -> datetime:
    """One rollup per minute, ending now; percent and memory are the minute's number."""
    start = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    GpuRollup.objects.bulk_create(
        GpuRollup(
            device_id=attempt.gpu_uuids[0],
            attempt=attempt,
            at=start + timedelta(minutes=i),
            seconds=60,
            samples=2,
            utilization_sum=2.0 * i,
            utilization_max=i,
            memory_used_mb_max=i,
        )
        for i in range(minutes)
    )
    return start


class TestMetrics:
    def test_points_by_gpu_and_by_task_with_the_live_value_last(self):
        attempt = running_attempt(gpus=1)
        start = fill(attempt, 3)
        hold(attempt)
        services.store_samples(attempt.node_id, sample(attempt, 77.0, 7))
        services.flush_live()
        found = metrics(attempt.job, since=start.timestamp())
        assert found["step_s"] == 60
        [gpu] = found["gpus"]
        assert gpu["uuid"] == attempt.gpu_uuids[0]
        assert (gpu["model"], gpu["node"]) == ("A100", attempt.node.name)
        assert (gpu["role"], gpu["index"]) == ("worker", 0)
        t = start.timestamp()
        assert gpu["points"][:3] == [
            [t, 0.0, 0, None],
            [t + 60, 1.0, 1, None],
            [t + 120, 2.0, 2, None],
        ]
        assert gpu["points"][3][1:] == [77.0, 7, None]
        assert time.time() - 60 < gpu["points"][3][0] <= time.time() + 0.1  # reported in tenths
        [task] = found["tasks"]
        assert task["points"][0][1:] == [154.0, 21, None, None, None, None]

    def test_a_long_time_has_a_larger_step(self):
        attempt = running_attempt(gpus=1)
        minutes = 2 * MAX_POINTS
        start = fill(attempt, minutes)
        found = metrics(attempt.job, since=start.isoformat())
        assert found["step_s"] > 60
        points = found["gpus"][0]["points"]
        assert len(points) <= MAX_POINTS + 1
        assert points[-1][2] == minutes - 1

    def test_since_leaves_out_what_is_older(self):
        attempt = running_attempt(gpus=1)
        start = fill(attempt, 10)
        since = (start + timedelta(minutes=7)).astimezone(UTC).isoformat().replace("+00:00", "Z")
        assert len(metrics(attempt.job, since=since)["gpus"][0]["points"]) == 3

    def test_no_live_value_once_the_gpu_was_given_back(self):
        attempt = running_attempt(gpus=1)
        hold(attempt)
        services.store_samples(attempt.node_id, sample(attempt, 77.0))
        services.flush_live()
        TaskAttempt.objects.update(released_at=timezone.now())
        assert metrics(attempt.job)["gpus"] == []

    @pytest.mark.parametrize(
        "since", ["yesterday", "1e300", "nan", "2026-13-45", "2026-13-45T00:00:00"]
    )
    def test_a_time_that_is_none_is_refused(self, since):
        attempt = running_attempt(gpus=1)
        answer = Api(attempt.job.owner).get(f"/jobs/{attempt.job_id}/metrics", since=since)
        assert refusal(answer) == (400, "invalid")

    @pytest.mark.parametrize("series", [1, 10, 1000, 4096])
    @pytest.mark.parametrize("seconds", [1, 3600, 86400 * 400])
    def test_an_answer_stays_small(self, series, seconds):
        points = seconds / _step(seconds, series, 60)
        assert points <= MAX_POINTS
        assert points * series <= max(MAX_ALL_POINTS, series * MIN_POINTS)


def test_finding_s11_old_samples_are_deleted_a_bounded_number_at_a_time(settings, monkeypatch):
    monkeypatch.setattr("skep_platform.core.events.ROWS", 2)
    settings.SKEP_METRIC_RETENTION_DAYS = 7
    settings.SKEP_METRIC_HOURLY_DAYS = settings.SKEP_METRIC_DAILY_DAYS = 0
    attempt = running_attempt()
    device = attempt.node.devices.first()
    now = timezone.now()
    for days in (30, 20, 10, 8, 7.5, 6, 1):
        at = now - timedelta(days=days)
        GpuRollup.objects.create(
            device=device, attempt=attempt, at=at, seconds=60, samples=1, utilization_sum=1,
            utilization_max=1, memory_used_mb_max=1,
        )  # fmt: skip
        TaskRollup.objects.create(
            attempt=attempt, at=at, seconds=60, samples=1, cpu_percent_sum=1, cpu_percent_max=1,
            memory_mb_max=1,
        )  # fmt: skip
    assert retention.delete_old_rollups() == 10
    assert (GpuRollup.objects.count(), TaskRollup.objects.count()) == (2, 2)
    settings.SKEP_METRIC_RETENTION_DAYS = 0
    assert retention.delete_old_rollups() == 0


def test_finding_s11_a_node_that_is_gone_takes_no_memory(use):
    attempt = running_attempt()
    for _ in range(2):  # a reconnect overlaps
        services.node_connected(attempt.node_id)
    services.store_samples(attempt.node_id, sample(attempt, 50))
    services.node_disconnected(attempt.node_id)
    assert attempt.node_id in use._nodes
    services.node_disconnected(attempt.node_id)
    assert use._nodes == {}
    services.flush_rollups()
    assert GpuRollup.objects.count() == 1, "what it sent is stored"
