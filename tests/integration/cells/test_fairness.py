"""Finish-time fairness of the users of a virtual cluster."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.cells.tasks import measure_fairness
from skep_platform.jobs.models import Job, JobAttempt
from skep_platform.jobs.states import JobState
from skep_platform.scheduling.models import VcUse
from skep_platform.usage.models import FairnessMeasure
from skep_platform.web.metrics import read_cluster

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
PATH = "/virtual-clusters/vision/fairness"


def vision(*members, gpus=8):
    vc = make_vc("vision", members=members)
    none = dict.fromkeys(("used", "borrowed", "lent", "bad", "waiting"), 0)
    VcUse.objects.create(vc=vc, gpu_model="A100", at=timezone.now(), owned=gpus, **none)
    return vc


def job(vc, owner, hours_ago, *, ran=None, ended_ago=None, **fields):
    """A job of 8 GPUs. `ran` and `ended_ago` in hours; without an end it waits."""
    made = make_job(vc, owner, gpus=8)
    now = timezone.now()
    fields["created_at"] = now - hours_ago * HOUR
    if ended_ago is not None:
        fields |= {"state": JobState.SUCCEEDED, "finished_at": now - ended_ago * HOUR}
        end = fields["finished_at"]
        JobAttempt.objects.create(
            job=made,
            index=1,
            outcome="SUCCEEDED",
            placed_at=end - ran * HOUR,
            started_at=end - ran * HOUR,
            finished_at=end,
        )
    Job.objects.filter(pk=made.pk).update(**fields)
    return made


def test_who_waited_for_another_user_has_the_larger_rho(django_assert_max_num_queries):
    """Both submitted 4 h ago and need all GPUs: ann ran first. She ended as on half of them in half
    of the time, and bob took 3 h, 2 of them beside her."""
    ann, bob = make_user(), make_user()
    vc = vision(ann, bob)
    job(vc, ann, 4, ran=2, ended_ago=2)
    late = job(vc, bob, 4, ran=2, ended_ago=0)
    with django_assert_max_num_queries(6):
        answer = Api(make_user(admin=True)).get(PATH).json()
    assert [row["user"] for row in answer["results"]] == [bob.username, ann.username]
    assert answer["gpus"] == 8
    first, second = answer["results"]
    assert first["rho_mean"] == pytest.approx(4 / (2 * 1.5), rel=0.01)
    assert first["worst_job"] == {"id": str(late.pk), "name": late.name}
    assert first["unfair_share"] == 1.0
    assert second["rho_mean"] == pytest.approx(2 / (2 * 2), rel=0.01)
    assert answer["total"]["jobs"] == 2
    assert answer["next"] is None
    # Speeds of 3/4 and 2: (3/4 + 2)^2 / (2 * (9/16 + 4)).
    assert answer["jain_index"] == pytest.approx(121 / 146, rel=0.01)


def test_a_waiting_job_counts_with_its_estimate_and_without_one_it_is_named_unknown():
    ann = make_user()
    vc = vision(ann)
    job(vc, ann, 1, predicted_s=3600)
    job(vc, ann, 1)
    (row,) = Api(ann).get(PATH).json()["results"]
    # It takes 1 h of waiting and 1 h yet; of two jobs each has half of the GPUs.
    assert row["rho_mean"] == pytest.approx(1.0, rel=0.01)
    assert (row["jobs"], row["active"], row["unknown"]) == (1, 2, 1)


def test_a_member_sees_the_own_row_and_the_total_and_a_stranger_nothing():
    ann, bob = make_user(), make_user()
    vc = vision(ann, bob)
    for owner in (ann, bob):
        job(vc, owner, 2, ran=1, ended_ago=0)
    answer = Api(ann).get(PATH).json()
    assert [row["user"] for row in answer["results"]] == [ann.username]
    assert answer["total"]["jobs"] == 2
    assert answer["jain_index"] == pytest.approx(1.0, rel=0.01)
    assert refusal(Api(make_user()).get(PATH))[0] == 404


def test_opportunistic_old_and_gpu_less_jobs_are_left_out():
    ann = make_user()
    vc = vision(ann)
    job(vc, ann, 2, ran=1, ended_ago=0, priority=-1)
    job(vc, ann, 24 * 9, ran=1, ended_ago=24 * 8)
    job(vc, ann, 2, ran=1, ended_ago=0, gpus=0)
    answer = Api(ann).get(PATH).json()
    assert answer["results"] == []
    assert answer["total"]["rho_mean"] is None
    assert answer["jain_index"] is None
    assert len(Api(ann).get(PATH, days=30).json()["results"]) == 1


def test_pages_and_days_have_limits():
    ann, bob = make_user(), make_user()
    vc = vision(ann, bob)
    for owner in (ann, bob):
        job(vc, owner, 2, ran=1, ended_ago=0)
    admin = Api(make_user(admin=True))
    page = admin.get(PATH, limit=1).json()
    assert len(page["results"]) == 1
    assert "cursor=1" in page["next"]
    assert refusal(admin.get(PATH, days=31))[0] == 400


def served():
    """Both figures of the metrics, by virtual cluster."""
    found = {}
    for family in read_cluster():
        if family.name in ("skep_virtual_cluster_worst_rho", "skep_virtual_cluster_jain_index"):
            for sample in family.samples:
                found.setdefault(sample.labels["virtual_cluster"], []).append(sample.value)
    return found


def test_metrics_have_two_numbers_for_each_virtual_cluster_as_the_task_counted_them():
    ann, bob = make_user(), make_user()
    vc = vision(ann, bob)
    make_vc("idle")
    job(vc, ann, 4, ran=2, ended_ago=2)
    job(vc, bob, 4, ran=2, ended_ago=0)
    measure_fairness()
    assert served() == {"vision": [pytest.approx(4 / 3, rel=0.01), pytest.approx(121 / 146, 0.01)]}
    Job.objects.filter(owner=bob).delete()
    measure_fairness()
    assert served() == {"vision": [pytest.approx(1.0, rel=0.01), 1.0]}
    FairnessMeasure.objects.update(at=timezone.now() - 4 * HOUR)  # no worker has counted since
    assert served() == {}
    Job.objects.all().delete()
    measure_fairness()
    assert not FairnessMeasure.objects.exists()
