"""Jobs that are not started before a given time (`extras.skep.begin`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.jobs_world import attempts_of, job_file, report, submit, tick
from tests.support.platform_api import Api

from skep_platform.core.errors import SkepError
from skep_platform.jobs import services
from skep_platform.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("node")]


def moment(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat(timespec="seconds")


def test_a_job_waits_until_its_begin_and_says_so(alice, vc):
    begin = moment(hours=2)
    job = submit(alice, vc, skep={"begin": begin})
    assert str(job.pk) not in tick(2)
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert shown["wait_reason"]["code"] == "begin_time"
    assert shown["wait_reason"]["details"]["until"] == datetime.fromisoformat(begin).timestamp()
    Job.objects.filter(pk=job.pk).update(not_before=datetime.now(UTC))
    assert str(job.pk) in tick()


def test_a_begin_in_the_past_changes_nothing(alice, vc):
    job = submit(alice, vc, skep={"begin": moment(hours=-1)})
    assert job.wait_reason is None
    assert str(job.pk) in tick()


def test_its_owner_can_queue_it_at_once(alice, vc):
    job = submit(alice, vc, skep={"begin": moment(hours=2)})
    assert Api(alice).post(f"/jobs/{job.pk}/retry").status_code == 200
    assert str(job.pk) in tick()


def test_with_dependencies_both_must_hold(alice, vc):
    first = submit(alice, vc, name="first")
    skep = {"begin": moment(hours=2), "dependsOn": [{"job": "first"}]}
    job = submit(alice, vc, name="second", skep=skep)
    assert job.wait_reason["code"] == "dependency"
    tick()
    report(attempts_of(first), "running", "exited", "released")
    services.reconcile()
    job.refresh_from_db()
    assert job.wait_reason["code"] == "begin_time"
    assert str(job.pk) not in tick()


def test_a_check_names_the_begin_as_the_reason(alice, vc):
    answer = Api(alice).post("/jobs/check", job_file(vc, skep={"begin": moment(hours=2)}))
    assert answer.json()["forecast"]["code"] == "begin_time"


@pytest.mark.parametrize("begin", ["2027-01-31T18:00:00", "tomorrow", 5, "0001-01-01T00:00:00Z"])
def test_a_moment_without_a_zone_is_refused(alice, vc, begin):
    with pytest.raises(SkepError) as raised:
        submit(alice, vc, skep={"begin": begin})
    assert "extras.skep.begin" in str(raised.value.details)
