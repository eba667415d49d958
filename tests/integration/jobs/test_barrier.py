"""Gangs begin together: held until all are ready, tried elsewhere when that takes too long."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.utils import timezone
from tests.support.at_once import just_before
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    lose,
    partly_placed,
    placed,
    report,
    states_of,
    tick,
)
from tests.support.platform_factories import make_node

from skep_platform.cluster.models import Node
from skep_platform.jobs import queries, services
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.lifecycle.repair import SEND_AGAIN_S
from skep_platform.jobs.models import Job, JobAttempt, Lease, TaskAttempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def nodes():
    return [make_node(f"n{i}", gpus=2) for i in range(2)]


@pytest.fixture
def job(alice, vc, nodes):
    """Two tasks on each of two nodes."""
    return placed(alice, vc, instances=4)


def wanted(job) -> list[str]:
    nodes = {attempt.node_id for attempt in attempts_of(job)}
    return sorted(spec.desired for node in nodes for spec in desired_attempts(node))


def revisions() -> list[int]:
    return list(Node.objects.order_by("name").values_list("desired_revision", flat=True))


def waits_since(job, seconds: float) -> None:
    """By the clock that the query reads, which stands still within a transaction: that of a test
    began before the gang was placed."""
    Job.objects.filter(pk=job.pk).update(placed_at=TransactionNow() - timedelta(seconds=seconds))


def messages(job, kind: str) -> list[str]:
    return [event.message for event in queries.events(job).filter(kind=kind).order_by("id")]


def on(job, node) -> list[TaskAttempt]:
    return [attempt for attempt in attempts_of(job) if attempt.node == node]


def test_tasks_are_held_until_the_last_one_is_ready(job):
    assert wanted(job) == ["hold"] * 4
    report(attempts_of(job)[:3], "pulling", "creating", "ready")
    assert (wanted(job), states_of(job)) == (["hold"] * 4, ["PREPARING"] * 3 + ["ASSIGNED"])
    before = revisions()
    report(attempts_of(job)[3], "ready")
    job.refresh_from_db()
    assert job.begun_at is not None
    assert wanted(job) == ["run"] * 4
    assert all(now > then for now, then in zip(revisions(), before, strict=True))
    assert messages(job, "job.begun") == ["All 4 tasks are ready: they begin."]


def test_a_gang_begins_once(job):
    report(attempts_of(job), "ready")
    begun = Job.objects.get(pk=job.pk).begun_at
    report(attempts_of(job), "ready", "running")
    services.reconcile()
    assert Job.objects.get(pk=job.pk).begun_at == begun
    assert event_kinds(job).count("job.begun") == 1


def test_a_single_task_waits_at_no_barrier(alice, vc, nodes):
    alone = placed(alice, vc)
    one_by_one = partly_placed(alice, vc, tasks=2, placed_tasks=2)
    assert {*wanted(alone), *wanted(one_by_one)} == {"run"}


def test_reconcile_lets_a_gang_begin_that_a_killed_process_left(job):
    TaskAttempt.objects.update(state="PREPARING", ready_at=timezone.now())
    services.reconcile()
    assert wanted(job) == ["run"] * 4


def test_a_node_that_missed_the_begin_is_notified_again(job):
    report(attempts_of(job), "ready")
    before = revisions()
    late = timezone.now() - timedelta(seconds=SEND_AGAIN_S + 1)
    TaskAttempt.objects.update(updated_at=late)
    services.reconcile()
    assert all(now > then for now, then in zip(revisions(), before, strict=True))


def test_half_of_the_time_is_over_and_the_owner_reads_what_is_waited_for(job, nodes):
    report(on(job, nodes[0]), "ready")
    report(on(job, nodes[1])[0], "ready")
    late = on(job, nodes[1])[1]
    report(late, "pulling", pull_percent=40)
    services.reconcile()
    assert messages(job, "job.barrier") == []
    waits_since(job, 301)
    for _ in range(3):
        services.reconcile()
    name = f"worker-{late.task.index}"
    assert messages(job, "job.barrier") == [
        f"3 of 4 tasks are ready; waiting for {name} on n1 (pulling 40 %)."
    ]


def test_past_the_deadline_the_job_is_tried_on_other_nodes(job, nodes):
    report(on(job, nodes[0]), "ready")
    waits_since(job, 601)
    services.reconcile()
    by_node = {a.node.name: (a.state, a.error_code) for a in attempts_of(job)}
    assert by_node == {"n0": ("STOPPING", ""), "n1": ("FAILED", "barrier_timeout")}
    assert Lease.objects.filter(released_at=None).count() == 4
    report(attempts_of(job), "exited", "released")
    job.refresh_from_db()
    assert (job.state, job.placed_at, job.begun_at) == ("WAITING", None, None)
    assert (job.retries_used, job.free_retries) == (0, 1)
    pause = (job.not_before - timezone.now()).total_seconds()
    assert 50 < pause <= 900
    assert list(job.avoid_nodes) == ["n1"]
    assert 880 < job.avoid_nodes["n1"] - timezone.now().timestamp() <= 900
    ended = JobAttempt.objects.get()
    assert (ended.index, ended.outcome, ended.retry) == (1, "FAILED", "conflict")
    assert ended.diagnosis["code"] == 251
    make_node("n2", gpus=2)
    Job.objects.update(not_before=None)
    assert tick() == {str(job.pk)}
    assert {a.node.name for a in attempts_of(job)} == {"n0", "n2"}
    assert wanted(job) == ["hold"] * 4


def test_where_no_task_gets_ready_no_node_is_to_blame(job):
    waits_since(job, 660)
    services.reconcile()
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.avoid_nodes, job.free_retries) == ("WAITING", {}, 1)


def test_a_gang_that_has_begun_has_no_deadline(job):
    report(attempts_of(job), "ready")
    waits_since(job, 10_000)
    services.reconcile()
    assert set(states_of(job)) == {"PREPARING"}


def test_a_gang_that_is_held_is_stopped_at_once(job, alice):
    report(attempts_of(job)[:3], "ready")
    services.stop(alice, job.pk)
    assert wanted(job) == ["stop"] * 4
    report(attempts_of(job), "exited", "released", exit_code=None)
    job.refresh_from_db()
    assert (job.state, job.exit_reason["code"]) == ("STOPPED", "stopped")
    assert JobAttempt.objects.get().outcome == "STOPPED"


def test_a_gang_that_is_held_can_be_preempted(job, vc):
    report(attempts_of(job)[:3], "ready")
    preempting.evict([job.pk], "Node n0 is being drained.", timezone.now())
    assert wanted(job) == ["stop"] * 4
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.preemptions, job.free_retries) == ("WAITING", 1, 0)
    assert (JobAttempt.objects.get().outcome, JobAttempt.objects.get().retry) == (
        *("PREEMPTED", "preempted"),
    )
    assert tick() == {str(job.pk)}
    assert wanted(job) == ["hold"] * 4


def test_a_node_that_is_lost_while_its_gang_is_held_ends_the_attempt(job, nodes):
    report(attempts_of(job)[:3], "ready")
    lose(nodes[1])
    services.reconcile()
    report(on(job, nodes[0]), "exited", "released", exit_code=None)
    job.refresh_from_db()
    assert (job.state, job.retries_used, job.free_retries) == ("WAITING", 0, 1)
    assert JobAttempt.objects.get().retry == "elsewhere"


def test_a_gang_that_was_placed_again_at_that_moment_has_all_of_its_time(job):
    waits_since(job, 601)

    def place_again() -> None:
        Job.objects.filter(pk=job.pk).update(placed_at=timezone.now())

    with just_before("FOR NO KEY UPDATE", place_again):
        services.reconcile()
    assert set(states_of(job)) == {"ASSIGNED"}
