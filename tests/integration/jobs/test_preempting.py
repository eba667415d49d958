"""Preemption: asked to go, requeued for free in the old place; downgraded and restored."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.utils import timezone
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    lose,
    placed,
    report,
    states_of,
    submit,
)
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user, make_vc

from skep_agent.protocol import SIGNAL_UNHANDLED
from skep_platform.cluster.models import Node
from skep_platform.core.models import Event
from skep_platform.jobs import queries, services
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, JobAttempt

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("node")]


# What it owns is not there: the GPUs are enough for who comes first by name.
@pytest.fixture
def owner_of_cells():
    return make_vc("wave", quotas={"A100": 64}, members=[make_user("bob")])


def preemptor(vc, name: str = "big") -> Job:
    return submit(vc.memberships.first().user, vc, name=name, gpus=8)


def preempt(*jobs: Job, by: Job) -> list:
    with transaction.atomic():
        return preempting.preempt([job.pk for job in jobs], by, timezone.now())


def evict(*jobs: Job, why: str = "Node gpu-1 is being drained.") -> list:
    with transaction.atomic():
        return preempting.evict([job.pk for job in jobs], why, timezone.now())


def running(user, vc, **changes) -> Job:
    job = placed(user, vc, **changes)
    report(attempts_of(job), "running")
    job.refresh_from_db()
    return job


def end_all(job: Job, exit_code: int = 0) -> None:
    report([a for a in attempts_of(job) if a.state == "STOPPING"], "exited", exit_code=exit_code)
    report(attempts_of(job), "released")
    job.refresh_from_db()


def recorded(job: Job, kind: str) -> Event:
    return queries.events(job).get(kind=kind)


def test_a_victim_is_asked_to_go_and_its_history_says_for_whom(alice, vc, owner_of_cells, node):
    job = running(alice, vc, instances=2)
    before = node.desired_revision
    assert preempt(job, by=preemptor(owner_of_cells)) == [job.pk]
    job.refresh_from_db()
    node.refresh_from_db()
    assert job.state == "RUNNING"
    assert job.preempting_at is not None
    assert states_of(job) == ["STOPPING", "STOPPING"]
    assert node.desired_revision > before
    event = recorded(job, "job.preempted")
    assert event.message == (
        "Preempted by a job of another virtual cluster, which owns the cells. "
        "It saves its work, ends, and starts again from its old place in the queue."
    )
    assert "big" not in str(event.data)
    assert "wave" not in str(event.data)
    assert job.wait_reason["code"] == "preempted"


def test_a_peer_of_its_own_virtual_cluster_is_named_to_who_may_see_it(alice, vc):
    job, by = running(alice, vc), preemptor(vc)
    preempt(job, by=by)
    assert recorded(job, "job.preempted").message.startswith(
        "Preempted by another job, which has a higher priority."
    )
    vc_admin = make_user("vc_admin")
    vc.memberships.create(user=vc_admin, role="admin")
    assert events_of(vc_admin, job)["job.preempted"]["message"].startswith(
        "Preempted by test job big, which has a higher priority."
    )


@pytest.mark.parametrize("exit_code", [0, 1, 137, 143])
def test_a_victim_is_queued_again_for_free_whatever_its_exit_code(
    alice, vc, owner_of_cells, exit_code
):
    job = running(alice, vc, instances=2)
    submitted = job.created_at
    preempt(job, by=preemptor(owner_of_cells))
    end_all(job, exit_code)
    assert (job.state, job.placed_at, job.not_before) == ("WAITING", None, None)
    assert (job.created_at, job.preemptions, job.retries_used) == (submitted, 1, 0)
    assert (job.preempting_at, job.exit_reason, job.started_at) == (None, None, None)
    assert job.wait_reason["code"] == "preempted"
    assert "old place in the queue" in recorded(job, "job.requeued").message
    assert job in queries.queue()
    left = JobAttempt.objects.get(job=job)
    assert 0 < left.leave_s < (timezone.now() - job.created_at).total_seconds()


def test_it_waits_for_its_gpus_to_be_clean(alice, vc, owner_of_cells):
    job = running(alice, vc)
    preempt(job, by=preemptor(owner_of_cells))
    report(attempts_of(job), "exited")
    job.refresh_from_db()
    assert (job.state, job.preemptions) == ("RUNNING", 0)
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.preemptions) == ("WAITING", 1)


def test_a_job_asked_before_it_started_is_queued_again(alice, vc, owner_of_cells):
    job = placed(alice, vc)
    preempt(job, by=preemptor(owner_of_cells))
    report(attempts_of(job), "released")
    job.refresh_from_db()
    assert (job.state, job.placed_at, job.preemptions) == ("WAITING", None, 1)


def test_asking_again_changes_nothing(alice, vc, owner_of_cells):
    job, by = running(alice, vc), preemptor(owner_of_cells)
    assert preempt(job, by=by) == [job.pk]
    assert preempt(job, by=by) == []
    assert evict(job) == []
    assert event_kinds(job).count("job.preempted") == 1


def test_a_verdict_of_before_stands(alice, vc, owner_of_cells):
    job = running(alice, vc, instances=2)
    report(attempts_of(job)[0], "exited", exit_code=1)
    assert preempt(job, by=preemptor(owner_of_cells)) == []
    end_all(job)
    explain(job)
    job.refresh_from_db()
    assert (job.state, job.preemptions) == ("FAILED", 0)


def test_a_stop_wins_over_a_preemption(alice, vc, owner_of_cells):
    job = running(alice, vc)
    preempt(job, by=preemptor(owner_of_cells))
    services.stop(alice, job.pk)
    end_all(job)
    assert (job.state, job.preemptions, job.preempting_at) == ("STOPPED", 0, None)


SAVES = {"checkpoint": {"signal": "SIGUSR2", "grace": 60}}


def stopped_at_once(node) -> list[bool]:
    """Of its tasks, in their order."""
    specs = sorted(desired_attempts(node.pk), key=lambda spec: spec.task_index)
    return [spec.stop_at_once for spec in specs]


def unhandled(*attempts) -> None:
    said = {"error_code": SIGNAL_UNHANDLED, "message": "No process of this task handles SIGUSR2."}
    report(attempts, "stopping", **said)


def test_finding_j1_a_gang_that_saves_nothing_is_not_waited_for(alice, vc, node):
    job = running(alice, vc, instances=3, skep=SAVES)
    evict(job)
    first, second, third = attempts_of(job)

    unhandled(first, second)
    assert stopped_at_once(node) == [False] * 3
    assert "job.not_saved" not in event_kinds(job)
    revision = Node.objects.values_list("desired_revision", flat=True).get(pk=node.pk)
    unhandled(third)

    assert stopped_at_once(node) == [True] * 3
    assert Node.objects.values_list("desired_revision", flat=True).get(pk=node.pk) > revision
    (not_saved,) = Event.objects.filter(kind="job.not_saved")
    assert (
        not_saved.message == "No process of 3 of its tasks handles SIGUSR2: stopped without saving."
    )
    unhandled(first)  # reported again after a reconnect
    assert stopped_at_once(node) == [True] * 3
    end_all(job)
    assert job.state == "WAITING"


def test_finding_j1_a_task_without_a_handler_goes_on_while_another_of_its_gang_saves(
    alice, vc, node
):
    job = running(alice, vc, instances=2, skep=SAVES)
    evict(job)
    saving, other = attempts_of(job)
    unhandled(other)
    assert stopped_at_once(node) == [False, False]

    report(saving, "exited", exit_code=0)

    assert stopped_at_once(node) == [False, True]
    report(other, "exited", exit_code=143)
    assert "handles SIGUSR2" in attempts_of(job)[1].error_message
    assert event_kinds(job).count("job.not_saved") == 1


def test_a_victim_whose_node_is_lost_is_queued_again(alice, vc, owner_of_cells, node):
    job = running(alice, vc)
    preempt(job, by=preemptor(owner_of_cells))
    lose(node)
    services.reconcile()
    job.refresh_from_db()
    assert (job.state, job.preemptions, job.not_before) == ("WAITING", 1, None)


def test_jobs_that_wait_or_ended_are_passed_over(alice, vc, owner_of_cells):
    waiting = submit(alice, vc)
    ended = submit(alice, vc)
    services.stop(alice, ended.pk)
    assert preempt(waiting, ended, by=preemptor(owner_of_cells)) == []


def test_a_drained_node_makes_its_jobs_go(alice, vc):
    job = running(alice, vc)
    assert evict(job) == [job.pk]
    assert recorded(job, "job.evicted").message.startswith("Node gpu-1 is being drained. It saves")
    end_all(job)
    assert (job.state, job.preemptions, job.retries_used) == ("WAITING", 1, 0)
    assert job.wait_reason["message"].startswith("Node gpu-1 is being drained. It waits")


def test_any_number_of_victims_takes_the_same_number_of_queries(
    alice, vc, owner_of_cells, django_assert_num_queries
):
    one, *many = [running(alice, vc, cpu=0.1) for _ in range(5)]
    by = preemptor(owner_of_cells)
    with django_assert_num_queries(COST):
        preempt(one, by=by)
    with django_assert_num_queries(COST):
        preempt(*many, by=by)


COST = 10  # with the savepoint


def test_a_downgraded_job_goes_on_and_is_restored(alice, vc):
    job = running(alice, vc)
    why = {"code": "lazy", "message": "Job big of wave took its cells.", "details": {"gpus": 1}}
    with transaction.atomic():
        assert preempting.downgrade({job.pk: why}, timezone.now()) == [job.pk]
        assert preempting.downgrade({job.pk: why}, timezone.now()) == []
    job.refresh_from_db()
    assert (job.state, job.downgraded) == ("RUNNING", why)
    assert "opportunistic" in recorded(job, "job.downgraded").message
    with transaction.atomic():
        assert preempting.restore([job.pk], timezone.now()) == [job.pk]
    job.refresh_from_db()
    assert job.downgraded is None
    assert states_of(job) == ["RUNNING"]
    assert event_kinds(job)[-2:] == ["job.downgraded", "job.restored"]


def test_the_next_attempt_is_not_downgraded(alice, vc, owner_of_cells):
    job = running(alice, vc)
    why = {"code": "lazy", "message": "Its cells are taken.", "details": {}}
    preempting.downgrade({job.pk: why}, timezone.now())
    preempt(job, by=preemptor(owner_of_cells))
    end_all(job)
    assert job.downgraded is None


def events_of(user, job: Job) -> dict[str, dict]:
    rows = Api(user).get(f"/jobs/{job.pk}/events").json()["results"]
    return {row["kind"]: row for row in rows}


def test_who_may_see_the_preemptor_reads_its_name(alice, vc, owner_of_cells):
    job, by = running(alice, vc), preemptor(owner_of_cells)
    preempt(job, by=by)
    end_all(job)
    carol = make_user("carol")
    for team in (vc, owner_of_cells):
        team.memberships.create(user=carol, role="admin")
    named, unnamed = events_of(carol, job), events_of(alice, job)
    for kind in ("job.preempted", "job.requeued"):
        assert named[kind]["message"].startswith("Preempted by test job big, which owns")
        anonymous = "Preempted by a job of another virtual cluster, which owns"
        assert unnamed[kind]["message"].startswith(anonymous)
        assert (named[kind]["data"]["by"], named[kind]["data"]["by_name"]) == (str(by.pk), "big")
        assert "by" not in unnamed[kind]["data"]


def test_rest_shows_that_a_job_is_preempted(alice, vc, owner_of_cells):
    job = running(alice, vc)
    preempt(job, by=preemptor(owner_of_cells))
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert (shown["preempting"], shown["preemptions"]) == (True, 0)
    assert shown["wait_reason"]["code"] == "preempted"
    assert "by" not in shown["wait_reason"]["details"]
    end_all(job)
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert (shown["preempting"], shown["preemptions"]) == (False, 1)


def test_rest_shows_the_expected_start_of_what_waits(alice, vc):
    job = submit(alice, vc)
    why = {"code": "vc_busy", "message": "…", "details": {"expected_start": 1_800_000_000.0}}
    Job.objects.filter(pk=job.pk).update(wait_reason=why)
    shown = Api(alice).get(f"/jobs/{job.pk}").json()
    assert shown["expected_start"] == "2027-01-15T08:00:00Z"
    why["details"] = {"expected_start": None}
    Job.objects.filter(pk=job.pk).update(wait_reason=why)
    assert Api(alice).get(f"/jobs/{job.pk}").json()["expected_start"] is None
