"""Subnets and network identifiers of gangs over several nodes."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from django.db import IntegrityError, connection
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st
from tests.support.jobs_world import attempts_of, explain, placed, report, submit, tick
from tests.support.platform_factories import make_node

from skep_platform.jobs.containers.gang import Block
from skep_platform.jobs.models import GangNetwork, Job, TaskAttempt
from skep_platform.scheduling.gang_networks import NoNetwork, size_of, take
from skep_platform.tenancy.limits import reset_limit, set_limit

pytestmark = pytest.mark.django_db


@pytest.fixture
def _two_nodes():
    for i in range(2):
        make_node(f"n{i}", gpus=1)


@given(tasks=st.integers(2, 10_000), nodes=st.integers(2, 10_000))
def test_a_block_has_an_address_for_each_task_and_each_bridge(tasks, nodes):
    nodes = min(nodes, tasks)
    block = Block(start=0x64400000, size=size_of(tasks, nodes), tasks=tasks)
    hosts = ip_network(block.subnet)
    assert hosts.num_addresses == block.size <= 4 * (tasks + nodes)
    first, last = block.task(0), block.gateway(nodes - 1)
    assert first != str(hosts.network_address)
    assert ip_network(last).subnet_of(hosts)
    assert last != str(hosts.broadcast_address)


def test_finding_s5_live_gangs_share_neither_an_address_nor_an_identifier(alice, vc):
    for i in range(2):
        make_node(f"n{i}", gpus=6)
    jobs = [submit(alice, vc, instances=2, gpus=4)]
    jobs += [submit(alice, vc, instances=4, gpus=1) for _ in range(1)]
    assert tick() == {str(job.pk) for job in jobs}
    attempts = TaskAttempt.objects.filter(network="gang")
    addresses = list(attempts.values_list("address", flat=True))
    assert len(addresses) == len(set(addresses)) >= 2
    assert GangNetwork.objects.count() == attempts.values("job").distinct().count()


@pytest.mark.usefixtures("_two_nodes")
def test_finding_s5_the_database_refuses_a_second_gang_in_the_same_addresses(alice, vc):
    job = placed(alice, vc, instances=2)
    (network,) = job.networks.all()
    other = submit(alice, vc)
    overlap = NumericRange(network.addresses.upper - 1, network.addresses.upper + 100)
    with pytest.raises(IntegrityError, match="gang_addresses_once"):
        GangNetwork.objects.create(job=other, index=1, vni=99, addresses=overlap)


@pytest.mark.usefixtures("_two_nodes")
def test_a_network_is_free_again_with_the_last_task_of_its_gang(alice, vc):
    job = placed(alice, vc, instances=2)
    first, second = attempts_of(job)
    report([first, second], "running")
    report([first, second], "exited")
    report(first, "released")
    assert GangNetwork.objects.filter(job=job).exists()
    report(second, "released")
    assert not GangNetwork.objects.exists()


@pytest.mark.usefixtures("_two_nodes")
def test_another_attempt_of_a_job_has_another_network(alice, vc):
    job = placed(alice, vc, instances=2, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", "released", exit_code=1)
    explain(job)
    Job.objects.update(not_before=None)
    assert tick() == {str(job.pk)}
    (network,) = GangNetwork.objects.all()
    assert network.index == 2
    assert {a.address for a in attempts_of(job) if a.index == 2} - {""}


@pytest.mark.usefixtures("_two_nodes")
def test_an_exhausted_pool_keeps_a_gang_waiting_and_says_so(alice, vc, settings):
    settings.SKEP_GANG_POOL = "100.64.0.0/29"
    job = placed(alice, vc, instances=2)
    make_node("n2", gpus=1)
    make_node("n3", gpus=1)
    waiting = submit(alice, vc, instances=2)
    assert tick() == set()
    waiting.refresh_from_db()
    assert "SKEP_GANG_POOL" in waiting.wait_reason["message"]
    assert not attempts_of(waiting)
    assert attempts_of(job)


def test_networks_of_a_group_take_two_queries(alice, vc):
    jobs = [submit(alice, vc) for _ in range(5)]
    with CaptureQueriesContext(
        connection,
    ) as queries:
        blocks = take([(job, 1, 30, 4) for job in jobs])
    assert len(queries) == 2
    assert len({block.start for block in blocks.values()}) == 5
    with pytest.raises(NoNetwork):
        take([(jobs[0], 2, 2**30, 4)])


def test_finding_s5_a_gang_waits_where_a_node_cannot_isolate_it(alice, vc):
    make_node("n0", gpus=1)
    make_node("n1", gpus=1, gang_network=False)
    job = submit(alice, vc, instances=2)
    assert tick() == set()
    job.refresh_from_db()
    assert "n1 cannot" in job.wait_reason["message"]


def test_finding_s5_a_right_that_was_taken_back_keeps_a_waiting_job_from_the_host_network(
    alice, vc
):
    make_node("n0", gpus=2)
    set_limit(None, vc, "host_network", 1)
    job = submit(alice, vc, skep={"network": "host"})
    reset_limit(None, vc, "host_network")
    assert tick() == set()
    job.refresh_from_db()
    assert "host_network" in job.wait_reason["message"]
    set_limit(None, vc, "host_network", 1)
    Job.objects.update(not_before=None)
    assert tick() == {str(job.pk)}
