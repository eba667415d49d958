"""The monthly report of a virtual cluster."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.cluster.models import Device
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling.models import VcUse
from skep_platform.usage.models import UsageDay
from skep_platform.usage.report import report

pytestmark = pytest.mark.django_db

MONTH = date(2026, 9, 1)
START = datetime(2026, 9, 1, tzinfo=UTC)
HOUR = 3600


@pytest.fixture
def boss():
    return make_user("boss")


@pytest.fixture
def vc(boss):
    """In September ann asked 8 GPUs for an hour and used 11 % of them; bob used one well."""
    ann, bob = make_user("ann"), make_user("bob")
    vc = make_vc("red", members=[ann, bob], vc_admins=[boss])
    use(make_job(vc, ann, name="big", gpus=8, attempt=1), 8, 0.11)
    use(make_job(vc, bob, name="small", attempt=1), 2, 0.9, own=False)
    return vc


def use(job: Job, hours: float, used: float, *, own: bool = True, day=date(2026, 9, 30)) -> None:
    us = int(hours * HOUR * 1_000_000)
    UsageDay.objects.create(
        day=day,
        job=job,
        user=job.owner,
        vc=job.vc,
        gpu_model="A100",
        guaranteed=own,
        allocated_us=us,
        used_us=round(us * used),
        known_us=us,
    )


def read(boss, month="2026-09"):
    answer = Api(boss).get("/virtual-clusters/red/report", month=month)
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_users_with_what_they_asked_and_what_they_used_of_it(vc, boss):
    body = read(boss)
    assert body["total"]["allocated_s"] == 10 * HOUR
    assert (body["total"]["guaranteed_s"], body["total"]["borrowed_s"]) == (8 * HOUR, 2 * HOUR)
    ann, bob = body["users"]
    assert (ann["user"], ann["gpus"], ann["utilization"], ann["jobs"]) == ("ann", 8.0, 11.0, 1)
    assert (bob["user"], bob["gpus"], bob["utilization"]) == ("bob", 1.0, 90.0)
    worst = body["idle_jobs"][0]
    assert (worst["job"]["name"], worst["user"], worst["gpus"]) == ("big", "ann", 8)
    assert worst["idle_s"] == round(8 * HOUR * 0.89)
    assert body["budget"] is None
    assert (body["since"], body["until"]) == ("2026-09-01", "2026-09-30")


def test_jobs_that_are_removed_since_do_not_lower_what_a_user_asked_for(vc, boss):
    removed = make_job(vc, Job.objects.get(name="big").owner, gpus=8, attempt=1)
    use(removed, 24, 0.11)
    removed.delete()
    assert read(boss)["users"][0]["gpus"] == 8.0


def test_other_months_and_other_virtual_clusters_do_not_count(vc, boss):
    use(Job.objects.get(name="big"), 100, 1, day=date(2026, 10, 1))
    use(Job.objects.get(name="big"), 100, 1, day=date(2026, 8, 31))
    use(make_job(make_vc("blue"), make_user()), 100, 1)
    assert read(boss)["total"]["allocated_s"] == 10 * HOUR


def test_what_it_owned_and_lent_comes_from_the_samples(vc, boss):
    assert (read(boss)["owned_s"], read(boss)["quota_share"]) == (None, None)
    for minute in range(120):
        VcUse.objects.create(
            vc=vc,
            gpu_model="A100",
            at=START + timedelta(minutes=minute),
            owned=8,
            used=0,
            borrowed=0,
            lent=2,
            bad=0,
            waiting=0,
        )
    body = read(boss)
    # The last sample stands for a quarter of an hour.
    assert body["owned_s"] == 8 * (119 * 60 + 900)
    assert body["lent_s"] == 2 * (119 * 60 + 900)
    assert body["quota_share"] == round(100 * 8 * HOUR / body["owned_s"], 1)


def test_waiting_is_from_the_submission_to_the_first_placement(vc, boss):
    node = make_node("gpu-1", gpus=8)
    devices = list(Device.objects.filter(node=node))
    for number, job in enumerate(Job.objects.order_by("name")):
        attempt = place(job, [devices[number]])
        Job.objects.filter(pk=job.pk).update(created_at=START + timedelta(days=1))
        placed = START + timedelta(days=1, seconds=100 + 100 * number)
        TaskAttempt.objects.filter(pk=attempt.pk).update(created_at=placed)
    assert read(boss)["waiting"] == {"jobs": 2, "p50_s": 150, "p95_s": 195}
    assert read(boss, "2026-08")["waiting"] == {"jobs": 0, "p50_s": None, "p95_s": None}


def test_the_present_month_ends_today_and_has_the_budget(vc, boss):
    body = Api(boss).get("/virtual-clusters/red/report").json()
    assert body["budget"]["state"] == "none"
    assert body["until"] == str(datetime.now(UTC).date())


def test_csv_has_the_users(vc, boss):
    answer = Api(boss).get("/virtual-clusters/red/report/export", month="2026-09")
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    assert [(row["user"], row["gpus"], row["utilization"]) for row in rows] == [
        ("ann", "8.0", "11.0"),
        ("bob", "1.0", "90.0"),
    ]


@pytest.mark.parametrize(
    "month", ["9999-12", "2026-13", "September", "2026-9", "0000-01", "2026-09-01"]
)
def test_a_bad_month_is_refused(vc, boss, month):
    answer = Api(boss).get("/virtual-clusters/red/report", month=month)
    assert refusal(answer) == (400, "invalid")


def test_a_constant_number_of_queries(vc):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            report(vc, MONTH)
        return len(captured)

    before = queries()
    for _ in range(5):
        use(make_job(vc, make_user(), attempt=1), 1, 0.1)
    assert queries() == before
