"""Jobs by OpenPAI's REST API, each answer checked against OpenPAI's own swagger."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import attempts_of, job_file, placed, report
from tests.support.openpai_api import ROOT, Pai, refused
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import Membership

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.support.openpai_urls")]


@pytest.fixture
def pai(alice, vc):
    return Pai(alice)


def submit(pai, vc, **changes):
    return pai.post("/jobs", json.dumps(job_file(vc, **changes)), "yaml")


def test_a_job_file_is_submitted_and_found_by_user_and_name(pai, vc):
    answer = submit(pai, vc, name="train")
    assert answer.status_code == 202
    assert answer.json()["status"] == 202
    (job,) = pai.get("/jobs").json()
    assert (job["name"], job["username"], job["state"]) == ("train", "alice", "WAITING")
    assert (job["virtualCluster"], job["totalGpuNumber"], job["totalTaskNumber"]) == (
        "vision",
        1,
        1,
    )
    assert (job["totalTaskRoleNumber"], job["executionType"]) == (1, "START")
    detail = pai.get("/jobs/alice~train").json()
    assert detail["jobStatus"]["state"] == "WAITING"
    assert detail["debugId"] == job["debugId"]
    (task,) = detail["taskRoles"]["worker"]["taskStatuses"]
    assert (task["taskState"], task["containerNodeName"]) == ("WAITING", None)


def test_the_name_of_a_job_is_taken_for_ever(pai, vc):
    assert submit(pai, vc, name="once").status_code == 202
    assert refused(submit(pai, vc, name="once")) == (409, "ConflictJobError")


def test_a_bad_file_names_all_that_is_wrong(pai, vc):
    answer = pai.post("/jobs", "protocolVersion: 2\nname: 'a b'\n", "yaml")
    assert refused(answer) == (400, "InvalidProtocolError")
    assert "taskRoles" in answer.json()["message"]
    answer = pai.post("/jobs", json.dumps(job_file("nowhere")), "yaml")
    assert refused(answer) == (404, "NoVirtualClusterError")


def test_jobs_of_others_do_not_exist(pai, vc):
    bob = make_user("bob")
    make_job(make_vc("other", members=[bob]), bob, name="secret")
    assert pai.get("/jobs").json() == []
    for path in ("", "/config", "/events", "/job-attempts", "/attempts/0", "/ssh"):
        assert refused(pai.get(f"/jobs/bob~secret{path}")) == (404, "NoJobError")
    assert refused(pai.put("/jobs/bob~secret/executionType", {"value": "STOP"})) == (
        404,
        "NoJobError",
    )
    assert refused(pai.get("/jobs/no-such-form")) == (404, "NoJobError")


def test_the_version_probe_of_the_vs_code_extension_is_no_missing_api(pai):
    assert refused(pai.get("/jobs/protocolversion/config"))[1] != "NoApiError"
    assert refused(pai.get("/nothing/here")) == (404, "NoApiError")
    assert refused(pai.post("/virtual-clusters", {})) == (404, "NoApiError")
    answer = pai.client.get("/rest-server/api/v1/user/alice/jobs/none")
    assert refused(answer) == (404, "NoJobError")


def test_the_list_is_filtered_ordered_and_paged(pai, alice, vc):
    now = timezone.now()
    other = make_vc("language", members=[alice])
    for number, (state, where, tags) in enumerate(
        [("RUNNING", vc, ["a"]), ("FAILED", other, ["b"]), ("SUCCEEDED", vc, ["a", "c"])]
    ):
        job = make_job(where, alice, name=f"job-{number}", state=state, gpus=number, tags=tags)
        at = now - timedelta(minutes=number)
        Job.objects.filter(pk=job.pk).update(created_at=at, finished_at=at if number else None)

    def names(**query):
        return [job["name"] for job in pai.get("/jobs", **query).json()]

    assert names() == ["job-0", "job-1", "job-2"]
    assert names(state="RUNNING,FAILED") == ["job-0", "job-1"]
    assert names(vc="language") == ["job-1"]
    assert names(username="alice,bob", keyword="B-2") == ["job-2"]
    assert names(keyword="langu") == ["job-1"]
    assert names(username="bob") == []
    assert names(tagsContain="b,c") == ["job-1", "job-2"]
    assert names(tagsNotContain="b,c") == ["job-0"]
    assert names(jobPriority="default") == ["job-0", "job-1", "job-2"]
    assert names(jobPriority="prod") == []
    assert names(order="totalGpuNumber,DESC") == ["job-2", "job-1", "job-0"]
    assert names(order="completionTime,ASC") == ["job-2", "job-1", "job-0"]
    assert names(order="completionTime,DESC") == ["job-0", "job-1", "job-2"]
    for field in ("jobName", "username", "vc", "retries", "state", "jobPriority"):
        assert len(names(order=f"{field},ASC")) == 3
    assert names(order="nonsense") == ["job-0", "job-1", "job-2"]
    assert names(offset=1, limit=1) == ["job-1"]
    page = pai.get("/jobs", limit=1, withTotalCount="true").json()
    assert (page["totalCount"], len(page["data"])) == (3, 1)
    assert refused(pai.get("/jobs", limit=50_001)) == (400, "InvalidParametersError")
    assert refused(pai.get("/jobs", offset=-1)) == (400, "InvalidParametersError")


def test_a_list_takes_no_query_for_each_job(pai, alice, vc, django_assert_max_num_queries):
    for number in range(3):
        make_job(vc, alice, name=f"job-{number}")
    with django_assert_max_num_queries(9):
        assert len(pai.get("/jobs", withTotalCount="true").json()["data"]) == 3
    for number in range(20):
        make_job(vc, alice, name=f"more-{number}")
    with django_assert_max_num_queries(9):
        assert len(pai.get("/jobs", withTotalCount="true").json()["data"]) == 23


def test_the_config_hides_secrets(pai, vc):
    file = job_file(vc, name="hidden") | {"secrets": {"key": "s3cret-value"}}
    assert pai.post("/jobs", json.dumps(file), "yaml").status_code == 202
    answer = pai.get("/jobs/alice~hidden/config")
    assert answer.headers["Content-Type"].startswith("text/yaml")
    assert b"s3cret-value" not in answer.content
    assert b"******" in answer.content


def test_no_config_shows_the_credentials_in_an_address(pai, vc):
    file = job_file(vc, name="clone", commands=["git clone https://u:t0ken-x@git.example.org/a"])
    assert pai.post("/jobs", json.dumps(file), "yaml").status_code == 202
    as_json = pai.client.get("/rest-server/api/v1/user/alice/jobs/clone/config")
    for answer in (pai.get("/jobs/alice~clone/config"), as_json):
        assert answer.status_code == 200
        assert b"t0ken-x" not in answer.content
        assert b"git.example.org/a" in answer.content


def test_a_job_is_stopped_by_its_execution_type(pai, vc):
    submit(pai, vc, name="runaway")
    answer = pai.put("/jobs/alice~runaway/executionType", {"value": "STOP"})
    assert answer.status_code == 202
    status = pai.get("/jobs/alice~runaway").json()["jobStatus"]
    assert (status["state"], status["executionType"], status["appExitCode"]) == (
        "STOPPED",
        "STOP",
        -210,
    )
    again = pai.put("/jobs/alice~runaway/executionType", {"value": "START"})
    assert refused(again) == (403, "ReadOnlyJobError")
    bob = make_user("bob")
    Membership.objects.create(vc=vc, user=bob)
    Job.objects.update(visibility="members")
    other = Pai(bob).put("/jobs/alice~runaway/executionType", {"value": "START"})
    assert refused(other) == (403, "ForbiddenUserError")
    wrong = pai.put("/jobs/alice~runaway/executionType", {"value": "PAUSE"})
    assert refused(wrong) == (400, "InvalidParametersError")


def test_tags_come_and_go(pai, vc):
    submit(pai, vc, name="tagged")
    assert pai.put("/jobs/alice~tagged/tag", {"value": "night"}).status_code == 200
    assert pai.put("/jobs/alice~tagged/tag", {"value": "shift"}).status_code == 200
    assert pai.delete("/jobs/alice~tagged/tag", {"value": "night"}).status_code == 200
    assert pai.get("/jobs/alice~tagged").json()["tags"] == ["shift"]
    gone = pai.delete("/jobs/alice~tagged/tag", {"value": "night"})
    assert refused(gone) == (404, "NoTagError")


def test_tasks_attempts_events_and_logs_of_a_job_that_ran(pai, alice, vc, node):
    job = placed(alice, vc, name="ran", instances=2, ports={"http": 1})
    (first, second) = attempts_of(job)
    report([first, second], "ready")
    report([first, second], "running")
    detail = pai.get("/jobs/alice~ran").json()
    tasks = detail["taskRoles"]["worker"]["taskStatuses"]
    assert [task["taskState"] for task in tasks] == ["RUNNING", "RUNNING"]
    assert {task["containerNodeName"] for task in tasks} == {"gpu-1"}
    assert detail["jobStatus"]["state"] == "RUNNING"
    assert pai.get("/jobs/alice~ran/attempts/0").json()["taskRoles"] == detail["taskRoles"]
    assert refused(pai.get("/jobs/alice~ran/attempts/7")) == (404, "NoJobError")
    (attempt,) = pai.get("/jobs/alice~ran/job-attempts").json()
    assert (attempt["attemptIndex"], attempt["isLatest"], attempt["state"]) == (0, True, "RUNNING")
    one = pai.get("/jobs/alice~ran/job-attempts/0").json()
    assert len(one["taskRoles"]["worker"]["taskStatuses"]) == 2
    assert pai.get("/jobs/alice~ran/job-attempts/healthz").status_code == 200
    of_task = "/jobs/alice~ran/attempts/0/taskRoles/worker/taskIndex/1/attempts"
    task = pai.get(of_task).json()
    assert (task["taskIndex"], task["taskState"], len(task["attempts"])) == (1, "RUNNING", 1)
    listed = pai.get(f"{of_task}/0/logs").json()["locations"]
    assert [one["name"] for one in listed] == [
        "user.pai.stdout",
        "user.pai.stderr",
        "user.pai.all",
    ]
    for one in listed:
        answer = pai.client.get(one["uri"].removeprefix("http://testserver"))
        assert answer.status_code == 200
    link = pai.client.get(f"{ROOT}{of_task}/0/logs/user.pai.stdout")
    assert (link.status_code, link.headers["Location"]) == (302, listed[0]["uri"])
    assert refused(pai.get(f"{of_task}/3/logs")) == (404, "NoTaskLogError")
    missing = of_task.replace("taskIndex/1", "taskIndex/9")
    assert refused(pai.get(missing)) == (404, "NoTaskError")
    events = pai.get("/jobs/alice~ran/events").json()
    assert events["totalCount"] == len(events["data"]) > 0
    assert pai.get("/jobs/alice~ran/events", type="Warning").json()["data"] == []
    assert refused(pai.get("/jobs/alice~ran/ssh")) == (404, "NoJobSshInfoError")
    report([first, second], "exited", exit_code=0)


def test_basic_authentication_takes_a_token_and_never_a_password(pai, alice, vc):
    def status(user, secret):
        sent = base64.b64encode(f"{user}:{secret}".encode()).decode()
        pai.client.credentials(HTTP_AUTHORIZATION=f"Basic {sent}")
        return pai.client.get(f"{ROOT}/jobs").status_code

    assert status("alice", pai.token) == 200
    assert status("bob", pai.token) == 401
    assert status("alice", "correct-horse-battery") == 401
    for broken in ("Basic !!!", "Basic \u00e9", "Basic /w=="):
        pai.client.credentials(HTTP_AUTHORIZATION=broken)
        assert refused(pai.client.get(f"{ROOT}/jobs")) == (401, "UnauthorizedUserError")


def test_the_cookie_of_a_session_is_no_credential_here(alice, vc):
    anonymous = Pai()
    anonymous.client.force_login(alice)
    assert refused(anonymous.get("/tokens")) == (401, "UnauthorizedUserError")
    answer = anonymous.client.post(f"{ROOT}/jobs", "x", content_type="text/yaml")
    assert refused(answer) == (401, "UnauthorizedUserError")


def test_the_addresses_of_openpai_pages_lead_to_those_of_skep(alice, vc):
    job = make_job(vc, alice, name="known")
    anonymous = Pai().client
    asked = "/job-detail.html?username=alice&jobName=known"
    assert anonymous.get(asked).headers["Location"] == "/jobs?owner=alice&q=known"
    anonymous.force_login(alice)
    assert anonymous.get(asked).headers["Location"] == f"/jobs/{job.pk}"
    assert anonymous.get("/view.html").headers["Location"] == "/jobs"
    assert anonymous.get("/job-list.html").headers["Location"] == "/jobs"
    assert anonymous.get("/healthz").status_code == 200


def test_the_root_has_it_too_where_that_is_asked_for(pai):
    assert pai.client.get("/api/v2/jobs").json() == []


@pytest.mark.urls("skep_platform.urls")
def test_nothing_of_it_is_served_unless_it_is_switched_on(alice):
    client = Pai(alice).client
    for path in (f"{ROOT}/jobs", "/api/v2/jobs", "/job-detail.html"):
        assert client.get(path).status_code == 404


def test_odd_numbers_and_names_are_refused_and_never_an_error_of_ours(pai, alice, vc):
    make_job(vc, alice, name="odd")
    huge = "9" * 30
    of_task = f"/jobs/alice~odd/attempts/{huge}/taskRoles/worker/taskIndex/{huge}/attempts"
    for path in (
        *(f"/jobs/alice~odd/attempts/{huge}", f"/jobs/alice~odd/job-attempts/{huge}"),
        *(of_task, f"{of_task}/{huge}/logs", "/jobs/~", "/jobs/alice~", "/jobs/~~~"),
        f"/jobs/{'a' * 3000}~b",
    ):
        assert pai.get(path).status_code == 404
    for query in ({"limit": huge}, {"offset": "x"}, {"limit": "-1"}):
        assert refused(pai.get("/jobs", **query)) == (400, "InvalidParametersError")
    for query in ({"state": "NONE"}, {"keyword": "%_'"}, {"tagsContain": ",,"}, {"order": ","}):
        assert pai.get("/jobs", **query).status_code == 200
    for body in ([], None, {"value": {}}, {"value": "x" * 2000}, {"value": "a\x00b"}):
        assert pai.put("/jobs/alice~odd/tag", body).status_code == 400
