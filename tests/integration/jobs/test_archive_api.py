"""Who finds which archived jobs, and what is answered where a job was archived."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.finished_jobs import archived_like, job_that_ran
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.accounts.services import create_job_token
from skep_platform.jobs import archive
from skep_platform.jobs.archive import ArchivedJob
from skep_platform.operations import archiving
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db
OWNER, MEMBERS, EVERYONE = "owner", "members", "everyone"
ALWAYS = {"alice", "vc_admin", "admin"}
MEMBERS_TOO = ALWAYS | {"bob"}
ALL = MEMBERS_TOO | {"elsewhere", "nobody"}
OF_BOTH = {
    "": {OWNER: ALWAYS, MEMBERS: MEMBERS_TOO, EVERYONE: ALL},
    OWNER: dict.fromkeys([OWNER, MEMBERS, EVERYONE], ALWAYS),
    MEMBERS: dict.fromkeys([OWNER, MEMBERS, EVERYONE], MEMBERS_TOO),
    EVERYONE: dict.fromkeys([OWNER, MEMBERS, EVERYONE], ALL),
}


@pytest.fixture
def people(settings) -> dict[str, Api]:
    settings.SKEP_JOB_ARCHIVE_DAYS = 60
    names = ["alice", "bob", "vc_admin", "elsewhere", "nobody"]
    users = {name: make_user(name) for name in names} | {"admin": make_user("admin", admin=True)}
    make_vc(
        "team",
        quotas={"A100": 8},
        members=[users["alice"], users["bob"]],
        vc_admins=[users["vc_admin"]],
    )
    make_vc("other", vc_admins=[users["elsewhere"]])
    return {name: Api(user) for name, user in users.items()}


@pytest.fixture
def team(people) -> VirtualCluster:
    return VirtualCluster.objects.get(name="team")


def archived(people, team, **fields) -> ArchivedJob:
    job = job_that_ran(people["alice"].user, team, **fields)
    assert archiving.archive_old() == 1
    return ArchivedJob.objects.get(pk=job.pk)


def listed(api: Api, **query: object) -> list[str]:
    answer = api.get("/archived-jobs", **query)
    assert answer.status_code == 200, answer.content
    return [job["name"] for job in answer.json()["results"]]


def who_sees(people: dict[str, Api], row: ArchivedJob) -> set[str]:
    """By every way in which an archived job can be read; they agree, or this fails."""
    seen = set()
    for name, api in people.items():
        ways = {
            api.get(f"/archived-jobs/{row.pk}").status_code == 200,
            refusal(api.get(f"/jobs/{row.pk}")) == (404, "job_archived"),
            refusal(api.get(f"/jobs/{row.pk}/events")) == (404, "job_archived"),
            row.name in listed(api),
            row.name in listed(api, search=row.name[1:5]),
            row.name in listed(api, virtual_cluster="team"),
        }
        assert len(ways) == 1, (name, ways)
        if ways == {True}:
            seen.add(name)
    return seen


@pytest.mark.parametrize(
    ("of_job", "of_vc"), list(itertools.product(OF_BOTH, [OWNER, MEMBERS, EVERYONE]))
)
def test_who_saw_a_job_sees_it_in_the_archive_and_no_one_else(people, team, of_job, of_vc):
    VirtualCluster.objects.filter(pk=team.pk).update(job_visibility=of_vc)
    row = archived(people, team, name="secret-plan", visibility=of_job)
    assert who_sees(people, row) == OF_BOTH[of_job][of_vc]


def test_a_hidden_job_is_answered_as_one_that_does_not_exist(people, team):
    row = archived(people, team)
    for path in ("/jobs/{}", "/archived-jobs/{}"):
        answers = []
        for pk in (row.pk, uuid4()):
            with CaptureQueriesContext(connection) as queries:
                answer = people["bob"].get(path.format(pk))
            answers.append((answer.status_code, answer.content, len(queries)))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404


def test_the_answer_for_an_archived_job_says_where_it_is(people, team):
    row = archived(people, team)
    error = people["alice"].get(f"/jobs/{row.pk}").json()
    assert error["details"]["address"] == f"/api/v1/archived-jobs/{row.pk}"
    assert error["details"]["address"] in error["message"]


def test_tokens_of_jobs_do_not_reach_the_archive(people, team):
    row = archived(people, team)
    alice = people["alice"].user
    running = make_job(team, alice, state="RUNNING")
    api = Api()
    token = create_job_token(alice, running.pk, team.pk, "job", "submit")
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert refusal(api.get("/archived-jobs")) == (403, "job_token_not_allowed")
    assert refusal(api.get(f"/archived-jobs/{row.pk}")) == (403, "job_token_not_allowed")
    assert refusal(api.get(f"/jobs/{row.pk}")) == (404, "not_found")


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("stop", {}),
        ("retry", {}),
        ("opportunistic", {}),
        ("end-retries", {}),
        ("move", {"node": "n"}),
    ],
)
def test_a_job_that_is_archived_just_before_it_is_changed_is_answered_as_archived(
    people, team, action, body
):
    job = job_that_ran(people["alice"].user, team)
    done = []

    def archive_first(execute: Any, sql: str, *rest: Any) -> Any:
        if 'FROM "jobs_job"' in sql and "FOR NO KEY UPDATE" in sql and not done:
            done.append(sql)
            assert archiving.archive_old() == 1
        return execute(sql, *rest)

    with connection.execute_wrapper(archive_first):
        answer = people["alice"].post(f"/jobs/{job.pk}/{action}", body)
    assert done
    assert refusal(answer) == (404, "job_archived")


def test_a_job_is_shown_with_its_record(people, team):
    row = archived(people, team, name="train", tags=["night"])
    shown = people["alice"].get(f"/archived-jobs/{row.pk}").json()
    assert (shown["name"], shown["owner"], shown["virtual_cluster"]) == ("train", "alice", "team")
    assert (shown["tasks"], shown["gpus"], shown["tags"]) == (1, 2, ["night"])
    assert shown["attempts"][0]["diagnosis_code"] == 137
    assert shown["task_roles"][0]["name"] == "worker"
    assert shown["events"][-1]["kind"] == "job.submitted"
    assert shown["use"]["gpu_hours"] == 4.0


def test_filters_and_pages(people, team):
    job = make_job(team, people["alice"].user)
    now = timezone.now()
    other = VirtualCluster.objects.get(name="other")
    for number in range(5):
        at = now - timedelta(days=100 - number)
        state = "FAILED" if number % 2 else "SUCCEEDED"
        archived_like(job, name=f"run-{number}", submitted_at=at, finished_at=at, state=state)
    archived_like(job, name="gone", owner=None, owner_name="carol", vc=other, vc_name="other")
    admin = people["admin"]
    assert listed(admin) == ["gone", "run-4", "run-3", "run-2", "run-1", "run-0"]
    assert listed(admin, state="FAILED") == ["run-3", "run-1"]
    assert listed(admin, owner="carol") == ["gone"]
    assert listed(admin, virtual_cluster="other") == ["gone"]
    assert listed(admin, search="UN-2") == ["run-2"]
    day = (now - timedelta(days=98)).date().isoformat()
    assert listed(admin, since=day)[-1] == "run-2"
    assert listed(admin, until=day) == ["run-2", "run-1", "run-0"]
    assert refusal(admin.get("/archived-jobs", state="GONE")) == (400, "invalid_filter")
    first = admin.get("/archived-jobs", limit=4).json()
    second = admin.client.get(first["next"]).json()
    assert [one["name"] for one in second["results"]] == ["run-1", "run-0"]
    assert listed(people["alice"], limit=2) == ["run-4", "run-3"]


def test_a_job_whose_owner_and_virtual_cluster_are_gone_is_for_admins(people, team):
    row = archived(people, team)
    ArchivedJob.objects.filter(pk=row.pk).update(owner=None, vc=None)
    assert {name for name, api in people.items() if listed(api)} == {"admin"}
    shown = people["admin"].get(f"/archived-jobs/{row.pk}").json()
    assert (shown["owner"], shown["virtual_cluster"]) == ("alice", "team")


def test_a_page_costs_as_many_queries_for_many_rows_as_for_few(people, team):
    job = make_job(team, people["alice"].user)

    def queries(rows: int) -> int:
        for _ in range(rows):
            archived_like(job)
        with CaptureQueriesContext(connection) as captured:
            listed(people["alice"])
        return len(captured)

    assert queries(1) == queries(9)


def test_a_name_is_a_whole_one_and_is_found_by_the_index_of_searches(people, team):
    for name in ("train", "train-2", "Train", "ab"):
        archived(people, team, name=name)
    api = people["alice"]
    assert [listed(api, name=name) for name in ("train", "ab", "rain", "a")] == [
        *(["train"], ["ab"], [], []),
    ]
    assert listed(api, name="train", search="train") == ["train"]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    for name in ("train", "ab"):
        rows = archive.search(ArchivedJob.objects.all(), name=name).order_by().values("pk")
        assert "archived_name_search" in rows.explain()
