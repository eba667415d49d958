"""Why a job failed decides whether it is tried again, and when, and where."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import attempts_of, event_kinds, explain, placed, report, tick
from tests.support.platform_factories import make_node

from skep_platform.jobs import queries, services
from skep_platform.jobs.lifecycle.decisions import MAX_FREE_RETRIES, conflict_backoff_s
from skep_platform.jobs.lifecycle.failures import DIAGNOSIS_TIMEOUT_S
from skep_platform.jobs.models import Job, JobAttempt, Lease

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return make_node("n1", gpus=8)


def fails(job, log: bytes = b"", **fields) -> Job:
    """Its first task exits with code 1 after it wrote `log`, or as `fields` say."""
    first, *others = attempts_of(job)
    report([first, *others], "running")
    report(first, "exited", **{"exit_code": 1, **fields})
    explain(job, log)
    report(others, "exited", exit_code=143)
    report(attempts_of(job), "released")
    job.refresh_from_db()
    return job


def pause(job) -> float:
    return (job.not_before - timezone.now()).total_seconds()


CLASSES = {
    # log, facts → state, counted, free, JobAttempt.retry
    "transient": (b"", {"exit_code": 143}, ("WAITING", 0, 1, "free")),
    "conflict": (
        b"urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n",
        {},
        ("WAITING", 0, 1, "conflict"),
    ),
    "unknown": (b"it went wrong\n", {}, ("WAITING", 1, 0, "counted")),
    "permanent, by its log": (
        b"ModuleNotFoundError: No module named 'foo'\n",
        {},
        ("FAILED", 0, 0, ""),
    ),
    "permanent, by facts": (b"", {"exit_code": 137, "oom_killed": True}, ("FAILED", 0, 0, "")),
    "by its node": (b"", {"xids": [79]}, ("WAITING", 0, 1, "elsewhere")),
}


@pytest.mark.parametrize("case", CLASSES)
def test_retry_class(alice, vc, case):
    log, fields, (state, counted, free, retry) = CLASSES[case]
    job = fails(placed(alice, vc, instances=2, retries=3), log, **fields)
    assert (job.state, job.retries_used, job.free_retries) == (state, counted, free)
    ended = JobAttempt.objects.get()
    assert (ended.index, ended.outcome, ended.retry) == (1, "FAILED", retry)
    assert ended.diagnosis == job.diagnosis
    assert ended.reason["message"].startswith("Task worker-0 on n1")
    assert job.diagnosing_at is None
    assert attempts_of(job)[0].diagnosis["name"] == job.diagnosis["name"]


def test_an_unknown_failure_without_retries_left_ends_the_job(alice, vc):
    job = fails(placed(alice, vc))
    assert (job.state, job.exit_reason["code"]) == ("FAILED", "task_failed")


def test_a_conflict_waits_for_minutes_at_random_but_always_the_same(alice, vc):
    job = placed(alice, vc)
    report(attempts_of(job), "failed", error_code="image_pull")
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert 60 <= conflict_backoff_s(job.pk, 1) <= 900
    assert pause(job) == pytest.approx(conflict_backoff_s(job.pk, 1), abs=5)
    assert job.wait_reason["details"]["retry"] == "conflict"


def test_transient_failures_wait_longer_each_time_and_not_for_ever(alice, vc):
    job = placed(alice, vc)
    Job.objects.update(free_retries=MAX_FREE_RETRIES - 1)
    fails(job, exit_code=143)
    assert (job.state, job.free_retries) == ("WAITING", MAX_FREE_RETRIES)
    assert pause(job) == pytest.approx(300, abs=5)
    Job.objects.update(not_before=None)
    tick()
    fails(job, exit_code=143)
    assert (job.state, job.free_retries) == ("FAILED", MAX_FREE_RETRIES)


def test_the_owner_reads_why_and_what_to_do(alice, vc):
    job = fails(placed(alice, vc), b"ModuleNotFoundError: No module named 'foo'\n")
    found = queries.events(job).get(kind="job.diagnosed")
    assert found.message.startswith("Import error: ModuleNotFoundError: No module named 'foo'. ")
    assert found.message.endswith(job.diagnosis["remedy"])
    assert event_kinds(job)[-3:] == ["task.failed", "job.diagnosed", "job.failed"]
    assert "No module named 'foo'" in job.exit_reason["message"]


def test_a_node_that_was_at_fault_is_avoided_for_an_hour(alice, vc, node):
    job = fails(placed(alice, vc), xids=[79])
    assert "elsewhere than on n1" in job.wait_reason["message"]
    left = job.avoid_nodes["n1"] - timezone.now().timestamp()
    assert left == pytest.approx(3600, abs=5)


def test_nothing_is_decided_while_it_is_diagnosed_and_its_gpus_go_to_others(alice, vc):
    job = placed(alice, vc, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    services.reconcile()
    job.refresh_from_db()
    assert (job.state, job.finished_at) == ("RUNNING", None)
    assert job.diagnosing_at is not None
    assert not Lease.objects.filter(released_at=None).exists()
    assert not JobAttempt.objects.exists()
    assert explain(job)
    job.refresh_from_db()
    assert (job.state, job.retries_used, job.diagnosing_at) == ("WAITING", 1, None)


def test_a_job_that_is_diagnosed_is_stopped_at_once(alice, vc):
    job = placed(alice, vc, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    services.stop(alice, job.pk)
    job.refresh_from_db()
    assert (job.state, job.diagnosing_at) == ("STOPPED", None)
    assert not explain(job)
    assert JobAttempt.objects.get().outcome == "STOPPED"


def test_a_diagnosis_that_never_comes_is_not_waited_for(alice, vc):
    job = placed(alice, vc, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    late = timezone.now() - timedelta(seconds=DIAGNOSIS_TIMEOUT_S + 1)
    Job.objects.update(diagnosing_at=late)
    services.reconcile()
    job.refresh_from_db()
    assert (job.state, job.retries_used) == ("WAITING", 1)
    assert job.diagnosis["reaction"] == "RETRY_TO_MAX"


def test_an_answer_that_comes_twice_counts_once(alice, vc):
    job = placed(alice, vc, retries=3)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", "released", exit_code=1)
    assert [explain(job), explain(job)] == [True, False]
    job.refresh_from_db()
    assert (job.retries_used, JobAttempt.objects.count()) == (1, 1)


def test_all_attempts_are_kept(alice, vc):
    job = placed(alice, vc, retries=1)
    fails(job)
    Job.objects.update(not_before=None)
    tick()
    report(attempts_of(job), "running", "exited", "released")
    kept = JobAttempt.objects.order_by("index").values_list("index", "outcome", "retry")
    assert list(kept) == [(1, "FAILED", "counted"), (2, "SUCCEEDED", "")]
    last = JobAttempt.objects.get(index=2)
    assert last.placed_at <= last.started_at <= last.finished_at
    assert last.diagnosis is None
