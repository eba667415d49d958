"""Elastic jobs on the real database: placed with the size that the policy chooses, asked to leave
for another one, and placed with it; what a job is shown to have follows."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, event_kinds, report, submit, tick
from tests.support.platform_api import session
from tests.support.platform_factories import make_node, make_vc

from skep_platform.core.errors import SkepError
from skep_platform.jobs import queries
from skep_platform.jobs.containers import specs
from skep_platform.jobs.models import Job, Task, TaskRole
from skep_platform.scheduling import source as state_source
from skep_platform.scheduling.source import StateSource
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db

HOLD = {"resize_hold_s": 0.0, "min_run_s": 0.0}


@pytest.fixture(autouse=True)
def _no_size_is_held(monkeypatch):
    monkeypatch.setattr(settings, "SKEP_SCHEDULING", settings.SKEP_SCHEDULING | HOLD)


@pytest.fixture
def vc(alice) -> VirtualCluster:
    make_node("gpu-1", gpus=8)
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    VirtualCluster.objects.filter(pk=vc.pk).update(policy={"name": "optimus", "parameters": {}})
    return vc


def elastic(user, vc, name: str, *, least: int = 1, most: int = 8, instances: int = 2) -> Job:
    own = {"elastic": {"min": least, "max": most}, "duration": "24h"}
    return submit(user, vc, name=name, instances=instances, skep=own)


def running(job: Job) -> None:
    report(attempts_of(job), "running")


def left(job: Job) -> None:
    report(attempts_of(job), "exited", exit_code=143)
    report(attempts_of(job), "released")


def size_of(job: Job) -> tuple[int, int, int]:
    """GPUs and tasks of the job, tasks of its role."""
    job.refresh_from_db()
    return job.gpus, job.tasks_total, TaskRole.objects.get(job=job).instances


def test_a_job_starts_with_the_size_that_its_policy_chooses(alice, vc):
    job = elastic(alice, vc, "grows")
    assert size_of(job) == (2, 2, 2)
    assert tick() == {str(job.pk)}
    assert size_of(job) == (8, 8, 8)
    assert [attempt.task.rank for attempt in attempts_of(job)] == list(range(8))
    assert TaskRole.objects.get(job=job).min_succeeded == 8
    assert queries.tasks(job).count() == 8


def test_it_makes_way_for_another_one_and_both_run_with_their_sizes(alice, vc):
    first = elastic(alice, vc, "first")
    tick()
    running(first)
    second = elastic(alice, vc, "second")
    assert tick() == set()
    first.refresh_from_db()
    assert first.preempting_at is not None
    assert first.wait_reason["code"] == "resized"
    assert first.wait_reason["message"] == (
        "Shrinks from 8 to 4 tasks (8 to 4 GPUs): one GPU each, then where they save most time. "
        "It saves its work, ends, and starts again from its old place in the queue."
    )
    second.refresh_from_db()
    assert second.wait_reason["code"] in ("no_size", "vc_busy")
    tick(2)
    assert event_kinds(first).count("job.resized") == 1, "it is asked once"

    left(first)
    assert tick() == {str(first.pk), str(second.pk)}
    assert size_of(first) == size_of(second) == (4, 4, 4)
    assert Task.objects.filter(job=first).count() == 8, "rows with a history stay"
    assert queries.tasks(first).count() == 4
    assert len(attempts_of(first)) == 4
    assert state_source.verify(StateSource()) == []


def test_its_tasks_know_the_size_of_their_gang(alice, vc):
    job = elastic(alice, vc, "knows", most=3)
    tick()
    attempts = attempts_of(job)
    built = specs.build([attempt.pk for attempt in attempts])
    one = built[attempts[0].pk]
    assert one.shared is not None
    env = {**one.shared.env, **one.spec.env}
    assert (env["PAI_TASK_ROLE_TASK_COUNT_worker"], env["WORLD_SIZE"]) == ("3", "3")


def test_what_is_shown_of_a_role_is_its_size_and_its_range(alice, vc):
    job = elastic(alice, vc, "shown", least=2, most=6, instances=4)
    answer = session(alice).get(f"/jobs/{job.pk}").json()
    assert answer["task_roles"][0]["instances"] == 4
    assert answer["task_roles"][0]["elastic"] == {"min": 2, "max": 6, "asked": 4}
    tick()
    answer = session(alice).get(f"/jobs/{job.pk}").json()
    assert (answer["task_roles"][0]["instances"], answer["gpus"], answer["tasks"]) == (6, 6, 6)


def test_under_another_policy_it_has_the_size_that_it_asks_for_again(alice, vc):
    job = elastic(alice, vc, "asked")
    tick()
    running(job)
    VirtualCluster.objects.filter(pk=vc.pk).update(policy={})
    left(job)
    Job.objects.filter(pk=job.pk).update(state="WAITING", placed_at=None, not_before=None)
    tick()
    assert size_of(job) == (2, 2, 2)


def test_a_size_costs_two_statements_for_any_number_of_jobs(alice, vc):
    def statements(jobs: int) -> int:
        for number in range(jobs):
            elastic(alice, vc, f"{jobs}-{number}", most=2, instances=1)
        with CaptureQueriesContext(connection) as seen:
            assert len(tick()) == jobs
        for job in Job.objects.filter(state="WAITING"):
            left(job)
        Job.objects.all().update(state="STOPPED")
        return len(seen)

    assert statements(1) == statements(3)


def test_elasticflow_refuses_at_submission_a_deadline_that_makes_others_late(alice, vc):
    VirtualCluster.objects.filter(pk=vc.pk).update(policy={"name": "elasticflow"})
    vc.refresh_from_db()
    first = due(alice, vc, "first", hours=3)
    tick()
    assert size_of(first) == (8, 8, 8)
    running(first)
    with pytest.raises(SkepError) as refused:
        due(alice, vc, "late", hours=3)
    assert refused.value.code == "deadline_cannot_be_met"
    assert "without making another job late" in refused.value.message
    earliest = datetime.fromisoformat(refused.value.details["earliest_deadline"])
    hours = (earliest - timezone.now()).total_seconds() / 3600
    assert 3 < hours < 8
    assert due(alice, vc, "later", hours=hours + 0.1).pk


def test_chronus_refuses_at_submission_a_deadline_for_which_too_few_terms_are_left(alice, vc):
    VirtualCluster.objects.filter(pk=vc.pk).update(policy={"name": "chronus"})
    vc.refresh_from_db()

    def two_hours(name: str, hours: float) -> Job:
        deadline = (timezone.now() + timedelta(hours=hours)).isoformat()
        own = {"duration": "2h", "deadline": deadline}
        return submit(alice, vc, name=name, instances=8, skep=own)

    first = two_hours("first", 3)
    tick()
    running(first)
    with pytest.raises(SkepError) as refused:
        two_hours("late", 3)
    assert refused.value.code == "deadline_cannot_be_met"
    assert "without making another job late. The earliest deadline is" in refused.value.message
    earliest = datetime.fromisoformat(refused.value.details["earliest_deadline"])
    hours = (earliest - timezone.now()).total_seconds() / 3600
    assert 4 < hours < 6
    assert two_hours("later", hours + 0.1).pk  # although no places become free until then


def due(user, vc, name: str, *, hours: float) -> Job:
    """Ten hours of work with two tasks, two and a half with eight."""
    deadline = (timezone.now() + timedelta(hours=hours)).isoformat()
    speedup = {"1": 1, "2": 2, "4": 4, "8": 8}
    own = {
        "elastic": {"min": 1, "max": 8, "speedup": speedup},
        "duration": "10h",
        "deadline": deadline,
    }
    return submit(user, vc, name=name, instances=2, skep=own)
