"""Ends and retries: completion policies, counted and free retries, lost nodes, late starts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    lose,
    placed,
    report,
    state_of,
    states_of,
    tick,
)
from tests.support.platform_factories import make_node

from skep_platform.cluster.models import Node
from skep_platform.core.errors import SkepError
from skep_platform.core.models import Event
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle.repair import SEND_AGAIN_S, START_TIMEOUT_S
from skep_platform.jobs.models import Job, Lease, PortLease, TaskAttempt

pytestmark = pytest.mark.django_db


def due(job) -> None:
    """The backoff is over."""
    Job.objects.filter(pk=job.pk).update(not_before=timezone.now() - timedelta(seconds=1))


def fail(job, rank: int = 0, **fields) -> None:
    attempt = attempts_of(job)[rank]
    report(attempt, "running")
    report(attempt, "exited", **{"exit_code": 1, **fields})


def fail_for_unknown_reasons(job) -> None:
    fail(job)
    assert explain(job)


def end_all(job) -> None:
    """Whatever still lives ends and is released."""
    report([a for a in attempts_of(job) if a.state == "STOPPING"], "exited", exit_code=143)
    report(attempts_of(job), "released")


def test_a_failed_job_is_tried_again_as_often_as_it_asks(alice, vc, node):
    job = placed(alice, vc, retries=2)
    for used in (1, 2):
        fail_for_unknown_reasons(job)
        assert state_of(job) == "RUNNING"  # its GPU is not given back
        report(attempts_of(job), "released")
        job.refresh_from_db()
        assert (job.state, job.placed_at, job.retries_used) == ("WAITING", None, used)
        assert job.wait_reason["code"] == "retry"
        assert f"retry {used} of 2" in job.wait_reason["message"]
        assert tick() == set()  # not before the backoff is over
        due(job)
        assert tick() == {str(job.pk)}
    fail_for_unknown_reasons(job)
    job.refresh_from_db()
    assert (job.state, job.retries_used, job.attempt) == ("FAILED", 2, 3)
    assert [a.index for a in TaskAttempt.objects.order_by("index")] == [1, 2, 3]
    assert [a.epoch for a in TaskAttempt.objects.order_by("index")] == [1, 2, 3]
    assert event_kinds(job).count("job.retried") == 2


def test_a_retry_that_succeeds_ends_well(alice, vc, node):
    job = placed(alice, vc, retries=1)
    fail_for_unknown_reasons(job)
    end_all(job)
    due(job)
    tick()
    report(attempts_of(job), "running", "exited")
    job.refresh_from_db()
    assert (job.state, job.exit_reason["code"]) == ("SUCCEEDED", "succeeded")


def test_the_whole_gang_ends_before_it_is_tried_again(alice, vc, node):
    job = placed(alice, vc, instances=3, retries=1)
    report(attempts_of(job), "running")
    fail(job, rank=1)
    assert explain(job)
    assert states_of(job) == ["STOPPING", "FAILED", "STOPPING"]
    first, second, third = attempts_of(job)
    report([first, third], "exited", exit_code=143)
    report([first, second], "released")
    assert state_of(job) == "RUNNING"
    report(third, "released")
    assert state_of(job) == "WAITING"
    due(job)
    assert tick() == {str(job.pk)}
    assert states_of(job) == ["ASSIGNED"] * 3


POLICIES = {
    "all must succeed": ({}, [0, 0, 0], "SUCCEEDED"),
    "one failure fails": ({}, [0, 1], "FAILED"),
    "two failures allowed, one happened": ({"minFailedInstances": 3}, [0, 1, 0], "SUCCEEDED"),
    "failures never count": ({"minFailedInstances": -1}, [1, 1, 1], "SUCCEEDED"),
    "one success is enough": ({"minSucceededInstances": 1}, [0], "SUCCEEDED"),
    "success only when all are done": ({"minSucceededInstances": -1}, [0, 0, 0], "SUCCEEDED"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_completion_policy(alice, vc, node, case):
    completion, codes, end = POLICIES[case]
    job = placed(alice, vc, instances=3, completion=completion)
    report(attempts_of(job), "running")
    for rank, code in enumerate(codes):
        assert state_of(job) == "RUNNING"
        report(attempts_of(job)[rank], "exited", exit_code=code)
    end_all(job)
    explain(job)
    assert state_of(job) == end
    assert not Lease.objects.filter(released_at=None).exists()


def test_late_answers_do_not_change_the_verdict(alice, vc, node):
    job = placed(alice, vc, instances=2, completion={"minSucceededInstances": 1})
    first, second = attempts_of(job)
    report([first, second], "running")
    report(first, "exited")
    assert states_of(job) == ["SUCCEEDED", "STOPPING"]
    report(second, "failed", error_code="engine_down")
    assert state_of(job) == "SUCCEEDED"


@pytest.mark.parametrize("code", ["node_lost", "engine_down", "gpu_unavailable", "disk_full"])
def test_faults_of_the_platform_are_retried_for_free(alice, vc, node, code):
    job = placed(alice, vc)
    report(attempts_of(job), "failed", error_code=code)
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.retries_used, job.free_retries) == ("WAITING", 0, 1)
    assert job.wait_reason["details"]["cause"] == code
    due(job)
    assert tick() == {str(job.pk)}


@pytest.mark.parametrize("code", ["image_not_found", "image_auth", "spec_refused", "start_failed"])
def test_faults_of_the_job_are_not(alice, vc, node, code):
    job = placed(alice, vc)
    report(attempts_of(job), "failed", error_code=code)
    assert state_of(job) == "FAILED"


def test_the_attempts_of_a_lost_node_are_lost_released_and_placed_elsewhere(alice, vc, node):
    job = placed(alice, vc, instances=2)
    report(attempts_of(job), "running")
    lose(node)
    other = make_node("gpu-2", gpus=8)
    services.reconcile()
    assert states_of(job) == ["LOST", "LOST"]
    job.refresh_from_db()
    assert (job.state, job.retries_used) == ("WAITING", 0)
    assert not Lease.objects.filter(released_at=None).exists()
    due(job)
    tick()
    assert {a.node for a in attempts_of(job)} == {other}


def test_a_node_that_comes_back_too_late_is_notified_of_what_was_lost(alice, vc, node):
    placed(alice, vc)
    lose(node)
    before = Node.objects.get(pk=node.pk).desired_revision
    services.reconcile()
    assert Node.objects.get(pk=node.pk).desired_revision > before


def test_one_lost_node_ends_the_gang_on_the_others(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=2) for i in range(2)]
    job = placed(alice, vc, instances=4)
    report(attempts_of(job), "running")
    lose(nodes[0])
    services.reconcile()
    states = {a.node.name: a.state for a in attempts_of(job)}
    assert states == {"gpu-0": "LOST", "gpu-1": "STOPPING"}
    assert PortLease.objects.filter(node=nodes[0], released_at=None).count() == 0
    end_all(job)
    assert (state_of(job), Job.objects.get(pk=job.pk).retries_used) == ("WAITING", 0)


def test_a_task_that_crashes_because_another_node_died_costs_no_retry(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=1) for i in range(2)]
    job = placed(alice, vc, instances=2)
    report(attempts_of(job), "running")
    crashed = next(a for a in attempts_of(job) if a.node_id == nodes[1].pk)
    report(crashed, "exited", exit_code=1)
    report(crashed, "released")
    assert state_of(job) == "RUNNING"
    assert explain(job)
    lose(nodes[0])
    services.reconcile()
    job.refresh_from_db()
    assert (job.state, job.retries_used) == ("WAITING", 0)


def test_a_node_that_comes_back_reports_about_what_was_lost_in_vain(alice, vc, node):
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    report(attempt, "running")
    lose(node)
    services.reconcile()
    report(attempt, "exited", exit_code=0)
    report(attempt, "released")
    assert states_of(job) == ["LOST"]
    assert state_of(job) == "WAITING"


def test_a_stopping_job_on_a_lost_node_is_stopped(alice, vc, node):
    job = placed(alice, vc)
    report(attempts_of(job), "running")
    services.stop(alice, job.pk)
    lose(node)
    services.reconcile()
    assert (state_of(job), states_of(job)) == ("STOPPED", ["LOST"])


def age(seconds: float) -> None:
    then = timezone.now() - timedelta(seconds=seconds)
    TaskAttempt.objects.update(created_at=then, updated_at=then)


def test_a_node_that_does_not_answer_is_notified_again_but_not_all_the_time(alice, vc, node):
    placed(alice, vc)
    revision = Node.objects.get(pk=node.pk).desired_revision
    services.reconcile()
    assert Node.objects.get(pk=node.pk).desired_revision == revision
    age(SEND_AGAIN_S + 1)
    for _ in range(3):
        services.reconcile()
    assert Node.objects.get(pk=node.pk).desired_revision == revision + 1


def test_an_attempt_that_no_node_begins_fails_for_free_and_keeps_its_gpu(alice, vc, node):
    job = placed(alice, vc)
    age(START_TIMEOUT_S + 1)
    services.reconcile()
    (attempt,) = attempts_of(job)
    assert (attempt.state, attempt.error_code) == ("FAILED", "start_timeout")
    assert state_of(job) == "WAITING"
    assert Lease.objects.filter(released_at=None).count() == 1
    report(attempt, "released")
    job.refresh_from_db()
    assert (job.state, job.placed_at, job.retries_used) == ("WAITING", None, 0)


def test_what_runs_is_left_alone(alice, vc, node):
    job = placed(alice, vc)
    report(attempts_of(job), "running")
    age(1e6)
    before = TaskAttempt.objects.values().get(), Job.objects.values().get()
    services.reconcile()
    assert (TaskAttempt.objects.values().get(), Job.objects.values().get()) == before


BROKEN = {
    "its tasks ended": ({"state": "SUCCEEDED"}, {}, "SUCCEEDED"),
    "its task runs": ({"state": "RUNNING", "started_at": timezone.now()}, {}, "RUNNING"),
    "it was asked to stop": (
        {"state": "STOPPED"},
        {"stop_requested_at": timezone.now()},
        "STOPPED",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_reconcile_finishes_what_a_killed_process_left(alice, vc, node, case):
    """As if the process had died between the attempts' news and the job's."""
    attempt, fields, end = BROKEN[case]
    job = placed(alice, vc)
    TaskAttempt.objects.update(**attempt)
    Job.objects.update(**fields)
    if fields:
        Job.objects.update(state="STOPPING")
    services.reconcile()
    assert state_of(job) == end


def test_reconcile_stops_the_rest_of_a_job_whose_end_is_decided(alice, vc, node):
    job = placed(alice, vc, instances=2)
    report(attempts_of(job), "running")
    TaskAttempt.objects.filter(task__rank=0).update(state="FAILED", exit_code=1)
    services.reconcile()
    assert states_of(job) == ["FAILED", "STOPPING"]


def test_finding_j13_free_retries_in_a_row_are_bounded_and_recorded(alice, vc, node):
    """A download that never succeeds was tried up to 50 times over hours."""
    job = placed(alice, vc, gpus=1)
    for _ in range(60):
        attempt = attempts_of(job)[-1]
        report([attempt], "failed", "released", error_code="image_pull", message="no route")
        job.refresh_from_db()
        if job.state == "FAILED":
            break
        due(job)
        tick()
    assert (job.state, job.free_retries) == ("FAILED", 8)
    last = Event.objects.filter(subject_id=str(job.pk)).order_by("-pk")[0].message
    assert "It is not tried again: 8 free retries in a row within" in last


def test_finding_u17_a_retry_can_be_had_at_once(alice, vc, node):
    job = placed(alice, vc, gpus=1)
    fail(job, exit_code=137)
    explain(job)
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.not_before is not None) == ("WAITING", True)
    services.retry_now(alice, job.pk)
    job.refresh_from_db()
    assert job.not_before is None
    with pytest.raises(SkepError) as raised:
        services.retry_now(alice, job.pk)
    assert raised.value.code == "not_waiting_to_retry"
