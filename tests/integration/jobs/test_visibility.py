"""Who sees a job: its owner, VC admins and admins, and whom it was opened to."""

from __future__ import annotations

import itertools
import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.accounts import groups
from skep_platform.gateway.live import visible_jobs
from skep_platform.jobs import shares, visibility
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db

READS = (
    *("", "/tasks", "/tasks/0/attempts", "/attempts", "/events", "/logs", "/logs/search?q=x"),
    *("/logs/download", "/metrics", "/use"),
)
LITERAL = re.compile(r"'[^']*'")
OWNER, MEMBERS, EVERYONE = "owner", "members", "everyone"


@pytest.fixture
def people() -> dict[str, Api]:
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
def team(people):
    return Membership.objects.get(user=people["alice"].user).vc


def listed(api: Api, **query: object) -> set[str]:
    answer = api.get("/jobs", **query)
    assert answer.status_code == 200, answer.content
    return {job["name"] for job in answer.json()["results"]}


def who_sees(people: dict[str, Api], job) -> set[str]:
    """By every way in which a job can be read; they agree, or this fails."""
    seen: dict[str, set[str]] = {}
    for name, api in people.items():
        ways = {
            *(api.get(f"/jobs/{job.pk}{path}").status_code == 200 for path in READS[:6]),
            job.name in listed(api),
            job.name in listed(api, search=job.name),
            job.name in listed(api, virtual_cluster="team", ordering="name"),
            bool(visible_jobs(api.user, [str(job.pk)])),
            api.get("/cluster").json()["jobs"].get("WAITING", 0) == 1,
        }
        assert len(ways) == 1, (name, ways)
        seen[name] = ways
    return {name for name, ways in seen.items() if ways == {True}}


ALWAYS = {"alice", "vc_admin", "admin"}
MEMBERS_TOO = ALWAYS | {"bob"}
ALL = MEMBERS_TOO | {"elsewhere", "nobody"}
OF_BOTH = {
    "": {OWNER: ALWAYS, MEMBERS: MEMBERS_TOO, EVERYONE: ALL},
    OWNER: dict.fromkeys([OWNER, MEMBERS, EVERYONE], ALWAYS),
    MEMBERS: dict.fromkeys([OWNER, MEMBERS, EVERYONE], MEMBERS_TOO),
    EVERYONE: dict.fromkeys([OWNER, MEMBERS, EVERYONE], ALL),
}


@pytest.mark.parametrize(
    ("of_job", "of_vc"), list(itertools.product(OF_BOTH, [OWNER, MEMBERS, EVERYONE]))
)
def test_finding_s8_the_job_or_else_its_virtual_cluster_says_who_else_sees_it(
    people, team, of_job, of_vc
):
    job = make_job(team, people["alice"].user, name="secret-plan", visibility=of_job)
    changed = people["vc_admin"].patch("/virtual-clusters/team", {"job_visibility": of_vc})
    assert changed.json()["job_visibility"] == of_vc
    assert who_sees(people, job) == OF_BOTH[of_job][of_vc]


def test_finding_s8_a_job_is_private_by_default(people, team):
    job = submit(people["alice"].user, team, name="mine")
    assert who_sees(people, job) == ALWAYS
    assert people["alice"].get(f"/jobs/{job.pk}").json()["seen_by"] == OWNER


@pytest.mark.parametrize("path", READS)
def test_finding_s8_a_hidden_job_is_answered_as_one_that_does_not_exist(people, team, path):
    """Same body and same queries, so that neither the answer nor its cost distinguishes them."""
    job = make_job(team, people["alice"].user)
    answers = []
    for pk in (job.pk, uuid4()):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            answer = people["bob"].get(f"/jobs/{pk}{path}")
        statements = [LITERAL.sub("?", q["sql"]) for q in queries.captured_queries]
        answers.append((answer.status_code, answer.content, statements))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


def test_finding_s8_the_owner_opens_a_job_and_closes_it_again(people, team):
    job = submit(people["alice"].user, team, name="shared", skep={"visibility": MEMBERS})
    assert who_sees(people, job) == MEMBERS_TOO
    path = f"/jobs/{job.pk}/visibility"
    assert refusal(people["bob"].put(path, {"visibility": EVERYONE})) == (403, "may_not_share")
    assert refusal(people["vc_admin"].put(path, {"visibility": OWNER})) == (403, "may_not_share")
    opened = people["alice"].put(path, {"visibility": EVERYONE}).json()
    assert (opened["visibility"], opened["seen_by"]) == (EVERYONE, EVERYONE)
    assert who_sees(people, job) == ALL
    assert people["alice"].put(path, {"visibility": OWNER}).status_code == 200
    assert who_sees(people, job) == ALWAYS
    shown = people["alice"].get(f"/jobs/{job.pk}/events").json()["results"]
    assert [event["kind"] for event in shown].count("job.visibility") == 2


def test_a_job_is_shared_with_a_user_and_closed_again(people, team):
    job = make_job(team, people["alice"].user, name="secret-plan")
    path = f"/jobs/{job.pk}/shares"
    for _ in range(2):
        assert people["alice"].put(f"{path}/users/nobody").json()["name"] == "nobody"
    assert who_sees(people, job) == ALWAYS | {"nobody"}
    assert listed(people["nobody"], shared="true") == {job.name}
    assert listed(people["alice"], shared="true") == set()
    shown = people["alice"].get(path).json()["shares"]
    assert [(one["kind"], one["name"]) for one in shown] == [("user", "nobody")]
    for name in ("nobody", "vc_admin"):  # a reader does not learn who else reads it
        assert refusal(people[name].get(path)) == (403, "may_not_share")
        assert refusal(people[name].put(f"{path}/users/bob")) == (403, "may_not_share")
    mine = people["nobody"].get(f"/jobs/{job.pk}").json()
    assert [mine[f"may_{what}"] for what in ("stop", "exec", "share")] == [False] * 3
    events = people["nobody"].get(f"/jobs/{job.pk}/events").json()["results"]
    assert "nobody" not in str(events)
    assert people["alice"].delete(f"{path}/users/nobody").status_code == 204
    assert who_sees(people, job) == ALWAYS
    assert people["alice"].delete(f"{path}/users/nobody").status_code == 404


def test_a_job_that_is_shared_with_a_group_is_seen_by_those_who_are_in_it_now(people, team):
    admin = people["admin"].user
    group = groups.create(admin, "research")
    job = make_job(team, people["alice"].user)
    path = f"/jobs/{job.pk}/shares/groups/research"
    assert people["alice"].put(path).status_code == 404  # she does not know of this group
    groups.add_members(admin, group, ["alice", "elsewhere"])
    assert people["alice"].put(path).status_code == 200
    assert who_sees(people, job) == ALWAYS | {"elsewhere"}
    groups.remove_member(admin, group, "elsewhere")
    assert who_sees(people, job) == ALWAYS


def test_sharing_with_no_one_or_with_too_many_is_refused(people, team, monkeypatch):
    job = make_job(team, people["alice"].user)
    path = f"/jobs/{job.pk}/shares/users"
    assert refusal(people["alice"].put(f"{path}/ghost")) == (404, "not_found")
    assert refusal(people["alice"].put(f"{path}/alice")) == (400, "share_with_owner")
    monkeypatch.setattr(shares, "MOST", 1)
    people["alice"].put(f"{path}/bob")
    assert refusal(people["alice"].put(f"{path}/nobody")) == (409, "too_many_shares")


def test_the_list_of_a_user_with_very_many_shared_jobs_is_complete(people, team, monkeypatch):
    monkeypatch.setattr(visibility, "FEW", 2)
    jobs = [make_job(team, people["alice"].user, name=f"shared-{n}") for n in range(4)]
    for job in jobs:
        people["alice"].put(f"/jobs/{job.pk}/shares/users/nobody")
    assert listed(people["nobody"]) == {job.name for job in jobs}
    assert people["nobody"].get("/jobs/count").json()["total"] == 4


def test_finding_s8_an_unknown_visibility_is_reported_with_its_line(people, team):
    file = job_file(team, skep={"visibility": "friends"})
    found = people["alice"].post("/jobs/check", file).json()
    assert not found["valid"]
    assert "visibility" in found["errors"][0]["path"]


def test_finding_s8_seeing_a_job_is_no_right_to_change_or_enter_it(people, team):
    job = make_job(team, people["alice"].user, visibility=EVERYONE)
    for name in ("bob", "elsewhere", "nobody"):
        shown = people[name].get(f"/jobs/{job.pk}").json()
        assert [shown[f"may_{what}"] for what in ("stop", "exec", "share")] == [False] * 3
        assert people[name].post(f"/jobs/{job.pk}/stop").status_code == 403
        assert people[name].post(f"/jobs/{job.pk}/clone", {}).status_code == 403


def test_finding_s8_a_member_who_leaves_keeps_seeing_the_own_jobs_only(people, team):
    mine = make_job(team, people["bob"].user, name="mine")
    theirs = make_job(team, people["alice"].user, name="theirs", visibility=MEMBERS)
    Membership.objects.filter(user=people["bob"].user).delete()
    assert listed(people["bob"]) == {mine.name}
    assert people["bob"].get(f"/jobs/{theirs.pk}").status_code == 404


def test_finding_s8_pages_of_the_list_are_complete_and_in_order(people, team):
    """Jobs come by several ways (own, opened, managed); each stands in the list once."""
    alice, bob = people["alice"].user, people["bob"].user
    seen = []
    for n in range(30):
        owner, visibility = (alice, EVERYONE) if n % 3 == 0 else (bob, ["", MEMBERS][n % 2])
        job = make_job(team, owner, name=f"job-{n:02}", visibility=visibility)
        if owner == alice or visibility:
            seen.append(job.name)
    for ordering, expected in (("-submitted_at", seen[::-1]), ("name", seen)):
        found, cursor = [], {}
        while cursor is not None:
            page = people["alice"].get("/jobs", limit=4, ordering=ordering, **cursor).json()
            found += [job["name"] for job in page["results"]]
            cursor = page["next"] and {"cursor": page["next"].split("cursor=")[1].split("&")[0]}
        assert found == expected


MANY = 20_000
FILL = """
INSERT INTO jobs_job SELECT (jsonb_populate_record(t, jsonb_build_object(
        'id', gen_random_uuid(), 'name', 'bulk-' || i, 'vc_id', %s::uuid,
        'created_at', now() - make_interval(secs => i)))).*
  FROM jobs_job AS t, generate_series(1, %s) AS i WHERE t.id = %s
"""


def test_finding_s8_the_list_is_found_by_indexes_however_many_jobs_others_have(people, team):
    """Two own jobs, older than all those of others: a walk from the newest would pass them all."""
    others = make_job(make_vc("bulk"), make_user("bulk"))
    mine = [make_job(team, people["bob"].user, name=f"old-{n}") for n in range(2)]
    with connection.cursor() as cursor:
        cursor.execute(FILL, [others.vc_id, MANY, others.pk])
        cursor.execute(
            "UPDATE jobs_job SET created_at = now() - interval '9 years' WHERE owner_id = %s",
            [people["bob"].user.pk],
        )
        cursor.execute("ANALYZE jobs_job")
    for query in ({}, {"state": "WAITING"}, {"ordering": "submitted_at"}):
        with CaptureQueriesContext(connection) as queries:
            assert listed(people["bob"], **query) == {job.name for job in mine}
        sql = next(q["sql"] for q in queries.captured_queries if "UNION" in q["sql"])
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql)
            plan = cursor.fetchone()[0][0]["Plan"]
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert touched < 300, plan


def test_finding_s8_reading_into_a_running_task_is_hidden_too(people, team):
    from skep_platform.core.errors import NotFound
    from skep_platform.gateway.callers import Asked, reach

    node = make_node("n1", gpus=1)
    job = make_job(team, people["alice"].user, state="RUNNING")
    attempt = place(job, list(node.devices.all()), state="RUNNING")
    for attempt_id in (attempt.pk, uuid4()):
        with pytest.raises(NotFound, match="There is no such task attempt"):
            reach(people["bob"].user, attempt_id, Asked("exec", argv=("sh",)))
    stream = f"/attempts/{attempt.pk}/logs/stdout"
    assert people["bob"].get(stream).status_code == 404
    assert people["vc_admin"].get(stream).status_code == 200
