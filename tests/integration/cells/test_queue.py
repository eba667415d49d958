"""The queue of a virtual cluster: who runs until when, who waits where and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.cells_live import own, run
from tests.support.jobs_world import tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.scheduling.models import ReservedStart
from skep_platform.scheduling.source import StateSource

pytestmark = pytest.mark.django_db


def queue(api: Api, vc: str, **query: object) -> dict:
    answer = api.get(f"/virtual-clusters/{vc}/queue", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def names(rows: list[dict]) -> list[str]:
    return [row["job"]["name"] for row in rows]


@pytest.fixture
def vision():
    vc = make_vc("vision", members=[make_user("ann")])
    own(vc, 1)
    return vc


@pytest.fixture
def ann(vision) -> Api:
    return Api(vision.memberships.get().user)


def test_who_runs_and_who_waits_in_order(vision, ann):
    node = make_node("n1", gpus=8)
    user = ann.user
    run(vision, node, 6, name="train", duration_s=3600)
    run(vision, node, 2, name="scraps", cell_type="")
    make_job(vision, user, gpus=8, name="low", priority=1, duration_s=60)
    make_job(vision, user, gpus=8, name="high", priority=10, duration_s=60)
    make_job(vision, user, gpus=1, name="extra", priority=-1)
    tick()
    shown = queue(ann, "vision")
    assert names(shown["running"]) == ["train", "scraps"]
    train, scraps = shown["running"]
    assert (train["opportunistic"], scraps["opportunistic"]) == (False, True)
    end = datetime.fromisoformat(train["expected_end"])
    assert timedelta(minutes=59) < end - timezone.now() <= timedelta(hours=1)
    assert scraps["expected_end"] is None
    assert [(row["position"], row["job"]["name"]) for row in shown["waiting"]] == [
        (1, "high"),
        (2, "low"),
        (3, "extra"),
    ]
    high = shown["waiting"][0]
    assert high["needs_words"] == "1 node of 8 GPUs"
    assert high["reason"]["message"]
    assert abs(datetime.fromisoformat(high["expected_start"]) - end) < timedelta(minutes=1)
    assert shown["next"] is None


def test_it_is_reported_in_pages_by_the_same_queries(vision, ann, django_assert_max_num_queries):
    run(vision, make_node("n1", gpus=8), 8, name="train")
    for i in range(7):
        make_job(vision, ann.user, gpus=8, name=f"job-{i}", priority=10)
    tick()
    # Token, virtual cluster, time line, jobs that run and that wait, which of them the reader may
    # see, and how many there are.
    with django_assert_max_num_queries(8):
        first = queue(ann, "vision", limit=3)
    assert names(first["running"]) == ["train"]
    assert names(first["waiting"]) == ["job-0", "job-1", "job-2"]
    second = ann.client.get(first["next"]).json()
    assert second["running"] == []
    assert [row["position"] for row in second["waiting"]] == [4, 5, 6]
    third = ann.client.get(second["next"]).json()
    assert names(third["waiting"]) == ["job-6"]
    assert third["next"] is None


def test_nothing_of_other_teams_shows(vision, ann):
    bob = make_user("bob")
    speech = make_vc("speech", members=[bob])
    node = make_node("n1", gpus=8)
    run(speech, node, 8, name="secret-plan", cell_type="")
    make_job(speech, bob, gpus=8, name="secret-wish")
    make_job(vision, ann.user, gpus=8, name="mine")
    answer = ann.get("/virtual-clusters/vision/queue")
    assert names(answer.json()["waiting"]) == ["mine"]
    for hidden in ("secret", "bob"):
        assert hidden not in answer.content.decode()
    assert refusal(ann.get("/virtual-clusters/speech/queue")) == (404, "not_found")


@pytest.mark.parametrize("query", [{"limit": 101}, {"cursor": -1}, {"limit": "x"}])
def test_what_makes_no_sense_is_refused(vision, ann, query):
    assert refusal(ann.get("/virtual-clusters/vision/queue", **query))[0] == 400


def test_finding_u23_a_page_of_the_queue_says_how_many_wait_in_all(vision, ann):
    """It was "50+ wait" for 2,963."""
    node = make_node("n1", gpus=8)
    run(vision, node, 8, name="train", duration_s=3600)
    for number in range(7):
        make_job(vision, ann.user, gpus=8, name=f"waits-{number}")
    first = queue(ann, "vision", limit=3)
    assert len(first["waiting"]) == 3
    assert (first["running_total"], first["waiting_total"]) == (1, 7)
    later = queue(ann, "vision", limit=3, cursor=3)
    assert (later["running_total"], later["waiting_total"]) == (1, 7)


def test_a_page_of_the_queue_shows_what_the_scheduler_stored_and_plans_nothing(vision, ann):
    """HOUSE.md 6.3. What changed since the last plan is not in the starts of the page, and it reads
    neither nodes nor the change log."""
    train = run(vision, make_node("n1", gpus=8), 8, name="train", duration_s=3600)
    make_job(vision, ann.user, gpus=8, name="first", priority=10, duration_s=60)
    make_job(vision, ann.user, gpus=8, name="second", priority=10)
    tick()
    before = queue(ann, "vision")["waiting"]
    assert [row["reserved"]["nodes"] for row in before] == [["n1"], ["n1"]]
    make_node("n2", gpus=8)
    train.attempts.all().delete()
    with CaptureQueriesContext(connection) as captured:
        assert queue(ann, "vision")["waiting"] == before
    text = " ".join(query["sql"] for query in captured)
    for table in ("scheduling_change", "cluster_node", "cluster_device", "jobs_taskattempt"):
        assert table not in text
    late = make_job(vision, ann.user, gpus=2, name="late", priority=10)
    last = queue(ann, "vision")["waiting"][-1]
    assert (last["job"]["id"], last["needs_words"]) == (str(late.pk), "2 GPUs")
    assert last["expected_start"] is None


def test_a_restarted_scheduler_keeps_the_starts_that_it_reserved(vision, ann):
    run(vision, make_node("n1", gpus=8), 8, name="train", duration_s=3600)
    jobs = [make_job(vision, ann.user, gpus=8, name=f"j{i}", duration_s=60) for i in range(3)]
    tick()
    stored = {r.job_id: r.start for r in ReservedStart.objects.all()}
    assert set(stored) == {job.pk for job in jobs}
    fresh = StateSource().catch_up()
    assert {UUID(gang): known.start for gang, known in fresh.reservations.items()} == stored
    # The first is to start within the hour; it is stopped, and no one behind it starts later.
    jobs[0].delete()
    tick()
    after = {r.job_id: r.start for r in ReservedStart.objects.all()}
    assert set(after) == {job.pk for job in jobs[1:]}
    assert all(after[pk] <= stored[pk] for pk in after)
