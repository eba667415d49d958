"""Many jobs in one request: each is accepted or refused by itself."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.jobs import services
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import submitting
from skep_platform.tenancy.models import VcLimit

pytestmark = pytest.mark.django_db


@pytest.fixture
def vc(alice):
    return make_vc("vision", quotas={"A100": 16}, members=[alice])


@pytest.fixture
def api(alice):
    return Api(alice)


def texts(vc, *names: str) -> list[str]:
    return [json.dumps(job_file(vc, name=name)) for name in names]


def swept(vc) -> str:
    file = job_file(vc, name="train", commands=["train --lr <% $parameters.lr %>"])
    return json.dumps(file | {"parameters": {"lr": 0.1, "seed": 1}})


def test_a_bad_job_file_refuses_no_other_job(api, alice, vc):
    good, other = texts(vc, "one", "two")
    answer = api.post("/jobs/batch", {"files": [good, "type: job", good, other]})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["accepted"], body["refused"]) == (2, 2)
    assert [one["code"] for one in body["results"]] == ["", "invalid_job", "job_name_taken", ""]
    assert body["results"][1]["details"]["errors"]
    assert {str(job.pk): job.name for job in Job.objects.all()} == {
        one["id"]: one["name"] for one in body["results"] if one["id"]
    }


def test_a_job_that_no_one_foresaw_to_fail_refuses_no_other_job(api, vc, monkeypatch):
    """A row that PostgreSQL does not take: a number that is too large for its column."""
    new_row = submitting.new_row

    def odd(user, vc, spec):
        job = new_row(user, vc, spec)
        job.priority = 40_000 if job.name == "two" else job.priority
        return job

    monkeypatch.setattr(submitting, "new_row", odd)
    answer = api.post("/jobs/batch", {"files": texts(vc, "one", "two", "three")})
    codes = [one["code"] for one in answer.json()["results"]]
    assert (answer.status_code, codes) == (200, ["", "internal_error", ""])
    assert sorted(Job.objects.values_list("name", flat=True)) == ["one", "three"]


def test_a_job_that_cannot_be_stopped_keeps_no_other_one_from_it(alice, api, vc, monkeypatch):
    jobs = [submit(alice, vc, name=name) for name in ("one", "two", "three")]
    stop = services.stop

    def fail(user, job_id):
        if job_id == jobs[1].pk:
            raise KeyError("a defect")
        return stop(user, job_id)

    monkeypatch.setattr(services, "stop", fail)
    answer = api.post("/jobs/bulk/stop", {"jobs": [str(job.pk) for job in jobs]})
    codes = [one["code"] for one in answer.json()["results"]]
    assert (answer.status_code, codes) == (200, ["", "internal_error", ""])


def test_a_repeated_request_returns_the_same_jobs(api, vc):
    body, key = {"files": texts(vc, "one", "two")}, "sweep-7"
    first = api.post("/jobs/batch", body, HTTP_IDEMPOTENCY_KEY=key).json()
    again = api.post("/jobs/batch", body, HTTP_IDEMPOTENCY_KEY=key).json()
    assert again == first
    assert Job.objects.count() == first["accepted"] == 2
    long = "x" * 64
    assert refusal(api.post("/jobs/batch", body, HTTP_IDEMPOTENCY_KEY=long)) == (
        400,
        "client_token_invalid",
    )


def test_a_sweep_is_a_job_for_each_set_of_parameters(api, alice, vc):
    values = [{"lr": 0.5}, {"lr": 0.25, "seed": 7}]
    body = {"file": swept(vc), "sweep": values, "name": "night", "first": 3}
    answer = api.post("/jobs/batch", body).json()
    assert [one["name"] for one in answer["results"]] == ["night-3", "night-4"]
    jobs = Job.objects.order_by("name")
    assert [job.spec["parameters"] for job in jobs] == [
        {"lr": 0.5, "seed": 1},
        {"lr": 0.25, "seed": 7},
    ]
    commands = [role.command for job in jobs for role in job.roles.all()]
    assert "--lr 0.5" in commands[0]
    assert "--lr 0.25" in commands[1]


def test_a_parameter_that_the_file_lacks_makes_no_job(api, vc):
    values = [{"lr": 0.5}, {"rate": 0.5}]
    answer = api.post("/jobs/batch", {"file": swept(vc), "sweep": values})
    assert refusal(answer) == (400, "unknown_parameter")
    assert "(it has: lr, seed)" in answer.json()["message"]
    assert not Job.objects.exists()


def test_jobs_behind_a_limit_are_refused_with_its_code(api, vc):
    VcLimit.objects.create(vc=vc, name="submits_per_minute", value=2)
    answer = api.post("/jobs/batch", {"files": texts(vc, "one", "two", "three", "four")})
    codes = [one["code"] for one in answer.json()["results"]]
    assert codes == ["", "", "too_many_submits", "too_many_submits"]
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"files": []},
        {"files": ["x"] * 1001},
        {"files": ["x"], "file": "x", "sweep": [{}]},
        {"file": "x"},
        {"sweep": [{}]},
        {"files": [{"type": "job"}]},
    ],
)
def test_a_request_has_1_to_1000_job_files_or_a_sweep(api, body):
    assert refusal(api.post("/jobs/batch", body)) == (400, "invalid")


def test_a_further_job_takes_no_more_queries_than_a_submit_by_itself(api, vc):
    api.post("/jobs/batch", {"files": texts(vc, "first")})  # fills what is remembered
    with CaptureQueriesContext(connection) as alone:
        api.post("/jobs", job_file(vc, name="alone"))
    with CaptureQueriesContext(connection) as many:
        api.post("/jobs/batch", {"files": texts(vc, *(f"job-{n}" for n in range(10)))})
    assert len(many) <= 10 * len(alone)


@pytest.mark.django_db(transaction=True)
def test_jobs_of_a_request_are_stored_with_one_statement_unless_one_of_them_cannot_be():
    alice = make_user("alice")
    vc, api = make_vc("vision", quotas={"A100": 16}, members=[alice]), Api(alice)

    def inserts(*names: str) -> tuple[int, list[str]]:
        with CaptureQueriesContext(connection) as captured:
            answer = api.post("/jobs/batch", {"files": texts(vc, *names)}).json()
        codes = [one["code"] for one in answer["results"]]
        return sum('INSERT INTO "jobs_job"' in q["sql"] for q in captured), codes

    assert inserts("a", "b", "c") == (1, ["", "", ""])
    assert inserts("d", "b", "e") == (4, ["", "job_name_taken", ""])
    assert sorted(Job.objects.values_list("name", flat=True)) == ["a", "b", "c", "d", "e"]
    assert all(job.tasks.count() == job.tasks_total for job in Job.objects.all())


def test_a_job_may_depend_on_one_before_it_in_the_request(api, alice, vc):
    second = job_file(vc, name="second")
    second.setdefault("extras", {}).setdefault("skep", {})["dependsOn"] = [{"job": "first"}]
    files = [*texts(vc, "first"), json.dumps(second), *texts(vc, "third")]
    answer = api.post("/jobs/batch", {"files": files}).json()
    assert [one["code"] for one in answer["results"]] == ["", "", ""], answer
    assert Job.objects.get(name="second").awaits_dependencies
