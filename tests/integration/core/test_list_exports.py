"""Lists as CSV: what the list has, for whom it has it, in its order, and nothing else."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.one_of_each import make_all, make_users
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.audit.services import record
from skep_platform.core import exports, throttling
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db

LISTS = ["/jobs", "/users", "/nodes", "/tokens", "/images", "/storages", "/groups"]


@pytest.fixture(autouse=True)
def one_connection(monkeypatch):
    """An export gives its connection back between two pieces; here it holds the test's rows."""
    monkeypatch.setattr("skep_platform.core.serving.close_old_connections", lambda: None)


def exported(api: Api, path: str, **query: Any) -> list[dict[str, str]]:
    answer = api.get(path, format="csv", **query)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith("attachment; filename=")

    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return list(csv.DictReader(io.StringIO(async_to_sync(read)().decode(), newline="")))


@pytest.mark.parametrize("path", LISTS)
def test_a_file_has_the_rows_of_the_list_in_its_order(path):
    users = make_users()
    make_all(users)
    api = Api(users["admin"])
    listed = api.get(path, limit=500).json()["results"]
    rows = exported(api, path)
    assert listed or path == "/groups"
    assert len(rows) == len(listed)
    for row, shown in zip(rows, listed, strict=True):
        plain = {name: value for name, value in shown.items() if isinstance(value, str)}
        assert {name: row[name] for name in plain} == plain


def test_a_file_has_only_what_its_reader_may_see_and_has_asked_for():
    ours, theirs = make_user(), make_user()
    vc, other = make_vc(members=[ours]), make_vc(members=[theirs])
    for state in ("RUNNING", "RUNNING", "WAITING"):
        make_job(vc, ours, state=state)
    make_job(other, theirs, state="RUNNING")
    assert {row["virtual_cluster"] for row in exported(Api(ours), "/jobs")} == {vc.name}
    assert len(exported(Api(ours), "/jobs", state="RUNNING")) == 2
    assert exported(Api(ours), "/jobs", virtual_cluster=vc.name, search="nothing") == []
    names = [row["name"] for row in exported(Api(ours), "/jobs", ordering="name")]
    assert names == sorted(names)
    assert refusal(Api(ours).get("/users", format="csv")) == (403, "forbidden")
    assert Api().get("/jobs", format="csv").status_code == 401


def test_a_name_that_is_a_formula_is_text_and_parts_have_columns_of_their_own():
    user = make_user()
    job = make_job(make_vc(members=[user]), user, tags=["a", "b"])
    Job.objects.filter(pk=job.pk).update(name='=HYPERLINK("http://example.org")')
    (row,) = exported(Api(user), "/jobs")
    assert row["name"] == '\'=HYPERLINK("http://example.org")'
    assert row["tags"] == "a; b"


def test_a_file_is_read_in_pieces_with_the_same_queries_for_each(monkeypatch):
    user = make_user()
    vc = make_vc(members=[user])
    jobs = [str(make_job(vc, user).pk) for _ in range(7)]
    api = Api(user)

    def queries(piece: int) -> int:
        monkeypatch.setattr(exports, "PIECE", piece)
        with CaptureQueriesContext(connection) as captured:
            rows = exported(api, "/jobs", limit=1, cursor="x")
        assert [row["id"] for row in rows] == jobs[::-1]
        return len(captured)

    one, two, four, seven = queries(7), queries(4), queries(2), queries(1)
    assert four - two == 2 * (two - one)
    assert seven - one == 6 * (two - one)


@pytest.mark.parametrize("path", ["/jobs", "/audit", "/virtual-clusters"])
def test_more_rows_than_a_file_may_have_are_refused(path, monkeypatch):
    users = make_users()
    make_all(users)
    record("storage.delete", "storage", "1", "data")
    api = Api(users["admin"])
    count = len(api.get(path).json()["results"])
    assert count
    monkeypatch.setattr(exports, "PIECE", 1)
    monkeypatch.setattr(exports, "MOST_ROWS", count)
    assert len(exported(api, path)) == count
    monkeypatch.setattr(exports, "MOST_ROWS", count - 1)
    assert refusal(api.get(path, format="csv")) == (400, "too_many_rows")


def test_an_unknown_format_is_refused_and_files_are_counted(monkeypatch):
    api = Api(make_user())
    assert refusal(api.get("/jobs", format="xml")) == (400, "invalid_filter")
    assert api.get("/jobs", format="json").json()["results"] == []
    monkeypatch.setattr(throttling.Exports, "most", 1)
    assert exported(api, "/jobs") == []
    assert refusal(api.get("/jobs", format="csv")) == (429, "throttled")
    assert api.get("/jobs").status_code == 200
