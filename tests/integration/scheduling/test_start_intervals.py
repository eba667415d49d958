"""Intervals of expected starts, as the page of a job and the dry run show them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.jobs.models import Job
from skep_platform.scheduling import expected_starts, start_intervals
from skep_platform.scheduling.models import ExpectedStart, VcTimeline, VcUse
from skep_platform.telemetry import calibration

pytestmark = pytest.mark.django_db
PREDICTED = {"median_s": 3600, "low_s": 3000, "high_s": 4200, "source": "name", "jobs": 12}
REASON = {"code": "vc_busy", "message": "Waits.", "details": {"expected_start": None}}


@pytest.fixture
def world() -> dict[str, Any]:
    start_intervals.forget()
    ann = make_user("ann")
    red = make_vc("red", quotas={"A100": 4}, members=[ann])
    node = make_node("node-a", gpus=4)
    running = make_job(red, ann, gpus=4, prediction=PREDICTED, attempt=1, state="RUNNING")
    place(running, list(node.devices.all()), cell_type="A100-NODE4")
    now = timezone.now()
    Job.objects.filter(pk=running.pk).update(placed_at=now - timedelta(minutes=30))
    VcUse.objects.create(
        vc=red, gpu_model="A100", at=now, owned=4, used=4, borrowed=0, lent=0, bad=0, waiting=8
    )
    jobs = [
        make_job(red, ann, name=name, gpus=4, prediction=PREDICTED, wait_reason=REASON)
        for name in ("second", "first")
    ]
    entries = [
        {"gang": str(job.pk), "needs": "", "expected_start": None, "reserved_start": None}
        for job in reversed(jobs)
    ]
    VcTimeline.objects.create(vc=red, at=now, entries=entries)
    return {"ann": ann, "red": red, "running": running, "second": jobs[0], "first": jobs[1]}


def span(api: Api, job: Job) -> tuple[float, float] | None:
    found = api.get(f"/jobs/{job.pk}").json()["expected_start_interval"]
    if found is None:
        return None
    assert found["coverage"] == 0.8
    now = timezone.now()
    low, high = (datetime.fromisoformat(found[end]) - now for end in ("low", "high"))
    return low.total_seconds() / 60, high.total_seconds() / 60


def test_a_waiting_job_shows_between_which_moments_it_starts(world):
    api = Api(world["ann"])
    first, second = span(api, world["first"]), span(api, world["second"])
    assert first is not None
    assert second is not None
    # Of 50 to 70 minutes 30 are over; the order is that of the scheduler, not of submission.
    assert 10 < first[0] < 30 < first[1] < 45
    assert first[1] < second[0] < 90 < second[1] < 115


def test_without_the_prediction_of_a_job_before_it_there_is_no_interval(world):
    Job.objects.filter(pk=world["running"].pk).update(prediction=None)
    assert span(Api(world["ann"]), world["first"]) is None


def test_a_job_that_runs_or_was_just_submitted_has_no_interval_and_costs_no_query(world):
    api = Api(world["ann"])
    assert span(api, world["running"]) is None
    Job.objects.filter(pk=world["first"].pk).update(wait_reason=None)
    assert span(api, world["first"]) is None


def test_one_answer_serves_all_jobs_of_a_virtual_cluster_for_some_seconds(world):
    def queries(job: Job) -> int:
        with CaptureQueriesContext(connection) as found:
            start_intervals.of_job(job)
        return len(found)

    assert queries(world["first"]) == 3
    assert queries(world["second"]) == 0


def test_a_new_job_is_behind_those_of_its_priority(world):
    new = Job(owner=world["ann"], vc=world["red"], gpus=4, priority=10)
    found = start_intervals.of_new_job(new, "")
    last = start_intervals.of_job(world["second"])
    assert found is not None
    assert last is not None
    assert found[0] > last[1]
    new.priority = 500
    soon = start_intervals.of_new_job(new, "")
    assert soon is not None
    assert soon[1] < found[0]


# How often they hold


def start(job: Job, minutes: float) -> None:
    at = timezone.now() + timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(placed_at=at, started_at=at + timedelta(seconds=30))


def starts() -> tuple[int, int]:
    score = calibration.last_days().get("start")
    return (score.jobs, score.within) if score is not None else (0, 0)


def test_a_job_that_starts_within_its_first_interval_counts_as_held(world):
    assert expected_starts.store() == 2
    assert expected_starts.store() == 0
    assert (expected_starts.score(), starts()) == (0, (0, 0))
    start(world["first"], 30)
    assert (expected_starts.score(), starts()) == (1, (1, 1))
    start(world["second"], 30)  # long before its interval
    assert (expected_starts.score(), starts()) == (1, (2, 1))
    assert (expected_starts.score(), starts()) == (0, (2, 1))
    assert not ExpectedStart.objects.exists()


def test_the_first_interval_counts_whatever_is_said_later(world):
    expected_starts.store()
    before = ExpectedStart.objects.get(job=world["first"]).high
    VcUse.objects.update(owned=8)
    Job.objects.filter(pk=world["running"].pk).update(placed_at=timezone.now())
    expected_starts.store()
    assert ExpectedStart.objects.get(job=world["first"]).high == before


def test_a_job_that_ends_without_a_start_is_forgotten_and_does_not_count(world):
    expected_starts.store()
    Job.objects.filter(pk=world["first"].pk).update(state="STOPPED", finished_at=timezone.now())
    assert (expected_starts.score(), starts()) == (0, (0, 0))
    assert [row.job for row in ExpectedStart.objects.all()] == [world["second"]]


def test_a_job_that_was_placed_and_waits_again_counts_by_its_first_start(world):
    expected_starts.store()
    start(world["first"], 30)
    Job.objects.filter(pk=world["first"].pk).update(placed_at=None)  # it was preempted
    assert (expected_starts.score(), starts()) == (1, (1, 1))
    expected_starts.store()
    assert [row.job for row in ExpectedStart.objects.all()] == [world["second"]]


def test_administrators_read_how_many_starts_held(world):
    admin = Api(make_user("root", admin=True))
    assert admin.get("/predictions").json()["starts"] == {"jobs": 0, "coverage": None}
    expected_starts.store()
    start(world["first"], 30)
    start(world["second"], 31)
    expected_starts.score()
    body = admin.get("/predictions").json()
    assert body["starts"] == {"jobs": 2, "coverage": 0.5}
    assert body["sources"] == []


def test_a_round_makes_as_many_queries_for_many_jobs_as_for_few(world):
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            expected_starts.store()
            expected_starts.score()
        return len(found)

    few = queries()
    ExpectedStart.objects.all().delete()
    for i in range(12):
        make_job(world["red"], world["ann"], name=f"more-{i}", gpus=1, prediction=PREDICTED)
    assert queries() == few
