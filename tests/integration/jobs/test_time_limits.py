"""The maximum duration of jobs, and the history of a pull."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    placed,
    report,
    states_of,
    tick,
)
from tests.support.platform_factories import make_node

from skep_platform.jobs import queries, services
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, JobAttempt

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return make_node("n1", gpus=8)


def limited(alice, vc, **changes) -> Job:
    job = placed(alice, vc, retries=5, **changes)
    Job.objects.filter(pk=job.pk).update(max_duration_s=7200)
    return job


def run_out(job) -> Job:
    Job.objects.filter(pk=job.pk).update(ends_at=timezone.now() - timedelta(minutes=10))
    services.reconcile()
    job.refresh_from_db()
    return job


def test_the_time_runs_from_the_start_of_the_first_task(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "pulling")
    assert Job.objects.get(pk=job.pk).ends_at is None
    report(attempts_of(job), "running")
    job.refresh_from_db()
    assert job.ends_at == job.started_at + timedelta(hours=2)


def test_a_job_is_warned_once_before_its_time_is_over(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "running")
    services.reconcile()
    assert "job.ending_soon" not in event_kinds(job)
    Job.objects.filter(pk=job.pk).update(ends_at=timezone.now() + timedelta(minutes=9))
    for _ in range(2):
        services.reconcile()
    assert event_kinds(job).count("job.ending_soon") == 1


def test_the_time_of_a_gang_runs_from_where_it_begins(alice, vc):
    job = limited(alice, vc, instances=2)
    report(attempts_of(job), "ready")
    job.refresh_from_db()
    assert job.ends_at == job.begun_at + timedelta(hours=2)


def test_past_it_the_job_is_stopped_and_fails_and_is_not_tried_again(alice, vc):
    job = limited(alice, vc, instances=2)
    report(attempts_of(job), "running")
    run_out(job)
    assert states_of(job) == ["STOPPING", "STOPPING"]
    assert job.ends_at is None
    report(attempts_of(job), "exited", "released", exit_code=143)
    job.refresh_from_db()
    assert (job.state, job.retries_used, job.free_retries) == ("FAILED", 0, 0)
    assert job.exit_reason["code"] == "max_duration_exceeded"
    assert job.exit_reason["message"] == "It has run for its maximum duration of 2 h."
    assert JobAttempt.objects.get().reason["code"] == "max_duration_exceeded"


def test_what_ends_in_time_is_left_alone(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "running", "exited")
    job.refresh_from_db()
    assert (job.state, job.ends_at) == ("SUCCEEDED", None)
    assert run_out(job).state == "SUCCEEDED"


def test_a_verdict_of_before_stands(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    job.refresh_from_db()
    assert job.ends_at is None
    explain(job)
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.ends_at) == ("WAITING", None)


def test_every_attempt_has_the_whole_time(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "running")
    first = Job.objects.get(pk=job.pk).ends_at
    preempting.evict([job.pk], "Node n1 is being drained.", timezone.now())
    report(attempts_of(job), "exited", "released", exit_code=0)
    tick()
    job.refresh_from_db()
    assert (job.attempt, job.ends_at) == (2, None)
    report(attempts_of(job), "running")
    job.refresh_from_db()
    assert job.ends_at > first


def test_a_preempted_job_is_not_ended_by_the_clock(alice, vc):
    job = limited(alice, vc)
    report(attempts_of(job), "running")
    preempting.evict([job.pk], "Node n1 is being drained.", timezone.now())
    run_out(job)
    report(attempts_of(job), "exited", "released", exit_code=0)
    job.refresh_from_db()
    assert (job.state, job.preemptions) == ("WAITING", 1)


def pulls(job) -> list[str]:
    events = queries.events(job).filter(kind="job.pulling").order_by("id")
    return [event.message for event in events]


def test_a_pull_is_recorded_at_most_three_times_per_job(alice, vc):
    job = placed(alice, vc, instances=2)
    first, second = attempts_of(job)
    for percent in range(0, 101, 5):
        report(first, "pulling", pull_percent=percent)
        report(second, "pulling", pull_percent=percent // 2)
    assert pulls(job) == [f"Pulling the image on n1: {percent} %." for percent in (25, 50, 75)]


def test_a_pull_that_jumps_is_recorded_where_it_is(alice, vc):
    job = placed(alice, vc)
    report(attempts_of(job), "pulling", pull_percent=60)
    report(attempts_of(job), "pulling", pull_percent=61)
    assert pulls(job) == ["Pulling the image on n1: 50 %."]


def test_a_gang_records_its_history(alice, vc):
    job = placed(alice, vc, instances=2)
    report(attempts_of(job), "pulling", pull_percent=30)
    report(attempts_of(job), "creating", "ready")
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", "released")
    assert event_kinds(job) == [
        *("job.queued", "job.placed", "job.preparing", "job.pulling", "job.begun"),
        *("job.started", "job.succeeded"),
    ]
