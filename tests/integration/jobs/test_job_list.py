"""The list of jobs: filters by cause and time, saved views, and changes to several jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.jobs import queries
from skep_platform.jobs.models import Job
from skep_platform.jobs.saved_views import MOST_VIEWS
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice):
    return Api(alice)


@pytest.fixture
def make_member(vc):
    """A function that makes a user who is in the virtual cluster, too."""

    def make(name: str) -> Any:
        user = make_user(name)
        Membership.objects.create(vc=vc, user=user)
        return user

    return make


def failed(vc: Any, owner: Any, name: str, code: int, title: str, category: str) -> Job:
    diagnosis = {"code": code, "name": title, "category": category}
    return make_job(vc, owner, name=name, state="FAILED", diagnosis=diagnosis)


def submitted(job: Job, at: datetime) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=at)


def names(api: Api, **query: str) -> list[str]:
    answer = api.get("/jobs", **query)
    assert answer.status_code == 200, answer.content
    found = [job["name"] for job in answer.json()["results"]]
    assert api.get("/jobs/count", **query).json()["total"] == len(found)
    return found


@pytest.fixture
def causes(alice, vc):
    failed(vc, alice, "host", 137, "UserContainerDockerOOMKilled", "CPU out of memory")
    failed(vc, alice, "gpu", 221, "CudaOutOfMemory", "GPU out of memory")
    failed(vc, alice, "special", 221, "CudaOutOfMemory", "Model diverged")
    make_job(vc, alice, name="fine", state="SUCCEEDED")
    failed(make_vc("other"), make_user("bob"), "theirs", 221, "CudaOutOfMemory", "Core dump")


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("221", ["special", "gpu"]),
        ("gpu out of memory", ["gpu"]),
        ("Model diverged", ["special"]),
        ("GPU out of memory,CPU out of memory", ["gpu", "host"]),
        ("core dump", []),
    ],
)
def test_jobs_are_found_by_the_cause_of_their_failure(api, causes, cause, expected):
    assert names(api, cause=cause) == expected


def test_jobs_are_found_by_the_name_of_their_failure(admin, causes, api):
    from skep_diagnosis.table import table

    assert names(api, cause=table().code(221).name) == ["special", "gpu"]
    assert names(admin, cause="221", search="the") == ["theirs"]


def test_every_listed_cause_is_a_filter(api):
    known = api.get("/jobs/causes").json()
    assert "GPU out of memory" in known["categories"]
    some = [*known["categories"][:10], *(one["name"] for one in known["failures"][:10])]
    assert names(api, cause=",".join(some)) == []


def test_jobs_are_found_by_the_day_of_their_submission(api, alice, vc):
    for day in (20, 21, 22):
        at = datetime(2026, 5, day, 12, tzinfo=UTC)
        submitted(make_job(vc, alice, name=f"on-{day}"), at)
    assert names(api, since="2026-05-21") == ["on-22", "on-21"]
    assert names(api, until="2026-05-21") == ["on-21", "on-20"]
    assert names(api, since="2026-05-21", until="2026-05-21") == ["on-21"]
    assert names(api, since="2026-05-21T14:00:00+02:00") == ["on-22", "on-21"]
    assert names(api, until="2026-05-21T12:00:00Z") == ["on-20"]


def test_a_span_counts_back_from_now(api, alice, vc):
    submitted(make_job(vc, alice, name="old"), timezone.now() - timedelta(days=8))
    make_job(vc, alice, name="new")
    assert names(api, since="7d") == ["new"]
    assert names(api, until="1w") == ["old"]
    assert names(api, since="200h") == ["new", "old"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cause", "bad luck"),
        ("cause", ",".join(["221"] * 21)),
        ("since", "yesterday"),
        ("since", "2026-13-01"),
        ("until", "9999-12-31"),
        ("until", "2026-05-21T12:00:00"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(api, name, value):
    answer = api.get("/jobs", **{name: value})
    assert refusal(answer) == (400, "invalid_filter")
    assert answer.json()["details"]["parameter"] == name


def test_a_cause_is_one_more_query_for_any_number_of_jobs(api, alice, vc):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            api.get("/jobs", cause="221,Core dump", since="7d", limit=100)
        return len(captured)

    failed(vc, alice, "first", 221, "CudaOutOfMemory", "GPU out of memory")
    few = queries()
    for n in range(30):
        failed(vc, alice, f"more-{n}", 221, "CudaOutOfMemory", "GPU out of memory")
    assert queries() == few <= 5


def test_a_cause_is_found_by_its_index(alice, vc):
    for n in range(30):
        failed(vc, alice, f"more-{n}", 221, "CudaOutOfMemory", "GPU out of memory")
    jobs = Job.objects.filter(diagnosis__contains={"code": 221}).order_by().values("pk")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "job_by_cause" in jobs.explain()


def test_a_name_is_a_whole_one_as_it_is_written(api, alice, vc, make_member):
    for name in ("train", "train-2", "Train"):
        make_job(vc, alice, name=name)
    make_job(vc, make_member("bob"), name="train", visibility="members")
    assert names(api, name="train") == ["train", "train"]
    assert names(api, name="train", owner="bob") == ["train"]
    # As the client asks, which works with servers that know `search` alone.
    assert names(api, name="train", search="train") == ["train", "train"]
    assert names(api, name="train", search="ain-2") == []
    assert names(api, name="rain") == []


def test_a_name_is_found_by_its_index(alice, vc):
    for n in range(30):
        make_job(vc, alice, name=f"more-{n}")
    jobs = queries.search(Job.objects.all(), name="more-7")
    found = Job.objects.filter(name="more-7").order_by().values("pk")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "job_order_name" in found.explain()
    assert [job.name for job in jobs] == ["more-7"]


FILTERS = {"state": "FAILED", "cause": "GPU out of memory", "since": "7d", "shared": True}


def test_a_view_is_saved_picked_and_deleted(api):
    saved = api.post("/me/job-views", {"name": "Out of memory", "filters": FILTERS})
    assert saved.status_code == 201, saved.content
    assert saved.json()["filters"] == FILTERS
    (found,) = api.get("/me/job-views").json()["views"]
    assert found == saved.json()
    assert api.delete(f"/me/job-views/{found['id']}").status_code == 204
    assert api.get("/me/job-views").json()["views"] == []


def test_a_name_holds_one_view(api):
    for state in ("FAILED", "RUNNING"):
        api.post("/me/job-views", {"name": "mine", "filters": {"state": state}})
    (found,) = api.get("/me/job-views").json()["views"]
    assert found["filters"] == {"state": "RUNNING"}


def test_views_are_their_users_own(api):
    made = api.post("/me/job-views", {"name": "mine", "filters": {}}).json()
    other = Api(make_user("bob"))
    assert other.get("/me/job-views").json()["views"] == []
    assert refusal(other.delete(f"/me/job-views/{made['id']}")) == (404, "not_found")
    assert other.post("/me/job-views", {"name": "mine", "filters": {}}).status_code == 201


def test_views_are_bounded(api):
    for n in range(MOST_VIEWS):
        assert api.post("/me/job-views", {"name": f"v{n}", "filters": {}}).status_code == 201
    more = {"name": "more", "filters": {}}
    assert refusal(api.post("/me/job-views", more)) == (409, "too_many_views")
    assert api.post("/me/job-views", {"name": "v0", "filters": FILTERS}).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "filters": {}},
        {"name": "x" * 65, "filters": {}},
        {"name": "x", "filters": {"cursor": "abc"}},
        {"name": "x", "filters": {"tag": "t" * 501}},
        {"name": "x"},
    ],
)
def test_a_view_has_a_name_and_known_filters(api, body):
    assert refusal(api.post("/me/job-views", body)) == (400, "invalid")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "BROKEN"),
        ("cause", "bad luck"),
        ("since", "yesterday"),
        ("until", "2026-05-21T12:00:00"),
        ("ordering", "-luck"),
    ],
)
def test_a_view_of_a_filter_that_means_nothing_is_refused(api, name, value):
    answer = api.post("/me/job-views", {"name": "x", "filters": {name: value}})
    assert refusal(answer) == (400, "invalid_filter")
    assert answer.json()["details"]["parameter"] == name
    assert api.get("/me/job-views").json()["views"] == []


def test_a_view_keeps_times_and_spans_as_they_are(api):
    filters = {"since": "2026-05-21T14:00:00+02:00", "until": "12h", "ordering": "-name"}
    saved = api.post("/me/job-views", {"name": "x", "filters": filters})
    assert saved.json()["filters"] == filters


def test_several_jobs_are_stopped_and_each_refusal_is_reported(api, alice, vc):
    mine = [make_job(vc, alice) for _ in range(2)]
    opened = make_job(make_vc("team", members=[alice]), make_user("bob"), visibility="members")
    hidden = make_job(make_vc("hidden"), make_user("carol"))
    ids = [str(job.pk) for job in (mine[0], opened, hidden, mine[1])]
    answer = api.post("/jobs/bulk/stop", {"jobs": [*ids, ids[0]]})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [one["id"] for one in results] == ids
    assert [one["code"] for one in results] == ["", "may_not_stop", "not_found", ""]
    assert [one["done"] for one in results] == [True, False, False, True]
    assert results[1]["message"].startswith("Only the owner")
    states = dict(Job.objects.values_list("pk", "state"))
    assert {states[job.pk] for job in mine} == {"STOPPED"}
    assert {states[opened.pk], states[hidden.pk]} == {"WAITING"}


def test_tags_of_several_jobs_are_added_and_removed(api, alice, vc):
    first = make_job(vc, alice, tags=["a", "b"])
    second = make_job(vc, alice, tags=["c"])
    ids = [str(first.pk), str(second.pk)]
    answer = api.post("/jobs/bulk/tags", {"jobs": ids, "add": ["a", "new"], "remove": ["b"]})
    assert all(one["done"] for one in answer.json()["results"])
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.tags, second.tags) == (["a", "new"], ["c", "a", "new"])


def test_a_bad_tag_is_refused_for_each_job(api, alice, vc):
    job = make_job(vc, alice)
    answer = api.post("/jobs/bulk/tags", {"jobs": [str(job.pk)], "add": ["not one"]})
    assert [one["code"] for one in answer.json()["results"]] == ["invalid_tag"]


@pytest.mark.parametrize("jobs", [[], ["x"], ["00000000-0000-7000-8000-000000000000"] * 101])
def test_a_request_names_1_to_100_jobs(api, jobs):
    assert refusal(api.post("/jobs/bulk/stop", {"jobs": jobs})) == (400, "invalid")
