"""Finished jobs move to the archive whole, and what anything still counts on stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import OperationalError, connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg.errors import DeadlockDetected
from structlog.testing import capture_logs
from tests.support.at_once import at_once
from tests.support.finished_jobs import finish, finished_job, job_that_ran
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import submit
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.audit.models import AuditEntry
from skep_platform.audit.services import record as audit
from skep_platform.core.errors import Conflict
from skep_platform.core.events import record
from skep_platform.core.models import Event
from skep_platform.interactive.models import App
from skep_platform.jobs import services
from skep_platform.jobs.archive import ArchivedJob
from skep_platform.jobs.image_saves import ImageSave
from skep_platform.jobs.models import (
    Job,
    JobDependency,
    JobSecrets,
    Lease,
    PortLease,
    TaskAttempt,
)
from skep_platform.operations import archiving
from skep_platform.telemetry.models import GpuHistory, GpuRollup, LogChunk
from skep_platform.tenancy import services as tenancy
from skep_platform.usage.models import JobUsage, UsageDay, UsageRollup

pytestmark = pytest.mark.django_db
# What stays of a job in tables of its own: sums, and rows that only point to it.
STAYS = {
    *("usage.UsageDay", "telemetry.GpuRollup", "telemetry.GpuHistory", "jobs.ImageSave"),
    "telemetry.LogChunk",
}


@pytest.fixture(autouse=True)
def days(settings):
    settings.SKEP_JOB_ARCHIVE_DAYS = 60
    settings.SKEP_LOG_RETENTION_DAYS = settings.SKEP_METRIC_RETENTION_DAYS = 30


def test_a_job_is_moved_whole():
    job = job_that_ran(name="train", tags=["night"], priority_class="prod")
    Job.objects.filter(pk=job.pk).update(
        spec_text="name: train",
        exit_reason={"code": "task_failed", "message": "Task worker-0 failed.", "details": {}},
    )
    node = TaskAttempt.objects.get(job=job).node.name
    assert archiving.archive_old() == 1
    assert not Job.objects.exists()
    row = ArchivedJob.objects.get(pk=job.pk)
    assert (row.name, row.owner, row.vc, row.state) == ("train", job.owner, job.vc, "FAILED")
    assert (row.owner_name, row.vc_name) == (job.owner.username, job.vc.name)
    assert (row.priority_class, row.gpus, row.tasks_total) == ("prod", 2, 1)
    assert (row.submitted_at, row.finished_at) == (job.created_at, job.finished_at)
    record = row.record
    assert (record["spec_text"], record["tags"]) == ("name: train", ["night"])
    assert record["exit_reason"] == {"code": "task_failed", "message": "Task worker-0 failed."}
    [role] = record["roles"]
    assert (role["name"], role["gpus"], role["cpus"], role["image"]) == (
        *("worker", 2, 1.0),
        "test/image",
    )
    [attempt] = record["attempts"]
    assert (attempt["index"], attempt["outcome"], attempt["nodes"]) == (1, "FAILED", [node])
    assert attempt["reason"]["code"] == "task_failed"
    assert (attempt["diagnosis_code"], attempt["diagnosis_name"]) == (137, "oom")
    assert [event["kind"] for event in record["events"]] == ["job.finished", "job.submitted"]
    assert record["use"]["gpu_hours"] == 4.0
    assert record["shortened"] == []


def test_a_job_that_cannot_be_archived_keeps_no_other_one_from_it():
    jobs = [job_that_ran(name=f"job-{n}") for n in range(4)]
    bad = jobs[1]
    Job.objects.filter(pk=bad.pk).update(exit_reason=["no", "reason"])
    with capture_logs() as logs:
        assert archiving.archive_old() == 3
    assert list(Job.objects.values_list("pk", flat=True)) == [bad.pk]
    failed = [one["job_id"] for one in logs if one["event"] == "job_not_archived"]
    assert failed == [str(bad.pk)]


def test_a_batch_that_meets_a_deadlock_is_tried_again_in_the_same_run():
    """A smaller one, which meets fewer others; no job is left out for it."""
    jobs = [job_that_ran(name=f"job-{n}") for n in range(2)]
    met: list[str] = []

    def deadlock(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if 'DELETE FROM "jobs_job"' in sql and len(met) < 2:
            met.append(sql)
            raise OperationalError("deadlock detected") from DeadlockDetected()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(deadlock):
        assert archiving.archive_old() == len(jobs)
    assert len(met) == 2


def test_the_time_of_gpus_and_what_they_did_stay_in_sums_with_audit_entries_and_events():
    job = job_that_ran()
    device = TaskAttempt.objects.get(job=job).gpu_uuids[0]
    audit("job.submit", "job", job.pk, job.name, vc=job.vc)
    before = list(UsageRollup.objects.order_by("pk").values())
    assert before
    archiving.archive_old()
    assert list(UsageRollup.objects.order_by("pk").values()) == before
    [day] = UsageDay.objects.all()
    assert (day.job, day.user, day.vc, day.allocated_us) == (
        *(None, job.owner, job.vc),
        14_400_000_000,
    )
    assert not JobUsage.objects.exists()
    row = GpuRollup.objects.get(device=device)
    assert (row.attempt, row.samples, row.utilization_sum) == (None, 100, 5000)
    row = GpuHistory.objects.get(device=device)
    assert (row.attempt, row.seconds, row.samples) == (None, 86400, 1000)
    assert AuditEntry.objects.filter(target_id=str(job.pk)).count() == 1
    assert Event.objects.filter(subject_id=str(job.pk)).count() == 2


def test_days_and_samples_that_several_jobs_had_in_common_are_added_up():
    first = job_that_ran()
    second = job_that_ran(first.owner, first.vc)
    devices = TaskAttempt.objects.get(job=first).gpu_uuids
    mine = list(GpuRollup.objects.filter(device__in=devices).values_list("pk", flat=True))
    others = TaskAttempt.objects.get(job=second)
    for pk in mine:  # the same GPU and hour was also the second job's
        row = GpuRollup.objects.get(pk=pk)
        row.pk, row.attempt = None, others
        row.save()
    total = UsageDay.objects.aggregate(n=Sum("allocated_us"))["n"]
    assert archiving.archive_old() == 2
    assert UsageDay.objects.aggregate(n=Sum("allocated_us"))["n"] == total
    rows = GpuRollup.objects.filter(device__in=devices)
    sums = [(row.samples, row.utilization_sum, row.power_samples) for row in rows]
    assert sums == [(200, 10_000, 200)] * 2


def test_never_by_default_and_not_before_its_time(settings):
    job = job_that_ran(days_ago=59)
    assert archiving.archive_old() == 0
    settings.SKEP_JOB_ARCHIVE_DAYS = 0
    Job.objects.filter(pk=job.pk).update(finished_at=timezone.now() - timedelta(days=9999))
    assert archiving.archive_old() == 0
    settings.SKEP_JOB_ARCHIVE_DAYS = 60
    assert archiving.archive_old() == 1


def test_not_before_logs_and_samples_by_the_minute_are_over(settings):
    settings.SKEP_JOB_ARCHIVE_DAYS = 1
    finished_job(days_ago=29)
    assert archiving.archive_old() == 0
    settings.SKEP_LOG_RETENTION_DAYS = 7
    assert archiving.archive_old() == 0
    settings.SKEP_METRIC_RETENTION_DAYS = 7
    assert archiving.archive_old() == 1


def _unreleased(job: Job) -> None:
    TaskAttempt.objects.filter(job=job).update(released_at=None)


def _held(job: Job) -> None:
    Lease.objects.filter(attempt__job=job).update(released_at=None)


def _uncounted(job: Job) -> None:
    Lease.objects.filter(attempt__job=job).update(counted_until=None)


def _counted_in_part(job: Job) -> None:
    Lease.objects.filter(attempt__job=job).update(counted_until=job.started_at)


def _port(job: Job) -> None:
    attempt = TaskAttempt.objects.get(job=job)
    PortLease.objects.create(node=attempt.node, port=40000, attempt=attempt)


def _chunk(job: Job) -> None:
    attempt = TaskAttempt.objects.get(job=job)
    LogChunk.objects.create(
        job=job, attempt=attempt, stream="stdout", offset=0, size=1, at=timezone.now(), key="x"
    )


def _awaited(job: Job) -> None:
    waiting = make_job(job.vc, job.owner, awaits_dependencies=True)
    JobDependency.objects.create(job=waiting, upstream=job, condition="afterok")


def _parent(job: Job) -> None:
    make_job(job.vc, job.owner, parent=job)


def _fields(**fields: Any) -> Callable[[Job], None]:
    return lambda job: Job.objects.filter(pk=job.pk).update(**fields) and None


@pytest.mark.parametrize(
    "still",
    [
        *(_unreleased, _held, _uncounted, _counted_in_part, _port, _chunk, _awaited, _parent),
        pytest.param(_fields(logs_deleted_at=None), id="logs"),
        pytest.param(_fields(use_counted=False), id="use"),
        pytest.param(_fields(diagnosing_at=timezone.now()), id="diagnosis"),
        pytest.param(_fields(state="RUNNING", finished_at=None), id="running"),
        pytest.param(_fields(state="STOPPING"), id="stopping"),
    ],
)
def test_a_job_stays_while_something_counts_on_it(still):
    job = job_that_ran()
    still(job)
    other = job_that_ran()
    assert archiving.archive_old() == 1  # the one does not hold up the other
    assert Job.objects.filter(pk=job.pk).exists()
    assert [row.pk for row in ArchivedJob.objects.all()] == [other.pk]
    assert TaskAttempt.objects.filter(job=job).count() == 1


def test_a_job_that_another_one_waited_for_is_moved_once_that_has_ended():
    first = job_that_ran()
    second = make_job(first.vc, first.owner, parent=first)
    JobDependency.objects.create(job=second, upstream=first, condition="afterok")
    assert archiving.archive_old() == 0
    finish(second, days_ago=1)
    assert archiving.archive_old() == 1
    second.refresh_from_db()
    assert second.parent is None
    assert not JobDependency.objects.exists()


def test_its_name_is_free_again_for_its_owner():
    owner = make_user()
    vc = make_vc(quotas={"A100": 8}, members=[owner])
    finish(submit(owner, vc, name="nightly"))
    archiving.archive_old()
    assert submit(owner, vc, name="nightly").name == "nightly"
    assert ArchivedJob.objects.get().name == "nightly"


def test_secrets_and_names_of_other_jobs_are_never_in_a_record():
    owner = make_user()
    vc = make_vc(quotas={"A100": 8}, members=[owner])
    job = submit(owner, vc, name="with-secret", commands=["echo <% $secrets.key %>"])
    other = make_job(vc, owner, name="other-plan")
    JobSecrets.objects.create(job=job, sealed=b"hunter2")
    old = "git clone https://robot:hunter2@git.example.org/x"
    Job.objects.filter(pk=job.pk).update(
        spec_text=old,
        exit_reason={
            "code": "preempted",
            "message": "Preempted by another job.",
            "details": {"by": str(other.pk), "by_name": "other-plan", "peer": True,
                        "priority_class": "prod", "restarts": True},
        },
    )  # fmt: skip
    job.roles.update(command=old)
    record("job", job.pk, "job.idle", "It was idle.", by=str(other.pk), by_name="other-plan")
    finish(job)
    archiving.archive_old()
    text = json.dumps(ArchivedJob.objects.get(pk=job.pk).record)
    assert "git.example.org" in text
    for hidden in ("hunter2", "other-plan", str(other.pk)):
        assert hidden not in text
    assert not JobSecrets.objects.exists()


def test_a_record_has_a_bounded_size():
    job = finished_job()
    job.roles.update(command="é" * 100_000)
    for number in range(archiving.EVENTS + 50):
        record("job", job.pk, "job.log_limit", f"{number} " + "ü" * 5000)
    archiving.archive_old()
    kept = ArchivedJob.objects.get().record
    assert len(json.dumps(kept, ensure_ascii=False).encode()) < archiving.MOST_BYTES + 10_000
    assert kept["shortened"] == ["events"]
    assert kept["events"][0]["message"].startswith(f"{archiving.EVENTS + 49} ")
    assert kept["roles"]


def test_images_that_were_saved_from_it_stay():
    job = job_that_ran()
    attempt = TaskAttempt.objects.get(job=job)
    save = ImageSave.objects.create(
        job=job,
        attempt=attempt,
        epoch=1,
        task="worker-0",
        node=attempt.node,
        vc=job.vc,
        created_by=job.owner,
        reference="registry.example.org/x:1",
        expires_at=timezone.now(),
    )
    App.objects.create(job=job, name="lab", type="jupyterlab", role="worker")
    assert archiving.archive_old() == 1
    save.refresh_from_db()
    assert (save.job, save.attempt) == (None, None)
    assert not App.objects.exists()


def test_a_batch_costs_the_same_number_of_statements_with_more_jobs():
    def statements(jobs: int) -> int:
        for _ in range(jobs):
            job_that_ran()
        with CaptureQueriesContext(connection) as captured:
            assert archiving.archive_old() == jobs
        return len(captured)

    assert statements(1) == statements(7)


def test_a_batch_is_bounded_and_the_rest_follows(monkeypatch):
    monkeypatch.setattr(archiving, "ROWS", 5)
    for days_ago in (70, 90, 80):
        finished_job(days_ago=days_ago, tasks=3, attempt=1)
    batches: list[list[Any]] = []
    due = archiving._due

    def noted(before, *more):
        batches.append(due(before, *more))
        return batches[-1]

    monkeypatch.setattr(archiving, "_due", noted)
    assert archiving.archive_old() == 3
    assert [len(batch) for batch in batches] == [1, 1, 1, 0]
    assert not Job.objects.exists()


def test_archived_jobs_are_deleted_after_their_time_and_never_by_default(settings):
    for _ in range(2):
        finished_job()
    archiving.archive_old()
    old, young = ArchivedJob.objects.order_by("pk")
    ArchivedJob.objects.filter(pk=old.pk).update(archived_at=timezone.now() - timedelta(days=11))
    assert archiving.delete_old() == 0
    settings.SKEP_JOB_ARCHIVE_KEEP_DAYS = 10
    assert archiving.delete_old() == 1
    assert [row.pk for row in ArchivedJob.objects.all()] == [young.pk]


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_move_each_job_once_and_leave_no_row_without_its_job(monkeypatch):
    monkeypatch.setattr(archiving, "JOBS", 2)
    jobs = {job_that_ran().pk for _ in range(5)}
    counts = at_once(archiving.archive_old, archiving.archive_old)
    while (moved := archiving.archive_old()) > 0:  # one that found the other at work gave up
        counts.append(moved)
    assert sum(counts) == 5
    assert {row.pk for row in ArchivedJob.objects.all()} == jobs
    assert not Job.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs_taskattempt")
        assert cursor.fetchone() == (0,)


@pytest.mark.django_db(transaction=True)
def test_a_submit_that_depends_on_a_job_which_is_archived_at_that_moment_is_accepted(monkeypatch):
    ann = make_user("ann")
    vc = make_vc(members=[ann], quotas={"A100": 4})
    make_node(gpus=4)
    old = job_that_ran(ann, vc, name="old", state="SUCCEEDED")
    moved, stored = threading.Event(), threading.Event()

    def wait_for_the_submit(topic: str) -> None:  # the job is deleted, and that not committed
        moved.set()
        wait_until(lambda: stored.is_set() or waits_for_a_lock(), "the submit came as far")

    monkeypatch.setattr(archiving.notifications, "notify_topic", wait_for_the_submit)

    def submit_then() -> Job:
        assert moved.wait(60)
        monkeypatch.undo()
        depends = {"dependsOn": [{"job": "old", "condition": "afterok"}]}
        try:
            return submit(ann, vc, name="new", skep=depends)
        finally:
            stored.set()

    count, new = at_once(archiving.archive_old, submit_then)
    assert count == 1
    assert isinstance(new, Job)
    assert not Job.objects.filter(pk=old.pk).exists()
    assert not JobDependency.objects.exists()
    services.reconcile()
    new.refresh_from_db()
    assert (new.awaits_dependencies, new.wait_reason) == (False, None)


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_fails_moves_nothing(monkeypatch):
    job = job_that_ran()

    def fail(ids):
        raise RuntimeError

    monkeypatch.setattr(archiving.downsampling, "forget_jobs", fail)
    assert archiving.archive_old() == 0
    assert not ArchivedJob.objects.exists()
    assert Job.objects.get() == job
    assert UsageDay.objects.get().job == job


def test_every_reference_to_a_job_is_dealt_with():
    """Who adds a table that refers to jobs says in `archiving` what becomes of its rows."""
    moved = {model._meta.label for model, _ in (*archiving.OF_JOBS, *archiving.OF_ATTEMPTS)}
    targets = {
        *("jobs.Job", "jobs.TaskAttempt", "jobs.Task", "jobs.TaskRole", "jobs.JobAttempt"),
        "interactive.App",
    }
    referring = {
        model._meta.label
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.many_to_one or field.one_to_one
        if not field.auto_created
        if field.related_model._meta.label in targets
    }
    assert referring - moved == STAYS | {"jobs.Job", "interactive.AppSession"}


def test_a_virtual_cluster_is_not_deleted_with_its_usage_since_its_jobs_are_archived():
    job = job_that_ran()
    archiving.archive_old()
    with pytest.raises(Conflict, match="belong to"):
        tenancy.delete(make_user(admin=True), job.vc)
    assert UsageDay.objects.exists()
