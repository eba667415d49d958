"""Jobs whose tasks start one by one: how they go on, end, and are listed."""

from __future__ import annotations

import pytest
from tests.support.jobs_world import attempts_of, explain, lose, partly_placed, report
from tests.support.platform_api import Api

from skep_platform.jobs import services
from skep_platform.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("node")]


def look(job: Job) -> tuple[str, int]:
    job.refresh_from_db()
    return job.state, job.unplaced


def test_it_does_not_succeed_while_tasks_wait_for_a_place(alice, vc):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=2)
    report(attempts_of(job), "running", "exited", "released")
    services.reconcile()
    assert look(job) == ("RUNNING", 1)


def test_a_stop_ends_it_although_tasks_wait(alice, vc):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=1)
    report(attempts_of(job), "running")
    services.stop(alice, job.pk)
    assert look(job) == ("STOPPING", 0)
    report(attempts_of(job), "exited", "released")
    assert look(job) == ("STOPPED", 0)


def test_a_stop_ends_it_at_once_when_nothing_runs(alice, vc):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=2)
    report(attempts_of(job), "running", "exited", "released")
    services.stop(alice, job.pk)
    assert look(job) == ("STOPPED", 0)


def test_a_failed_task_ends_it_by_its_policy(alice, vc):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=2)
    report(attempts_of(job)[0], "running", "exited", exit_code=1)
    assert look(job) == ("RUNNING", 1)  # it is not known yet why, and whether it is tried again
    explain(job)
    assert look(job) == ("RUNNING", 0)  # no task starts any more
    report(attempts_of(job)[1], "exited")
    assert look(job) == ("FAILED", 0)


def test_lost_tasks_start_again_by_themselves_for_free(alice, vc, node):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=2)
    report(attempts_of(job), "running")
    lose(node)
    services.reconcile()
    assert look(job) == ("RUNNING", 3)
    assert (job.attempt, job.retries_used) == (1, 0)


def test_tasks_without_a_place_are_listed_as_waiting(alice, vc):
    job = partly_placed(alice, vc, tasks=3, placed_tasks=2)
    report(attempts_of(job), "running")
    api = Api(alice)
    detail = api.get(f"/jobs/{job.pk}").json()
    assert (detail["incremental"], detail["unplaced"]) == (True, 1)
    assert detail["task_roles"][0]["states"] == {"RUNNING": 2, "WAITING": 1}
    tasks = api.get(f"/jobs/{job.pk}/tasks").json()["results"]
    assert [task["state"] for task in tasks] == ["RUNNING", "RUNNING", "WAITING"]
    waiting = api.get(f"/jobs/{job.pk}/tasks?state=WAITING").json()["results"]
    assert [task["rank"] for task in waiting] == [2]


def test_a_task_of_an_earlier_attempt_waits_again(alice, vc):
    job = partly_placed(alice, vc, tasks=2, placed_tasks=2)
    report(attempts_of(job), "running", "exited", "released")
    first, second = attempts_of(job)
    Job.objects.filter(pk=job.pk).update(attempt=2, state="RUNNING", unplaced=1)
    first.index = 2
    first.save()
    tasks = Api(alice).get(f"/jobs/{job.pk}/tasks").json()["results"]
    assert [task["state"] for task in tasks] == ["SUCCEEDED", "WAITING"]
    assert second.state == "SUCCEEDED"
    found = Api(alice).get(f"/jobs/{job.pk}/tasks?state=WAITING").json()["results"]
    assert [task["rank"] for task in found] == [1]
