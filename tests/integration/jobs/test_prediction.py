"""Predicted durations: made at submission of the owner's earlier jobs, and scored at the end."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, job_file, placed, ran, submit
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user, make_vc

from skep_jobfile import JobFile
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt
from skep_platform.jobs.submission.prediction import (
    DURATIONS,
    ENOUGH,
    LIKE_IT,
    LOOKED_AT,
    command_key,
    predict,
)
from skep_platform.scheduling import read_facts
from skep_platform.telemetry import calibration, job_use, tasks
from skep_platform.telemetry.models import LogChunk, PredictionDay, UserMetric
from skep_platform.tenancy.models import Membership, Role

pytestmark = pytest.mark.django_db


def test_a_duration_is_predicted_by_the_owners_earlier_jobs_of_the_name(alice, vc):
    for number, seconds in enumerate((60, 100, 5000)):
        ran(alice, vc, f"train-{number}", seconds)
    ran(alice, vc, "train-8", 7, state="FAILED")
    ran(alice, vc, "trainer-1", 9, commands=["other"])
    bob = make_user("bob")
    ran(bob, make_vc("other", members=[bob], quotas={"A100": 1}), "train", 3)
    job = submit(alice, vc, name="train-77")
    assert (job.predicted_s, job.prediction["source"], job.prediction["jobs"]) == (100, "name", 3)
    assert job.prediction["low_s"] is None  # three jobs make no interval
    with CaptureQueriesContext(connection) as queries:
        predict(alice, "train", "", 1)
    assert len(queries) == 1


def test_a_new_name_is_predicted_by_jobs_with_the_same_command(alice, vc):
    for number in range(ENOUGH):
        commands = [f"python train.py --rate 0.{number}"]
        ran(alice, vc, f"{'abcdefghi'[number]}{number}x", 100 + number, commands=commands)
    job = submit(alice, vc, name="new", commands=["python train.py --rate 1e-3"])
    assert job.prediction == {
        "median_s": 104,
        "low_s": 100,
        "high_s": 108,
        "source": "command",
        "jobs": ENOUGH,
        "leave_s": None,
        "warmup_s": None,
    }
    shown = Api(alice).get(f"/jobs/{job.pk}").json()["prediction"]
    assert shown == job.prediction


def test_who_only_looks_at_a_job_does_not_learn_how_long_others_of_its_owner_ran(alice, vc, admin):
    ran(alice, vc, "secret", 4242)
    job = submit(alice, vc, name="open")
    Job.objects.filter(pk=job.pk).update(visibility="everyone")
    answer = Api(make_user("eve")).get(f"/jobs/{job.pk}")
    assert (answer.status_code, answer.json()["prediction"]) == (200, None)
    assert "4242" not in answer.content.decode()
    assert admin.get(f"/jobs/{job.pk}").json()["prediction"]["median_s"] == 4242


def test_a_vc_admin_learns_nothing_of_the_owners_jobs_in_other_virtual_clusters(alice, vc, admin):
    boss = make_user("boss")
    elsewhere = make_vc("elsewhere", quotas={"A100": 8}, members=[alice])
    Membership.objects.create(vc=vc, user=boss, role=Role.ADMIN)
    for seconds in (4200, 4242, 4284):
        ran(alice, elsewhere, f"train-{seconds}", seconds)
    ran(alice, vc, "train-1", 60)
    job = submit(alice, vc, name="train-2")
    ran(alice, vc, "train-3", 9000)  # it ended later

    def shown(api):
        return api.get(f"/jobs/{job.pk}").json()["prediction"]

    assert shown(Api(alice)) == shown(admin) == job.prediction
    assert (job.prediction["jobs"], job.prediction["median_s"]) == (4, 4221)
    assert (shown(Api(boss))["jobs"], shown(Api(boss))["median_s"]) == (1, 60)

    lonely = submit(alice, elsewhere, name="walk-2", commands=["walk"], gpus=7)
    Job.objects.filter(pk=lonely.pk).update(vc=vc)
    assert Api(boss).get(f"/jobs/{lonely.pk}").json()["prediction"] is None


def test_a_job_like_no_other_is_predicted_by_its_gpus_and_a_first_one_not_at_all(alice, vc):
    assert submit(alice, vc, name="first", commands=["a"], gpus=2).prediction is None
    ran(alice, vc, "second", 40, commands=["b"], gpus=2)
    assert submit(alice, vc, name="third", commands=["c"], gpus=4).prediction is None
    job = submit(alice, vc, name="fourth", commands=["d"], gpus=2)
    assert (job.predicted_s, job.prediction["source"]) == (40, "gpus")
    job = submit(alice, vc, name="fifth", commands=["e"], gpus=2, skep={"duration": 900})
    assert (job.predicted_s, job.prediction["median_s"]) == (None, 40)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"commands": ["run --lr 0.1"]}, {"commands": ["run --lr 3e-4"]}, True),
        ({"commands": ["run"]}, {"commands": ["walk"]}, False),
        ({"gpus": 1}, {"gpus": 2}, False),
        ({"instances": 1}, {"instances": 2}, False),
    ],
)
def test_commands_are_the_same_but_for_their_numbers(one, other, same):
    keys = [command_key(JobFile.model_validate(job_file("vc", **file))) for file in (one, other)]
    assert (keys[0] == keys[1]) is same


def test_a_prediction_reads_indexes(alice, vc):
    """However many jobs its owner has. The planner prefers to read a small table as a whole, and
    takes any index of one that it knows to be small: it may have been analyzed meanwhile."""
    ran(alice, vc, "train-1", 60)
    values = {"owner": alice.pk, "base": "train", "command": "0", "gpus": 1}
    values |= {"like_it": LIKE_IT, "looked_at": LOOKED_AT, "enough": ENOUGH}
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname = 'jobs_job'"
        )
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'jobs_job'::regclass")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN (ANALYZE) {DURATIONS}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Scan using job_by_base_name" in plan
    assert "Index Scan using job_by_command" in plan
    assert "Index Scan using job_by_owner" in plan
    # What the name answers is not looked for by other ways.
    assert "never executed" in plan


def attempt(job: Job, index: int, **times: float) -> None:
    start = job.started_at
    JobAttempt.objects.create(
        job=job, index=index, outcome="PREEMPTED", placed_at=start, started_at=start,
        finished_at=start + timedelta(seconds=100), **times,
    )  # fmt: skip


def test_a_restart_costs_what_it_cost_jobs_of_the_name(alice, vc, admin):
    first, second = ran(alice, vc, "train-1", 600), ran(alice, vc, "train-2", 700)
    attempt(first, 1, leave_s=10, warmup_s=30)
    attempt(first, 2, warmup_s=50)
    attempt(second, 1, leave_s=14.04, warmup_s=90)
    attempt(ran(alice, vc, "other-1", 5), 1, leave_s=999, warmup_s=999)
    job = submit(alice, vc, name="train-3")
    assert (job.prediction["leave_s"], job.prediction["warmup_s"]) == (12.0, 50.0)
    assert admin.get(f"/jobs/{job.pk}").json()["prediction"]["warmup_s"] == 50.0
    [known] = read_facts.read_gangs([str(job.pk)])
    assert (known.gang.leave_s, known.gang.warmup_s, known.gang.restart_s) == (12, 50, 62)


def test_a_prediction_of_an_older_version_is_shown(alice, vc):
    ran(alice, vc, "train-1", 600)
    job = submit(alice, vc, name="train-2")
    old = {key: value for key, value in job.prediction.items() if not key.endswith("up_s")}
    del old["leave_s"]
    Job.objects.filter(pk=job.pk).update(prediction=old)
    shown = Api(alice).get(f"/jobs/{job.pk}").json()["prediction"]
    assert shown == old | {"leave_s": None, "warmup_s": None}


def test_the_first_metric_of_an_attempt_ends_its_start_else_its_first_line(alice, vc, node):
    job = placed(alice, vc, name="train-1")
    [task] = attempts_of(job)
    start = timezone.now() - timedelta(minutes=5)
    Job.objects.filter(pk=job.pk).update(
        state="SUCCEEDED", started_at=start, finished_at=timezone.now() - timedelta(minutes=1)
    )
    TaskAttempt.objects.filter(pk=task.pk).update(released_at=timezone.now())
    for index in (1, 2, 3):
        attempt(Job.objects.get(pk=job.pk), index)
    LogChunk.objects.create(
        job=job, attempt=task, stream="stdout", offset=0, size=1, key="k",
        at=start + timedelta(seconds=4),
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(job_use.WARMUPS, [[job.pk]])
    found = list(JobAttempt.objects.order_by("index").values_list("warmup_s", flat=True))
    assert found == [pytest.approx(4.0), None, None]
    UserMetric.objects.create(
        job=job, attempt=task, name="loss", steps=[0.0], times=[start.timestamp() + 31],
        values=[1.0], count=1, at=timezone.now(),
    )  # fmt: skip
    assert job_use.count_due() == 1
    assert JobAttempt.objects.get(index=1).warmup_s == pytest.approx(31.0)


def finished(user, vc, name: str, seconds: float) -> Job:
    job = ran(user, vc, name, seconds)
    Job.objects.filter(pk=job.pk).update(use_counted=False)
    return job


def test_predictions_are_scored_once_by_day_and_source(alice, vc, admin):
    for number in range(ENOUGH):
        finished(alice, vc, f"train-{number}", 100 + 10 * number)
    finished(alice, vc, "train-20", 150)  # within 100 to 180 s
    finished(alice, vc, "train-21", 900)
    finished(alice, vc, "train-22", 5).refresh_from_db()
    Job.objects.filter(name="train-22").update(state="FAILED")
    assert job_use.count_due() == ENOUGH + 3
    assert job_use.count_due() == 0
    answer = admin.get("/predictions").json()
    assert answer["promised_coverage"] == 0.8
    scores = {score["source"]: score for score in answer["sources"]}
    assert set(scores) == {"", "name"}
    assert (scores[""]["jobs"], scores[""]["median_error"]) == (1, None)
    assert (scores["name"]["jobs"], scores["name"]["intervals"]) == (ENOUGH + 1, 2)
    assert scores["name"]["coverage"] == 0.5
    assert 0.05 < scores["name"]["median_error"] < 0.4


def test_a_job_that_cannot_be_counted_holds_up_none_behind_it(alice, vc, monkeypatch):
    bad, good = finished(alice, vc, "train-1", 900), finished(alice, vc, "train-2", 60)
    now = timezone.now()
    Job.objects.filter(pk=bad.pk).update(finished_at=now - timedelta(hours=2))
    Job.objects.filter(pk=good.pk).update(finished_at=now - timedelta(hours=1))
    monkeypatch.setattr(job_use, "BATCH", 1)
    with monkeypatch.context() as defect:
        defect.setattr(job_use, "advise", {}.__getitem__)
        assert job_use.count_due() == 0
    assert job_use.count_due() == 1
    assert Job.objects.get(pk=good.pk).use_counted
    assert not Job.objects.get(pk=bad.pk).use_counted


def test_a_round_beside_another_one_scores_nothing_twice(alice, vc):
    job = finished(alice, vc, "train-1", 60)
    stale = [Job.objects.get(pk=job.pk)]
    assert job_use.count_due() == 1
    assert PredictionDay.objects.get().jobs == 1
    calibration.count(stale)  # what the second round would do without the mark
    assert PredictionDay.objects.get().jobs == 2
    Job.objects.filter(pk=job.pk).update(use_counted=True)
    assert job_use.count_due() == 0


def test_old_days_are_not_read_and_deleted_at_last(settings):
    settings.SKEP_METRIC_RETENTION_DAYS = 0  # samples are kept for ever
    today = timezone.now().date()
    for age in (0, 31, 401):
        errors = [1] + [0] * len(calibration.BOUNDS)
        PredictionDay.objects.create(
            day=today - timedelta(days=age), source="name", jobs=1, errors=errors
        )
    assert [score.jobs for score in calibration.last_days().values()] == [1]
    tasks.delete_old_rollups()
    assert PredictionDay.objects.count() == 2
    assert json.loads(json.dumps(calibration.last_days()["name"].median_error)) == 0.01
