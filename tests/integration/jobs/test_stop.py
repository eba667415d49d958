"""Stopping jobs in every state."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    placed,
    report,
    state_of,
    states_of,
    submit,
    tick,
)
from tests.support.platform_factories import make_node, make_user

from skep_platform.cluster.models import Node
from skep_platform.core.errors import SkepError
from skep_platform.jobs import services
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.models import Job, Lease

pytestmark = pytest.mark.django_db


def test_a_job_in_the_queue_is_stopped_at_once_and_never_placed(alice, vc, node):
    job = submit(alice, vc)
    stopped = services.stop(alice, job.pk)
    assert (stopped.state, stopped.exit_reason["code"]) == ("STOPPED", "stopped")
    assert stopped.finished_at is not None
    assert stopped.wait_reason is None
    assert tick() == set()
    assert event_kinds(job) == ["job.queued", "job.stop", "job.stopped"]


@pytest.mark.parametrize("phases", [(), ("pulling",), ("running",)])
def test_a_placed_job_stops_when_its_nodes_say_so(alice, vc, node, phases):
    job = placed(alice, vc, instances=2)
    if phases:
        report(attempts_of(job), *phases)
    before = Node.objects.get(pk=node.pk).desired_revision
    stopping = services.stop(alice, job.pk)
    assert (stopping.state, states_of(job)) == ("STOPPING", ["STOPPING"] * 2)
    assert Node.objects.get(pk=node.pk).desired_revision == before + 1
    assert [spec.desired for spec in desired_attempts(node.pk)] == ["stop", "stop"]
    first, second = attempts_of(job)
    report(first, "exited", exit_code=143)
    assert state_of(job) == "STOPPING"
    report(second, "released")
    job.refresh_from_db()
    assert (job.state, states_of(job)) == ("STOPPED", ["STOPPED"] * 2)
    assert job.exit_reason["message"] == "Stopped by alice."


def test_a_job_of_which_one_task_runs_and_one_is_done_stops(alice, vc, node):
    job = placed(alice, vc, instances=2)
    first, second = attempts_of(job)
    report([first, second], "running")
    report(first, "exited", "released")
    services.stop(alice, job.pk)
    assert states_of(job) == ["SUCCEEDED", "STOPPING"]
    report(second, "exited", exit_code=0)
    assert (state_of(job), states_of(job)) == ("STOPPED", ["SUCCEEDED", "STOPPED"])


def test_a_job_that_waits_for_its_retry_stops_at_once(alice, vc, node):
    job = placed(alice, vc, retries=3)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    assert services.stop(alice, job.pk).state == "STOPPED"
    assert event_kinds(job)[-2:] == ["job.stop", "job.stopped"]


def test_a_failed_job_that_waits_for_its_gpus_to_retry_stops_at_once(alice, vc, node):
    job = placed(alice, vc, retries=3)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    assert services.stop(alice, job.pk).state == "STOPPED"
    report(attempts_of(job), "released")
    assert not Lease.objects.filter(released_at=None).exists()
    assert state_of(job) == "STOPPED"


@pytest.mark.parametrize("again", [1, 3])
def test_stopping_again_changes_nothing(alice, vc, node, again):
    job = placed(alice, vc)
    services.stop(alice, job.pk)
    before, kinds = Job.objects.filter(pk=job.pk).values().get(), event_kinds(job)
    for _ in range(again):
        services.stop(alice, job.pk)
    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert event_kinds(job) == kinds


@pytest.mark.parametrize("exit_code", [0, 1])
def test_stopping_an_ended_job_changes_nothing(alice, vc, node, exit_code):
    job = placed(alice, vc)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=exit_code)
    explain(job)
    before = Job.objects.filter(pk=job.pk).values().get()
    services.stop(alice, job.pk)
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_who_may_stop(alice, vc, node):
    vc_admin, admin, colleague = make_user(), make_user(admin=True), make_user()
    vc.memberships.create(user=vc_admin, role="admin")
    vc.memberships.create(user=colleague)
    for user in (alice, vc_admin, admin):
        assert services.stop(user, submit(alice, vc).pk).state == "STOPPED"
    job = submit(alice, vc)
    for user, code in ((colleague, "not_found"), (make_user(), "not_found")):
        with pytest.raises(SkepError) as raised:
            services.stop(user, job.pk)
        assert raised.value.code == code
    job.visibility = "members"
    job.save()
    with pytest.raises(SkepError) as raised:
        services.stop(colleague, job.pk)
    assert raised.value.code == "may_not_stop"
    assert state_of(job) == "WAITING"


def test_stopping_2000_tasks_takes_as_many_queries_as_one(alice, vc):
    make_node("cpu-1", gpus=0, cpus=3000, memory_mb=4_000_000)

    def queries(instances: int) -> int:
        job = placed(alice, vc, gpus=0, instances=instances)
        with CaptureQueriesContext(connection) as captured:
            services.stop(alice, job.pk)
        assert set(states_of(job)) == {"STOPPING"}
        return len(captured)

    assert queries(2000) == queries(1) <= 20
