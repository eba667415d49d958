"""The attempts of a job and of its tasks over REST."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.jobs.lifecycle import diagnosing
from skep_platform.jobs.models import Job, JobAttempt

pytestmark = pytest.mark.django_db
START = timezone.now() - timedelta(hours=1)


@pytest.fixture
def job(alice) -> Job:
    """At its third attempt."""
    vc = make_vc(members=[alice])
    placed = {"placed_at": timezone.now(), "started_at": timezone.now(), "attempt": 3}
    job = make_job(vc, alice, tasks=2, state="RUNNING", **placed)
    diagnosis = diagnosing.by_code("max_duration_exceeded").as_dict()
    for index, outcome in enumerate(("FAILED", "PREEMPTED"), 1):
        JobAttempt.objects.create(
            job=job,
            index=index,
            outcome=outcome,
            retry="free",
            placed_at=START,
            finished_at=START + timedelta(minutes=index),
            reason={"code": "x", "message": "X.", "details": {}},
            diagnosis=diagnosis if outcome == "FAILED" else None,
        )
    return job


def test_attempts_of_a_job_come_newest_first_with_the_present_one(alice, job):
    shown = Api(alice).get(f"/jobs/{job.pk}/attempts").json()["results"]
    assert [(one["index"], one["outcome"]) for one in shown] == [
        (3, ""),
        (2, "PREEMPTED"),
        (1, "FAILED"),
    ]
    assert shown[0]["finished_at"] is None
    assert shown[2]["diagnosis"]["name"] == "PodDeadlineExceeded"
    assert shown[1]["diagnosis"] is None


def test_pages_of_attempts_list_each_once(alice, job):
    api, seen, path = Api(alice), [], f"/jobs/{job.pk}/attempts?limit=1"
    while path:
        answer = api.get(path).json()
        seen += [one["index"] for one in answer["results"]]
        path = answer["next"] and answer["next"].partition("/api/v1")[2]
    assert seen == [3, 2, 1]


@pytest.mark.parametrize(
    "now",
    [{"placed_at": None, "state": "WAITING"}, {"finished_at": timezone.now(), "state": "FAILED"}],
    ids=["in the queue", "finished"],
)
def test_a_job_that_is_not_placed_has_only_ended_attempts(alice, job, now):
    Job.objects.update(**now)
    shown = Api(alice).get(f"/jobs/{job.pk}/attempts").json()["results"]
    assert [one["index"] for one in shown] == [2, 1]


def test_attempts_of_a_task_come_newest_first(alice, job):
    node = make_node()
    for index, retry in ((1, 0), (2, 0), (2, 1)):
        Job.objects.filter(pk=job.pk).update(attempt=index)
        job.refresh_from_db()
        released = timezone.now()
        place(job, [], node=node, rank=1, state="FAILED", retry=retry, released_at=released)
    shown = Api(alice).get(f"/jobs/{job.pk}/tasks/1/attempts").json()["results"]
    assert [(one["index"], one["retry"]) for one in shown] == [(2, 1), (2, 0), (1, 0)]
    assert shown[0]["xids"] == []
    assert Api(alice).get(f"/jobs/{job.pk}/tasks/0/attempts").json()["results"] == []


def test_a_rank_that_the_job_has_not_is_not_found(alice, job):
    assert refusal(Api(alice).get(f"/jobs/{job.pk}/tasks/2/attempts")) == (404, "not_found")


@pytest.mark.parametrize("path", ["attempts", "tasks/0/attempts"])
def test_jobs_of_others_do_not_exist(job, path):
    assert refusal(Api(make_user()).get(f"/jobs/{job.pk}/{path}")) == (404, "not_found")
