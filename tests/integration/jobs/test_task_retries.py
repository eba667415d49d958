"""Tasks of incremental jobs are tried again by themselves, the rest of the job goes on."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import attempts_of, event_kinds, explain, lose, report, submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node

from skep_platform.jobs import services
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.models import Job, JobAttempt, Task, TaskAttempt
from skep_platform.scheduling.source import StateSource, differences

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return make_node("n1", gpus=4)


@pytest.fixture
def job(alice, vc):
    """Three tasks that run, each with one retry."""
    return started(alice, vc, taskRetryCount=1)


def started(alice, vc, **role) -> Job:
    job = submit(alice, vc, instances=3, incremental=True, **role)
    assert tick() == {str(job.pk)}
    report(attempts_of(job), "running")
    job.refresh_from_db()
    return job


def newest(job, rank: int = 0) -> TaskAttempt:
    rows = TaskAttempt.objects.filter(job=job, task__rank=rank).select_related("node", "task")
    return rows.order_by("-index", "-retry")[0]


def fails(job, rank: int = 0, log: bytes = b"", **fields) -> None:
    report(newest(job, rank), "exited", **{"exit_code": 1, **fields})
    explain(job, log)
    report(newest(job, rank), "released")
    job.refresh_from_db()


def pause_is_over() -> None:
    Task.objects.exclude(not_before=None).update(not_before=timezone.now() - timedelta(seconds=1))
    Job.objects.update(updated_at=timezone.now())


def test_a_failed_task_starts_again_alone(job):
    others = [attempt.pk for attempt in attempts_of(job)[1:]]
    fails(job)
    assert (job.state, job.unplaced, job.attempt) == ("RUNNING", 1, 1)
    assert (job.retries_used, job.free_retries, Task.objects.get(rank=0).retries_used) == (0, 0, 1)
    assert tick() == set()  # not before its pause is over
    pause_is_over()
    assert tick() == {str(job.pk)}
    again = newest(job)
    assert (again.index, again.retry, again.state) == (1, 1, "ASSIGNED")
    job.refresh_from_db()
    assert (job.unplaced, Task.objects.get(rank=0).not_before) == (0, None)
    states = dict(TaskAttempt.objects.filter(pk__in=others).values_list("pk", "state"))
    assert set(states.values()) == {"RUNNING"}
    assert not JobAttempt.objects.exists()


def test_epochs_and_numbers_distinguish_the_tries_of_a_task(job, node):
    fails(job, exit_code=143)
    pause_is_over()
    tick()
    tries = TaskAttempt.objects.filter(task__rank=0)
    assert sorted(tries.values_list("index", "retry")) == [(1, 0), (1, 1)]
    assert len({epoch for (epoch,) in tries.values_list("epoch")}) == 2
    specs = {s.attempt_id: s for s in desired_attempts(node.pk)}
    assert str(newest(job).pk) in specs


def test_a_task_without_retries_left_ends_the_job(job):
    fails(job)
    pause_is_over()
    tick()
    report(newest(job), "running")
    fails(job)
    assert job.exit_reason["code"] == "task_failed"
    report(attempts_of(job), "exited", "released", exit_code=143)
    job.refresh_from_db()
    assert job.state == "FAILED"
    kept = JobAttempt.objects.get()
    assert (kept.outcome, kept.retry) == ("FAILED", "")
    assert kept.diagnosis["task"] == "worker-0"


def test_a_job_whose_tasks_were_tried_again_ends_well(job):
    fails(job)
    pause_is_over()
    tick()
    report(newest(job), "running")
    report([newest(job, rank) for rank in range(3)], "exited", "released")
    job.refresh_from_db()
    assert job.state == "SUCCEEDED"


CLASSES = {
    "transient": ({"exit_code": 143}, b"", 1, 0),
    "by its node": ({"xids": [79]}, b"", 1, 0),
    "unknown": ({}, b"", 1, 1),
    "permanent": ({}, b"ModuleNotFoundError: No module named 'foo'\n", 0, 0),
}


@pytest.mark.parametrize("case", CLASSES)
def test_retry_class(job, case):
    fields, log, again, counted = CLASSES[case]
    fails(job, log=log, **fields)
    assert job.unplaced == again
    assert Task.objects.get(rank=0).retries_used == counted
    assert event_kinds(job).count("task.retried") == again
    assert newest(job).diagnosis is not None


def test_a_task_is_tried_again_for_free_without_retries_of_its_own(alice, vc):
    job = started(alice, vc)
    fails(job, exit_code=143)
    assert (job.state, job.unplaced, job.exit_reason) == ("RUNNING", 1, None)


def test_the_node_at_fault_is_avoided_by_the_job(job):
    other = make_node("n2", gpus=4)
    fails(job, xids=[79])
    assert list(job.avoid_nodes) == ["n1"]
    pause_is_over()
    tick()
    assert newest(job).node == other


def test_lost_tasks_are_placed_elsewhere_while_the_others_go_on(alice, vc, job, node):
    other = make_node("n2", gpus=4)
    lose(node)
    services.reconcile()
    pause_is_over()
    assert tick() == {str(job.pk)}
    job.refresh_from_db()
    assert (job.state, job.unplaced, job.attempt) == ("RUNNING", 0, 1)
    assert {newest(job, rank).node for rank in range(3)} == {other}


def test_tasks_that_failed_at_once_are_explained_one_after_the_other(job):
    report([newest(job, 0), newest(job, 1)], "exited", exit_code=1)
    job.refresh_from_db()
    assert (job.unplaced, job.diagnosing_at is None) == (0, False)
    assert explain(job)
    job.refresh_from_db()
    assert (job.unplaced, job.diagnosing_at is None) == (1, False)
    assert explain(job)
    job.refresh_from_db()
    assert (job.unplaced, job.diagnosing_at) == (2, None)


def test_the_others_go_on_while_a_task_is_diagnosed(job):
    report(newest(job), "exited", "released", exit_code=1)
    report([newest(job, 1), newest(job, 2)], "exited", "released")
    services.reconcile()
    job.refresh_from_db()
    assert (job.state, job.exit_reason) == ("RUNNING", None)
    explain(job)
    job.refresh_from_db()
    assert (job.state, job.unplaced) == ("RUNNING", 1)


def test_a_stop_ends_it_although_a_task_waits_for_its_retry(job, alice):
    fails(job)
    services.stop(alice, job.pk)
    report([newest(job, 1), newest(job, 2)], "exited", "released", exit_code=143)
    job.refresh_from_db()
    assert (job.state, job.unplaced) == ("STOPPED", 0)
    pause_is_over()
    assert tick() == set()


def test_the_next_attempt_of_the_job_forgets_the_retries_of_its_tasks(alice, vc):
    job = started(alice, vc, taskRetryCount=1, retries=1)
    fails(job, rank=1)
    pause_is_over()
    tick()
    report(newest(job, 1), "running")
    fails(job, rank=1)
    report(attempts_of(job), "exited", "released", exit_code=143)
    job.refresh_from_db()
    assert (job.state, job.placed_at, job.retries_used) == ("WAITING", None, 1)
    Job.objects.update(not_before=None)
    assert tick() == {str(job.pk)}
    assert set(Task.objects.values_list("retries_used", "not_before")) == {(0, None)}
    assert {(a.index, a.retry) for a in attempts_of(job)} == {(2, 0)}


def test_it_is_shown_as_waiting_and_counted_once(job, alice):
    fails(job)
    api = Api(alice)
    detail = api.get(f"/jobs/{job.pk}").json()
    assert detail["task_roles"][0]["states"] == {"RUNNING": 2, "WAITING": 1}
    waiting = api.get(f"/jobs/{job.pk}/tasks?state=WAITING").json()["results"]
    assert [task["rank"] for task in waiting] == [0]
    pause_is_over()
    tick()
    detail = api.get(f"/jobs/{job.pk}").json()
    assert detail["task_roles"][0]["states"] == {"RUNNING": 2, "ASSIGNED": 1}
    assert api.get(f"/jobs/{job.pk}/tasks?state=FAILED").json()["results"] == []


def test_a_world_that_followed_equals_one_that_was_built(job):
    source = StateSource()
    source.catch_up()
    fails(job)
    (holding,) = source.catch_up().running.values()
    assert holding.unplaced == (("worker", 0),)
    assert holding.delays[0][2] > time.time() - 60
    pause_is_over()
    tick()
    source.catch_up()
    fresh = StateSource()
    fresh.catch_up()
    assert differences(source.state.digest(), fresh.state.digest()) == []
