"""Where jobs go that failed, and which network they get."""

from __future__ import annotations

import time

import pytest
from django.utils import timezone
from tests.support.jobs_world import attempts_of, explain, placed, report, submit, tick
from tests.support.platform_factories import make_node

from skep_platform.jobs.models import Job, PortLease
from skep_platform.scheduling.source import StateSource
from skep_platform.tenancy.limits import set_limit

pytestmark = pytest.mark.django_db


def fails_by_its_node(job) -> None:
    """And its pause is over."""
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1, xids=[79])
    explain(job)
    report(attempts_of(job), "released")
    Job.objects.filter(pk=job.pk).update(not_before=None)


def where(job) -> set[str]:
    return {attempt.node.name for attempt in attempts_of(job)}


def test_a_job_goes_elsewhere_than_where_a_node_failed_it(alice, vc):
    for name in ("n1", "n2"):
        make_node(name, gpus=8)
    job = placed(alice, vc, instances=2)
    (first,) = where(job)
    fails_by_its_node(job)
    assert tick() == {str(job.pk)}
    assert where(job) == {"n1", "n2"} - {first}


def test_it_waits_for_a_place_elsewhere_and_its_owner_reads_why(alice, vc):
    make_node("n1", gpus=8)
    job = placed(alice, vc, gpus=8)
    make_node("n2", gpus=8)
    placed(alice, vc, gpus=8)
    fails_by_its_node(job)
    assert tick() == set()
    job.refresh_from_db()
    assert job.wait_reason["code"] == "avoiding"
    assert job.wait_reason["message"].startswith("It failed on n1: it waits for another node")
    job.avoid_nodes["n1"] = time.time() - 1
    job.not_before = timezone.now()
    job.save()
    assert tick() == {str(job.pk)}
    assert where(job) == {"n1"}


def test_the_only_node_is_used_again(alice, vc):
    make_node("n1", gpus=8)
    job = placed(alice, vc)
    fails_by_its_node(job)
    assert tick() == {str(job.pk)}
    assert where(job) == {"n1"}


def test_a_world_learns_of_what_a_job_avoids(alice, vc):
    make_node("n1", gpus=8)
    source = StateSource()
    job = placed(alice, vc)
    source.catch_up()
    fails_by_its_node(job)
    gang = source.catch_up().waiting[str(job.pk)]
    assert list(gang.avoids(time.time())) == ["n1"]
    assert not gang.avoids(time.time() + 3601)


# mode, tasks, nodes → network
NETWORKS = {
    "one task": ("", 1, 1, "isolated"),
    "one task that wants the node's network": ("host", 1, 1, "host"),
    "a gang on one node": ("", 2, 1, "job"),
    "a gang on one node that wants the node's network": ("host", 2, 1, "host"),
    "a gang over nodes": ("", 2, 2, "gang"),
    "a gang over nodes that wants the nodes' network": ("host", 2, 2, "host"),
    "a gang over nodes that wants a private network": ("bridge", 2, 2, "gang"),
    "one task that wants a bridge": ("bridge", 1, 1, "isolated"),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_network(alice, vc, case):
    mode, tasks, nodes, network = NETWORKS[case]
    set_limit(None, vc, "host_network", 1)
    for i in range(nodes):
        make_node(f"n{i}", gpus=tasks // nodes)
    job = placed(
        alice, vc, instances=tasks, ports={"db": 2}, skep={"network": mode} if mode else {}
    )
    assert {attempt.network for attempt in attempts_of(job)} == {network}
    reserved = PortLease.objects.filter(released_at=None).count()
    # Each task has ssh and http, too; the first one has the port of the rendezvous.
    assert reserved == (4 * tasks + 1 if network == "host" else 0)


@pytest.mark.parametrize("mode", ["", "bridge"])
def test_tasks_that_start_alone_are_alone_on_a_bridge(alice, vc, mode):
    make_node("n1", gpus=8)
    job = placed(alice, vc, instances=2, incremental=True, skep={"network": mode} if mode else {})
    assert {attempt.network for attempt in attempts_of(job)} == {"isolated"}


def test_a_job_that_is_placed_again_is_held_again(alice, vc):
    make_node("n1", gpus=8)
    job = submit(alice, vc, instances=2, retries=1)
    tick()
    report(attempts_of(job), "ready")
    assert Job.objects.get(pk=job.pk).begun_at is not None
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", "released", exit_code=1)
    explain(job)
    Job.objects.update(not_before=None)
    assert tick() == {str(job.pk)}
    assert Job.objects.get(pk=job.pk).begun_at is None
