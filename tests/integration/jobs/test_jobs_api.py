"""Jobs over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import attempts_of, job_file, placed, report, submit, tick
from tests.support.platform_api import ROOT, Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db

SUMMARY = {
    *("id", "name", "owner", "virtual_cluster", "state", "priority_class", "priority", "gpus"),
    *("tasks", "attempt", "retries_used", "submitted_at", "placed_at", "started_at"),
    *("finished_at", "wait_reason", "exit_reason", "duration_s", "preemptions", "preempting"),
    *("downgraded", "incremental", "unplaced", "expected_start"),
    *("tags", "free_retries", "diagnosis_code", "diagnosis_title"),
}
DETAIL = SUMMARY | {
    *("spec_text", "task_roles", "may_stop", "lazy_preemption", "preemptible", "pinned_cell"),
    *(
        "prediction",
        "expected_start_interval",
        "max_duration_s",
        "ends_at",
        "deadline_at",
        "network_mode",
        "environment",
        "work_dir",
    ),
    *(
        "begun_at",
        "retry_at",
        "depends_on",
        "diagnosing",
        "diagnosis",
        "logs_deleted_at",
        "may_exec",
    ),
    *("working_files", "git", "visibility", "seen_by", "may_share", "may_prioritise", "bad_gpus"),
    *("within", "stop_grace_s", "checkpoint_signal", "checkpoint_grace_s"),
    *("may_clone", "retries_ended", "more_memory", "may_exempt", "idle_exempt"),
    *("parent", "api_token"),
}


@pytest.fixture
def api(alice):
    return Api(alice)


def post(api: Api, body: bytes | str, content_type: str = "application/yaml", **extra: Any) -> Any:
    return api.client.post(f"{ROOT}/jobs", body, content_type=content_type, **extra)


YAML = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: "test/image:1"}}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {{gpu: 1, cpu: 2, memoryMB: 1024}}
    commands: [echo hello]
defaults: {{virtualCluster: vision}}
"""


@pytest.mark.parametrize(
    "content_type",
    [
        *("application/yaml", "text/yaml", "application/x-yaml", "text/plain"),
        *("text/plain; charset=utf-8", "application/json"),
    ],
)
def test_a_job_file_is_submitted_as_it_is(api, vc, content_type):
    text = YAML.format(name="hello")
    answer = post(api, text, content_type)
    assert answer.status_code == 201, answer.content
    job = answer.json()
    assert set(job) == DETAIL
    assert (job["name"], job["owner"], job["virtual_cluster"], job["state"]) == (
        *("hello", "alice"),
        *("vision", "WAITING"),
    )
    assert (job["spec_text"], job["may_stop"], job["gpus"], job["tasks"]) == (text, True, 1, 1)
    assert job["task_roles"] == [
        {
            "name": "worker",
            "instances": 1,
            "gpus": 1,
            "gpu_model": "",
            "cell_type": "",
            "cells": 0,
            "within": "",
            "affinity_group": "",
            "cpus": 2.0,
            "memory_mb": 1024,
            "image": "test/image:1",
            "command": "echo hello",
            "ports": {},
            "task_retries": 0,
            "parallelism": None,
            "elastic": None,
            "states": {"WAITING": 1},
        }
    ]
    assert api.get(f"/jobs/{job['id']}").json() == job


def test_an_idempotency_key_makes_a_submit_repeatable(api, vc):
    text = YAML.format(name="hello")
    ids = {post(api, text, HTTP_IDEMPOTENCY_KEY="k1").json()["id"] for _ in range(3)}
    assert len(ids) == 1


REFUSALS = {
    "broken YAML": ("a: [", 400, "invalid_job"),
    "nothing": ("", 400, "invalid_job"),
    "not UTF-8": (b"\xff\xfe\x00", 400, "not_utf8"),
    "an unknown virtual cluster": (
        YAML.format(name="x").replace("vision", "nowhere"),
        404,
        "unknown_virtual_cluster",
    ),
    "more GPUs than it owns": (
        YAML.format(name="x").replace("    dockerImage", "    instances: 65\n    dockerImage"),
        400,
        "exceeds_quota",
    ),
    "one MB": ("a: " + "x" * 2**20, 413, "spec_too_large"),
    "a bomb": ("a: &a [x,x]\nb: [" + "*a," * 20_000 + "]", 400, "invalid_job"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_31_a_bad_submit_gets_its_typed_error(api, vc, case):
    body, status, code = REFUSALS[case]
    assert refusal(post(api, body)) == (status, code)


def test_problems_come_with_their_places(api, vc):
    answer = post(api, YAML.format(name="x").replace("gpu: 1", "gpu: one"))
    (error,) = answer.json()["details"]["errors"]
    assert set(error) == {"code", "message", "path", "line", "column"}
    assert (error["path"], error["line"]) == ("taskRoles.worker.resourcePerInstance.gpu", 9)


def test_a_taken_name_is_a_conflict(api, vc):
    assert post(api, YAML.format(name="x")).status_code == 201
    assert refusal(post(api, YAML.format(name="x"))) == (409, "job_name_taken")


def test_a_form_is_no_job_file(api, vc):
    answer = post(api, "a=b", "application/x-www-form-urlencoded")
    assert refusal(answer) == (415, "unsupported_media_type")


def test_check_answers_200_for_good_and_bad(api, vc):
    make_node("gpu-1", gpus=8)
    path = f"{ROOT}/jobs/check"
    text = YAML.format(name="x")
    good = api.client.post(path, text, content_type="text/yaml").json()
    assert (good["valid"], good["errors"]) == (True, [])
    assert good["summary"] == {"name": "x", "virtual_cluster": "vision", "gpus": 1, "tasks": 1}
    assert good["forecast"]["code"] == "starts_now"
    bad = api.client.post(path, text + "x: 1\n", content_type="text/yaml")
    assert bad.status_code == 200
    assert bad.json()["summary"] is None
    assert [e["code"] for e in bad.json()["errors"]] == ["unknown_field"]
    assert not Job.objects.exists()


def test_the_schema_is_served(api):
    assert "taskRoles" in api.get("/jobs/schema").json()["properties"]


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [job["name"] for job in answer.json()["results"]]


@pytest.fixture
def many(alice, vc):
    bob = make_user("bob")
    nlp = make_vc("nlp", members=[bob], vc_admins=[alice])
    make_job(vc, alice, name="b-old", state="FAILED", priority=10)
    make_job(vc, alice, name="a-mid", state="RUNNING", priority=100)
    make_job(nlp, bob, name="c-new", state="WAITING", priority=-1)
    make_job(make_vc("hidden"), make_user("carol"), name="hidden")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["c-new", "a-mid", "b-old"]),
        ({"ordering": "submitted_at"}, ["b-old", "a-mid", "c-new"]),
        ({"ordering": "name"}, ["a-mid", "b-old", "c-new"]),
        ({"ordering": "-name"}, ["c-new", "b-old", "a-mid"]),
        ({"ordering": "state"}, ["b-old", "a-mid", "c-new"]),
        ({"ordering": "-priority"}, ["a-mid", "b-old", "c-new"]),
        ({"state": "FAILED"}, ["b-old"]),
        ({"state": "FAILED,WAITING"}, ["c-new", "b-old"]),
        ({"virtual_cluster": "nlp"}, ["c-new"]),
        ({"virtual_cluster": "nlp,vision"}, ["c-new", "a-mid", "b-old"]),
        ({"virtual_cluster": "hidden"}, []),
        ({"owner": "bob"}, ["c-new"]),
        ({"owner": "carol"}, []),
        ({"search": "MID"}, ["a-mid"]),
        ({"search": "%"}, []),
        ({"state": "RUNNING", "owner": "alice", "search": "a"}, ["a-mid"]),
    ],
)
def test_the_list_is_filtered_and_ordered(api, many, query, expected):
    assert names(api.get("/jobs", **query)) == expected


@pytest.mark.parametrize("query", [{"state": "SLEEPING"}, {"ordering": "spec"}, {"ordering": "-"}])
def test_an_unknown_filter_is_refused_by_name(api, many, query):
    answer = api.get("/jobs", **query)
    assert refusal(answer) == (400, "invalid_filter")
    assert answer.json()["details"]["parameter"] in query


@pytest.mark.parametrize("ordering", ["-submitted_at", "submitted_at", "state", "-state", "name"])
def test_pages_hold_every_job_once_in_both_directions(api, alice, vc, ordering):
    for i in range(23):
        make_job(vc, alice, state="RUNNING" if i % 3 else "FAILED", name=f"n{i % 7}-{i}")
    everything = names(api.get("/jobs", ordering=ordering))
    assert len(everything) == 23
    seen, url = [], f"{ROOT}/jobs?limit=5&ordering={ordering}"
    while url:
        answer = api.client.get(url)
        seen += names(answer)
        last, url = answer.json(), answer.json()["next"]
    assert seen == everything
    back = [job["name"] for job in last["results"]]
    while last["previous"]:
        last = api.client.get(last["previous"]).json()
        back = [job["name"] for job in last["results"]] + back
    assert back == everything


def test_more_equal_rows_than_an_offset_may_count_are_paged(api, alice, vc):
    Job.objects.bulk_create(
        (
            Job(
                name=f"j{i}",
                owner=alice,
                vc=vc,
                state="FAILED",
                spec={},
                spec_text="",
                gpus=1,
                tasks_total=1,
            )
            for i in range(1600)
        ),
        batch_size=500,
    )
    seen: set[str] = set()
    url = f"{ROOT}/jobs?limit=500&ordering=state"
    while url:
        answer = api.client.get(url)
        seen |= set(names(answer))
        url = answer.json()["next"]
    assert len(seen) == 1600


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "WzEsMiwzXQ", "W10", "A" * 5000])
def test_a_forged_cursor_is_refused(api, many, cursor):
    assert refusal(api.get("/jobs", cursor=cursor)) == (404, "not_found")


@pytest.mark.parametrize(("limit", "size"), [("1", 1), ("", 3), ("9" * 50, 3)])
def test_a_limit_is_bounded(api, many, limit, size):
    assert len(names(api.get("/jobs", limit=limit))) == size


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5"])
def test_a_limit_is_a_number(api, many, limit):
    answer = api.get("/jobs", limit=limit)
    assert refusal(answer) == (400, "invalid_filter")
    assert answer.json()["details"]["parameter"] == "limit"


def test_the_list_takes_the_same_queries_for_any_number_of_jobs(api, alice, vc):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            api.get("/jobs", limit=100)
        assert not any("COUNT(" in query["sql"] for query in captured)
        return len(captured)

    make_job(vc, alice)
    few = queries()
    for _ in range(40):
        make_job(vc, alice)
    assert queries() == few <= 4


def test_the_list_leaves_the_job_files_where_they_are(api, alice, vc):
    submit(alice, vc)
    with CaptureQueriesContext(connection) as captured:
        api.get("/jobs")
    assert not any("spec_text" in query["sql"] for query in captured)


def test_detail_counts_the_states_of_each_role(api, alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, roles={"a": {"instances": 2}, "b": {"instances": 3}})
    report(attempts_of(job)[1:4], "running")
    roles = api.get(f"/jobs/{job.pk}").json()["task_roles"]
    assert [role["states"] for role in roles] == [
        {"ASSIGNED": 1, "RUNNING": 1},
        {"RUNNING": 2, "ASSIGNED": 1},
    ]


def test_a_waiting_job_says_why(api, alice, vc):
    make_node("gpu-1", gpus=2)
    job = submit(alice, vc, instances=4)
    tick()
    reason = api.get(f"/jobs/{job.pk}").json()["wait_reason"]
    assert set(reason) == {"code", "message", "details"}
    assert reason["code"] == "never_fits_vc"
    assert reason["message"]


@pytest.fixture
def big(alice):
    make_node("cpu-1", gpus=0, cpus=4000, memory_mb=4_000_000)
    vc = make_vc("big", members=[alice])
    return lambda instances: placed(alice, vc, gpus=0, instances=instances)


@pytest.mark.parametrize("path", ["", "/tasks?limit=500", "/events"])
def test_2000_tasks_take_as_many_queries_as_one(api, big, path):
    def queries(job: Job) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert api.client.get(f"{ROOT}/jobs/{job.pk}{path}").status_code == 200
        return len(captured)

    assert queries(big(2000)) == queries(big(1)) <= 6


def test_tasks_come_by_rank_with_their_newest_attempt(api, alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, roles={"ps": {"gpus": 0}, "worker": {"instances": 2, "gpus": 2}})
    report(attempts_of(job)[1], "running", container_id="c1")
    page = api.get(f"/jobs/{job.pk}/tasks").json()
    rows = [(t["role"], t["index"], t["rank"], t["state"]) for t in page["results"]]
    assert rows == [
        ("ps", 0, 0, "ASSIGNED"),
        ("worker", 0, 1, "RUNNING"),
        ("worker", 1, 2, "ASSIGNED"),
    ]
    attempt = page["results"][1]["attempt"]
    assert set(attempt) == {
        *("id", "index", "node", "state", "phase", "pull_percent", "gpu_uuids", "gpu_model"),
        *("network", "ports", "exit_code", "exit_signal", "oom_killed", "error_code"),
        *("error_message", "memory_peak_mb", "started_at", "finished_at"),
        *("retry", "xids", "disk_full", "diagnosis", "ready_at"),
        *("pull_bytes", "pull_total_bytes"),
    }
    assert (attempt["node"], attempt["gpu_model"], len(attempt["gpu_uuids"])) == (
        *("gpu-1", "A100"),
        2,
    )


@pytest.mark.parametrize(
    ("query", "ranks"),
    [
        ({"role": "worker"}, [1, 2]),
        ({"role": "ps,worker"}, [0, 1, 2]),
        ({"role": "none"}, []),
        ({"state": "RUNNING"}, [1]),
        ({"state": "ASSIGNED,RUNNING"}, [0, 1, 2]),
        ({"state": "WAITING"}, []),
        ({"limit": "2"}, [0, 1]),
    ],
)
def test_tasks_are_filtered(api, alice, vc, query, ranks):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, roles={"ps": {}, "worker": {"instances": 2}})
    report(attempts_of(job)[1], "running")
    page = api.get(f"/jobs/{job.pk}/tasks", **query).json()
    assert [task["rank"] for task in page["results"]] == ranks


def test_tasks_of_a_job_in_the_queue_wait(api, alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, retries=1, instances=2)
    report(attempts_of(job), "failed", error_code="engine_down")
    report(attempts_of(job), "released")
    tasks = api.get(f"/jobs/{job.pk}/tasks", state="WAITING").json()["results"]
    assert [(task["state"], task["attempt"]["index"]) for task in tasks] == [("WAITING", 1)] * 2
    assert api.get(f"/jobs/{job.pk}/tasks", state="FAILED").json()["results"] == []


def test_events_are_listed_oldest_first(api, alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc)
    report(attempts_of(job), "running", "exited")
    events = api.get(f"/jobs/{job.pk}/events").json()["results"]
    own = {"id", "at", "kind", "message", "data", "actor", "count", "first_at"}
    assert set(events[0]) == own
    assert (events[0]["kind"], events[0]["actor"]) == ("job.queued", "alice")
    assert events[1]["data"]["nodes"] == {"gpu-1": 1}
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)


def test_stop_answers_202_with_the_job(api, alice, vc):
    job = submit(alice, vc)
    answer = api.post(f"/jobs/{job.pk}/stop")
    assert (answer.status_code, answer.json()["state"]) == (202, "STOPPED")


@pytest.mark.parametrize("path", ["", "/tasks", "/events"])
def test_19_jobs_of_other_virtual_clusters_do_not_exist(alice, vc, path):
    job = submit(alice, vc)
    assert refusal(Api(make_user()).get(f"/jobs/{job.pk}{path}")) == (404, "not_found")
    assert Api(make_user(admin=True)).get(f"/jobs/{job.pk}{path}").status_code == 200


def test_32_what_a_tenant_writes_is_never_rendered(api, alice, vc):
    text = "{{7*7}} {% debug %} <script>alert(1)</script> ${HOME} %s {0}"
    job = submit(alice, vc, commands=[text])
    detail = api.get(f"/jobs/{job.pk}").json()
    assert detail["task_roles"][0]["command"] == text
    assert detail["spec_text"] == Job.objects.get().spec_text


def test_the_largest_job_file_is_stored_whole(api, vc):
    spec = job_file(vc)
    spec["description"] = "é" * 10_000
    text = json.dumps(spec, ensure_ascii=False)
    text += " " * (settings.SKEP_MAX_SPEC_BYTES - len(text.encode()))
    answer = post(api, text.encode(), "application/json")
    assert answer.status_code == 201
    assert answer.json()["spec_text"] == text


def test_finding_u23_the_list_has_a_total_for_each_filter(alice, vc, admin):
    bob = make_user("bob")
    other = make_vc("nlp", members=[bob, alice])
    for name in ("a-1", "a-2", "b-1"):
        make_job(vc, alice, name=name)
    make_job(vc, alice, name="over", state="STOPPED")
    make_job(other, bob, name="theirs")
    make_job(other, bob, name="opened", visibility="members")

    def total(api: Api, **query: str) -> int:
        listed = api.get("/jobs", limit=500, **query).json()["results"]
        counted = api.get("/jobs/count", **query).json()
        assert counted == {"total": len(listed), "more": False}
        return counted["total"]

    assert total(admin) == 6
    assert total(Api(alice)) == 5
    assert total(Api(make_user())) == 0
    assert total(Api(alice), state="WAITING") == 4
    assert total(Api(alice), state="STOPPED,FAILED") == 1
    assert total(Api(alice), search="A-") == 2
    assert total(Api(alice), virtual_cluster="nlp") == 1
    assert total(admin, owner="bob", tag="none") == 0
    assert refusal(admin.get("/jobs/count", state="NONE")) == (400, "invalid_filter")


@pytest.mark.parametrize("jobs", [3, 4, 40])
def test_finding_u23_a_total_stops_counting_and_takes_as_many_queries(
    alice, vc, admin, jobs, monkeypatch
):
    monkeypatch.setattr("skep_platform.jobs.api.COUNTED", 3)
    for _ in range(jobs):
        make_job(vc, alice)
    for api, queries in ((admin, 3), (Api(alice), 4)):
        with CaptureQueriesContext(
            connection,
        ) as seen:
            counted = api.get("/jobs/count").json()
        assert counted == {"total": 3, "more": jobs > 3}
        assert len(seen) <= queries
