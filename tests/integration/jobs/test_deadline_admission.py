"""What is said at submission of a deadline that cannot be met."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api, refusal

from skep_platform.core.errors import SkepError
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission.cloning import clone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("node")]


def moment(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat(timespec="seconds")


@pytest.fixture
def strict(vc):
    vc.policy = {"name": "edf", "parameters": {"admission": "refuse"}}
    vc.save()
    return vc


LATE = {"duration": "2h"}


def test_a_job_that_is_late_even_at_once_is_refused_with_the_earliest_deadline(alice, strict):
    due = moment(hours=1)
    with pytest.raises(SkepError) as raised:
        submit(alice, strict, skep=LATE | {"deadline": due})
    assert raised.value.code == "deadline_cannot_be_met"
    details = raised.value.details
    assert details["duration_s"] == 7200
    assert details["late_s"] == pytest.approx(3600, abs=30)
    earliest = datetime.fromisoformat(details["earliest_deadline"])
    assert not Job.objects.exists()
    submit(alice, strict, skep=LATE | {"deadline": (earliest + timedelta(minutes=1)).isoformat()})


def test_its_begin_counts(alice, strict):
    skep = {"duration": "1h", "begin": moment(hours=3), "deadline": moment(hours=3.5)}
    status, code = refusal(Api(alice).post("/jobs", job_file(strict, skep=skep)))
    assert (status, code) == (400, "deadline_cannot_be_met")


def test_otherwise_the_job_is_accepted_and_its_owner_is_told(alice, vc):
    job = submit(alice, vc, skep=LATE | {"deadline": moment(hours=1)})
    queued = Event.objects.get(kind="job.queued", subject_id=str(job.pk))
    assert "cannot be met: it runs for 2 h" in queued.message


def test_a_check_says_it_before(alice, vc, strict):
    text = job_file(vc, skep=LATE | {"deadline": moment(hours=1)})
    answer = Api(alice).post("/jobs/check", text).json()
    assert [problem["code"] for problem in answer["errors"]] == ["deadline_cannot_be_met"]
    strict.policy = None
    strict.save()
    answer = Api(alice).post("/jobs/check", text).json()
    assert answer["errors"] == []
    assert "deadline_cannot_be_met" in [note["code"] for note in answer["notes"]]
    assert answer["forecast"]["code"] == "starts_now"


@pytest.mark.parametrize(
    "skep", [{"duration": "2h"}, {"deadline": "2020-01-01T00:00:00Z"}, {"duration": "5m"}]
)
def test_what_is_not_known_is_not_refused(alice, strict, skep):
    """Without a deadline, or without any duration."""
    assert submit(alice, strict, skep=skep).pk


def test_a_clone_of_a_job_whose_time_has_passed_is_refused_too(alice, strict):
    due = moment(hours=3)
    job = submit(alice, strict, skep=LATE | {"deadline": due})
    assert due in job.spec_text
    late = job.spec_text.replace(due, moment(hours=1))
    Job.objects.filter(pk=job.pk).update(spec_text=late)
    with pytest.raises(SkepError) as raised:
        clone(alice, job.pk)
    assert raised.value.code == "deadline_cannot_be_met"
