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
from skep_platform.scheduling import start_intervals
from skep_platform.scheduling.models import VcTimeline, VcUse

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
