"""The summary of a finished job: counted once, soon after its end, with advice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.gateway_rows import running_attempt
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import place, release

from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.telemetry import job_use
from skep_platform.telemetry.models import GpuRollup, JobUse, TaskRollup

pytestmark = pytest.mark.django_db


def finish(attempt: TaskAttempt, *, ago_s: float = 60, held_s: float = 3600) -> Job:
    """Its job ended a while ago, and had held its GPUs for `held_s`."""
    ended = timezone.now() - timedelta(seconds=ago_s)
    release(attempt)
    begun = ended - timedelta(seconds=held_s)
    TaskAttempt.objects.filter(pk=attempt.pk).update(created_at=begun, released_at=ended)
    Job.objects.filter(pk=attempt.job_id).update(state=JobState.SUCCEEDED, finished_at=ended)
    return Job.objects.get(pk=attempt.job_id)


def measure(attempt: TaskAttempt, *percents: float, memory_mb: int = 100) -> None:
    """Two minutes of samples: `percents` of its GPUs, 50 % of a core."""
    now = timezone.now()
    for minute in range(2):
        at = now - timedelta(minutes=5 + minute)
        GpuRollup.objects.bulk_create(
            GpuRollup(
                device_id=uuid,
                attempt=attempt,
                at=at,
                seconds=60,
                samples=12,
                utilization_sum=12 * percent,
                utilization_max=percent,
                memory_used_mb_max=1000 + minute,
            )
            for uuid, percent in zip(attempt.gpu_uuids, percents, strict=True)
        )
        TaskRollup.objects.create(
            attempt=attempt,
            at=at,
            seconds=60,
            samples=12,
            cpu_percent_sum=12 * 50.0,
            cpu_percent_max=80.0,
            memory_mb_max=memory_mb + minute,
        )


def use(job: Job) -> Any:
    response = Api(job.owner).get(f"/jobs/{job.pk}/use")
    assert response.status_code == 200, response.json()
    return response.json()


def test_hours_means_and_peaks_with_what_was_asked():
    attempt = running_attempt(gpus=2)
    measure(attempt, 80.0, 60.0)
    job = finish(attempt, held_s=5400)
    assert job_use.count_due() == 1
    found = use(job)
    assert found.pop("gpu_hours") == pytest.approx(3.0)
    assert found == {
        "gpu_utilization": 70.0,
        "gpu_memory_peak_mb": 1001,
        "cpu_percent": 50.0,
        "memory_peak_mb": 101,
        "asked": {"gpus": 2, "cpus": 1.0, "memory_mb": 1024},
        "advice": [],
    }


def test_a_job_that_cannot_be_counted_keeps_no_other_one_from_it():
    jobs = [finish(running_attempt(), ago_s=100 - n) for n in range(3)]
    odd = {"state": JobState.SUCCEEDED, "started_at": F("created_at"), "prediction": ["odd"]}
    Job.objects.filter(pk=jobs[1].pk).update(**odd)
    assert job_use.count_due() == 2
    assert Job.objects.get(use_counted=False).pk == jobs[1].pk


def test_asked_eight_gpus_used_five_percent_of_them():
    attempt = running_attempt(gpus=8)
    measure(attempt, *[5.0] * 8)
    job = finish(attempt)
    job_use.count_due()
    [advice] = use(job)["advice"]
    assert advice["code"] == "gpus_idle"
    assert advice["message"].startswith("Asked 8 GPUs, used 5 % of them.")


def test_one_gpu_of_several_that_no_one_used():
    attempt = running_attempt(gpus=4)
    measure(attempt, 99.0, 99.0, 99.0, 0.0)
    job = finish(attempt)
    job_use.count_due()
    [advice] = use(job)["advice"]
    assert advice["details"] == {"role": "worker", "idle": 1, "gpus": 4}


def test_the_peak_of_memory_is_the_kernels_where_samples_missed_it():
    attempt = running_attempt(memory_peak_mb=1000)
    measure(attempt, 50.0, memory_mb=10)
    job = finish(attempt)
    job_use.count_due()
    assert use(job)["memory_peak_mb"] == 1000
    assert [a["code"] for a in use(job)["advice"]] == ["memory_near_limit"]


def test_all_attempts_count_but_idle_gpus_are_those_of_the_newest():
    first = running_attempt(gpus=2)
    measure(first, 0.0, 50.0)
    finish(first, held_s=3600)
    Job.objects.update(attempt=2, state=JobState.RUNNING, finished_at=None)
    job = Job.objects.get()
    devices = list(first.node.devices.filter(pk__in=first.gpu_uuids))
    again = place(job, devices, state=AttemptState.RUNNING)
    measure(again, 100.0, 50.0)
    finish(again, held_s=1800)
    job_use.count_due()
    found = use(job)
    assert found["gpu_hours"] == pytest.approx(3.0)
    assert (found["gpu_utilization"], found["advice"]) == (50.0, [])


def test_a_job_that_was_never_placed_used_nothing():
    attempt = running_attempt()
    attempt.leases.all().delete()
    attempt.delete()
    Job.objects.update(state=JobState.STOPPED, finished_at=timezone.now() - timedelta(minutes=1))
    job_use.count_due()
    found = use(Job.objects.get())
    assert (found["gpu_hours"], found["gpu_utilization"], found["advice"]) == (0.0, None, [])


class TestWhen:
    def test_not_before_the_last_samples_are_stored(self):
        job = finish(running_attempt(), ago_s=5)
        assert job_use.count_due() == 0
        assert refusal(Api(job.owner).get(f"/jobs/{job.pk}/use")) == (404, "not_yet")

    def test_not_while_its_gpus_are_held_unless_that_lasts(self):
        attempt = running_attempt()
        finish(attempt)
        TaskAttempt.objects.update(released_at=None)
        assert job_use.count_due() == 0
        Job.objects.update(finished_at=timezone.now() - job_use.PATIENCE)
        assert job_use.count_due() == 1

    def test_once_only(self):
        finish(running_attempt())
        assert [job_use.count_due(), job_use.count_due()] == [1, 0]

    def test_a_round_that_died_after_storing_is_made_good(self):
        job = finish(running_attempt())
        job_use.count_due()
        Job.objects.update(use_counted=False)
        assert job_use.count_due() == 1
        assert JobUse.objects.get().job == job


def test_a_round_costs_the_same_however_many_jobs_and_tasks():
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            job_use.count_due()
        return len(captured)

    finish(running_attempt())
    one = queries()
    for _ in range(5):
        finish(running_attempt())
    assert queries() == one
    assert JobUse.objects.count() == 6
