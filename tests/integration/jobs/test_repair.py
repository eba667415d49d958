"""The reconciler of jobs beside a job that it cannot repair, and beside other writers."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import ProgrammingError, connection, transaction
from django.utils import timezone
from structlog.testing import capture_logs
from tests.support.at_once import at_once
from tests.support.jobs_world import attempts_of, event_kinds, fact, placed, report, states_of
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster.models import Node
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle import messages, one_by_one, repair
from skep_platform.jobs.lifecycle.repair import SEND_AGAIN_S
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return make_node("n1", gpus=8)


def overdue(*jobs: Job) -> None:
    for job in jobs:
        report(attempts_of(job), "running")
    past = timezone.now() - timedelta(minutes=1)
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(max_duration_s=60, ends_at=past)


def test_a_job_that_cannot_be_repaired_keeps_no_other_one_from_it(alice, vc, monkeypatch):
    jobs = [placed(alice, vc, name=f"job-{n}") for n in range(5)]
    overdue(*jobs)
    bad = jobs[2]
    Job.objects.filter(pk=bad.pk).update(max_duration_s=61)
    over_time = messages.over_time

    def odd(seconds: int):
        return over_time({60: 60}[seconds])  # KeyError for the odd one

    monkeypatch.setattr(messages, "over_time", odd)
    with capture_logs() as logs:
        services.reconcile()
    failed = [one for one in logs if one["event"] == "job_not_repaired"]
    assert [(one["job_id"], one["step"]) for one in failed] == [(str(bad.pk), "overtime")]
    ended = set(Job.objects.exclude(exit_reason=None).values_list("pk", flat=True))
    assert ended == {job.pk for job in jobs} - {bad.pk}


def test_jobs_that_cannot_be_repaired_hold_up_none_behind_them(alice, vc, monkeypatch):
    first, second = sorted((placed(alice, vc, name=f"job-{n}") for n in range(2)), key=_pk)
    overdue(first, second)
    with monkeypatch.context() as defect:
        defect.setattr(messages, "over_time", {}.__getitem__)
        repair.end_overtime(limit=1)

    repair.end_overtime(limit=1)
    assert Job.objects.get(pk=first.pk).exit_reason is None
    assert Job.objects.get(pk=second.pk).exit_reason["code"] == messages.OVER_TIME

    later = time.monotonic() + one_by_one.FIRST_PAUSE_S + 1
    monkeypatch.setattr(one_by_one.time, "monotonic", lambda: later)
    repair.end_overtime(limit=1)
    assert Job.objects.get(pk=first.pk).exit_reason["code"] == messages.OVER_TIME


def _pk(job: Job) -> str:
    return str(job.pk)


def test_facts_that_cannot_be_stored_keep_no_others_of_the_node_from_it(alice, vc, node):
    bad, good = placed(alice, vc, name="bad"), placed(alice, vc, name="good")
    Job.objects.filter(pk=bad.pk).update(exit_reason=["no", "reason"], verdict="odd")
    facts = [fact(*attempts_of(job), "running") for job in (bad, good)]
    with capture_logs() as logs:
        services.apply_facts(node.pk, facts)
    assert states_of(good) == ["RUNNING"]
    failed = [one["attempt_id"] for one in logs if one["event"] == "facts_not_stored"]
    assert failed == [str(attempt.pk) for attempt in attempts_of(bad)]


def test_a_step_that_fails_keeps_no_later_step_from_running(alice, vc, monkeypatch):
    job = placed(alice, vc)
    overdue(job)

    class Failing:
        def finds(self) -> bool:
            raise KeyError("a defect")

    monkeypatch.setattr(repair, "LATE_STARTS", Failing())
    with pytest.raises(KeyError):  # so that the task is counted as failed
        services.reconcile()
    assert Job.objects.get(pk=job.pk).exit_reason["code"] == messages.OVER_TIME


@pytest.mark.django_db(transaction=True)
def test_facts_wait_for_a_server_that_knows_the_tables():
    """As while a migration of a newer version is applied: no fact is to blame, and none is lost."""
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    job = placed(alice, vc)
    running = [fact(*attempts_of(job), "running")]
    rename = 'ALTER TABLE jobs_taskattempt RENAME COLUMN "{}" TO "{}"'
    with connection.cursor() as cursor:
        cursor.execute(rename.format("ready_at", "prepared_at"))
        try:
            with pytest.raises(ProgrammingError):
                services.apply_facts(Node.objects.get().pk, running)
        finally:
            cursor.execute(rename.format("prepared_at", "ready_at"))
    services.apply_facts(Node.objects.get().pk, running)
    assert states_of(job) == ["RUNNING"]


def age(*jobs: Job) -> None:
    late = timezone.now() - timedelta(seconds=SEND_AGAIN_S + 1)
    TaskAttempt.objects.filter(job__in=jobs).update(updated_at=late)


@contextmanager
def locked_by_another(job: Job):
    """Lock a job as another process does that applies facts about its attempts."""
    is_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Job.objects.select_for_update(no_key=True).get(pk=job.pk)
                is_locked.set()
                may_end.wait(60)
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_locked.wait(60)
    yield
    may_end.set()
    thread.join()


@pytest.mark.django_db(transaction=True)
def test_attempts_are_sent_again_but_those_whose_job_another_process_holds():
    """Who writes attempts holds their job: one that did not could wait for the other and the other
    for it."""
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    held, free = (placed(alice, vc, name=name) for name in ("held", "free"))
    age(held, free)
    (before,) = Node.objects.values_list("desired_revision", flat=True)
    with locked_by_another(held):
        repair._send_again()
    late = timezone.now() - timedelta(seconds=SEND_AGAIN_S)
    again = TaskAttempt.objects.filter(updated_at__gt=late)
    assert [attempt.job_id for attempt in again] == [free.pk]
    assert Node.objects.get().desired_revision == before + 1
    repair._send_again()
    assert again.all().count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_workers_warn_once_that_the_time_of_a_job_is_nearly_over():
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    job = placed(alice, vc)
    report(attempts_of(job), "running")
    soon = timezone.now() + timedelta(minutes=9)
    Job.objects.filter(pk=job.pk).update(max_duration_s=7200, ends_at=soon)
    for _ in range(5):
        at_once(*[repair.report_ends] * 4)
        assert event_kinds(job).count("job.ending_soon") == 1
