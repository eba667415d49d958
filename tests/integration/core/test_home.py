"""The first page: one bounded answer, with a constant number of queries."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import placed, submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_user, make_vc

pytestmark = pytest.mark.django_db
MOST_BYTES = 100_000


def test_home_shows_own_jobs_free_gpus_and_why_something_waits(alice, vc, node):
    placed(alice, vc, gpus=6, name="runs")
    submit(alice, vc, gpus=4, name="waits")
    make_job(vc, make_user("bob"), name="of-bob", state="FAILED")
    make_job(vc, alice, name="failed", state="FAILED")
    tick()
    home = Api(alice).get("/home").json()
    assert [job["name"] for job in home["failed"]] == ["failed"]
    waiting = {job["name"]: job for job in home["waiting"]}
    assert set(waiting) == {"runs", "waits"}  # one is placed and being prepared
    assert "4" in waiting["waits"]["wait_reason"]["message"]
    (own,) = home["virtual_clusters"]
    assert (own["name"], own["role"]) == ("vision", "member")
    assert own["gpus"][0]["used"] == 6
    assert home["states"] == {"WAITING": 2}
    assert home["usage"]["allocated_s"] == 0


def test_a_newcomer_has_submitted_nothing(node):
    home = Api(make_user("newcomer")).get("/home").json()
    assert not home["submitted"]
    assert home["virtual_clusters"] == []


def test_it_is_small_and_its_queries_are_constant(alice, vc, node):
    api = Api(alice)
    api.get("/home")

    for number in range(2):  # one of each state, so that each part of the answer has something
        make_job(vc, alice, name=f"first-{number}", state=("RUNNING", "FAILED")[number])
    tick()

    def queries() -> int:
        api.get("/home")  # reads what changed in the cluster
        with CaptureQueriesContext(connection) as captured:
            assert len(api.get("/home").content) < MOST_BYTES
        return len(captured)

    few = queries()
    for number in range(20):
        make_job(vc, alice, name=f"job-{number}", state=("RUNNING", "FAILED")[number % 2])
    for number in range(30):
        make_vc(f"team-{number}", members=[alice])
    assert queries() == few
