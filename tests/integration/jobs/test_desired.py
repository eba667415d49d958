"""What a node shall run."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, explain, partly_placed, placed, report, tick
from tests.support.platform_factories import make_node

from skep_agent.network.plan import plan_of
from skep_agent.protocol import MAX_TEXT_FRAME, Desired
from skep_platform.jobs import services
from skep_platform.jobs.containers import desired
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, PortLease
from skep_platform.tenancy.limits import LIMITS, set_limit

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr(desired, "_known", desired._Known())


def test_a_spec_has_all_that_the_node_needs(alice, vc):
    node = make_node("gpu-1", gpus=8)
    job = placed(alice, vc, name="train", gpus=2, cpu=1.5, memory_mb=2048, commands=["a", "b"])
    (attempt,) = attempts_of(job)
    (spec,) = desired_attempts(node.pk)
    assert (spec.attempt_id, spec.epoch, spec.desired) == (str(attempt.pk), 1, "run")
    assert (spec.job_id, spec.job_name, spec.task_role, spec.task_index) == (
        *(str(job.pk), "train"),
        *("worker", 0),
    )
    assert (spec.image.reference, spec.command) == ("test/image:1", "a\nb")
    assert (spec.cpus, spec.memory_mb, spec.shm_mb) == (1.5, 2048, 512)
    assert spec.gpu_uuids == attempt.gpu_uuids
    assert len(spec.gpu_uuids) == 2
    assert spec.env["PAI_JOB_NAME"] == "alice~train"
    assert spec.env["SKEP_ATTEMPT_ID"] == spec.attempt_id


def test_finding_s11_a_node_is_sent_what_a_container_may_keep_on_its_disk(alice, vc):
    set_limit(None, vc, "container_disk_mb", 5000)
    node = make_node("gpu-1", gpus=8)
    placed(alice, vc)
    (spec,) = desired_attempts(node.pk)
    assert (spec.disk_mb, spec.log_bytes) == (5000, LIMITS["log_bytes_per_job"].default)


def test_one_task_is_isolated_and_its_own_master(alice, vc):
    node = make_node("gpu-1", gpus=8)
    placed(alice, vc)
    (spec,) = desired_attempts(node.pk)
    assert spec.network == "isolated"
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    assert [spec.env[name] for name in names] == ["127.0.0.1", "29500", "0", "1"]


def test_a_gang_on_one_node_finds_itself_by_names(alice, vc):
    node = make_node("gpu-1", gpus=8)
    placed(alice, vc, roles={"a_b": {"instances": 2}, "worker": {"instances": 2}})
    specs = desired_attempts(node.pk)
    assert {spec.network for spec in specs} == {"job"}
    by_rank = {spec.env["RANK"]: spec for spec in specs}
    assert [by_rank[r].hostname for r in "0123"] == ["a-b-0", "a-b-1", "worker-0", "worker-1"]
    assert {spec.env["MASTER_ADDR"] for spec in specs} == {"a-b-0"}
    assert by_rank["3"].env["PAI_HOST_IP_worker_0"] == "worker-0"
    assert by_rank["3"].env["LOCAL_RANK"] == "3"


def test_finding_s5_a_gang_over_nodes_gets_a_network_of_its_own(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=2, address=f"10.0.0.{i}") for i in range(2)]
    job = placed(alice, vc, instances=4, ports={"rpc": 2})
    specs = [spec for node in nodes for spec in desired_attempts(node.pk)]
    assert {spec.network for spec in specs} == {"gang"}
    (gang,) = {spec.gang.model_dump_json(): spec.gang for spec in specs}.values()
    addresses = {name: a for node in gang.nodes for name, a in node.tasks.items()}
    assert sorted(addresses) == [f"worker-{i}" for i in range(4)]
    assert {node.name: node.address for node in gang.nodes} == {
        "gpu-0": "10.0.0.0",
        "gpu-1": "10.0.0.1",
    }
    subnet = ip_network(gang.subnet)
    inside = [*addresses.values(), *(node.gateway for node in gang.nodes)]
    assert len(set(inside)) == 6
    assert all(ip_address(a) in list(subnet.hosts()) for a in inside)
    for spec in specs:
        assert addresses[spec.hostname] == spec.env["PAI_CONTAINER_HOST_IP"]
        assert spec.env["MASTER_ADDR"] == addresses["worker-0"]
        assert spec.env["PAI_HOST_IP_worker_3"] == addresses["worker-3"]
        assert spec.env["MASTER_PORT"] == "29500"
        assert spec.env["NCCL_SOCKET_IFNAME"] == spec.env["GLOO_SOCKET_IFNAME"] == "eth0"
        # Each agent takes what it is sent.
        assert plan_of(spec, next(n.name for n in gang.nodes if spec.hostname in n.tasks))
    assert not PortLease.objects.exists()
    assert sorted(spec.env["NODE_RANK"] for spec in specs) == ["0", "0", "1", "1"]
    assert {a.address for a in attempts_of(job)} == set(addresses.values())


def test_on_the_host_network_ports_of_nodes_are_reserved(alice, vc):
    nodes = [
        make_node(
            f"gpu-{i}", gpus=2, address=f"10.0.0.{i}", port_range=(20000 + 100 * i, 20099 + 100 * i)
        )
        for i in range(2)
    ]
    set_limit(None, vc, "host_network", 1)
    job = placed(alice, vc, instances=4, ports={"rpc": 2}, skep={"network": "host"})
    specs = [spec for node in nodes for spec in desired_attempts(node.pk)]
    assert {spec.network for spec in specs} == {"host"}
    ports = [p for spec in specs for numbers in spec.ports.values() for p in numbers]
    assert len(ports) == len(set(ports)) == 4 * 4 + 1
    master = next(spec for spec in specs if spec.env["RANK"] == "0")
    assert {spec.env["MASTER_PORT"] for spec in specs} == {str(master.ports["master"][0])}
    (address,) = {spec.env["MASTER_ADDR"] for spec in specs}
    first = attempts_of(job)[0].node
    assert address == first.address
    low, high = first.port_first, first.port_last
    assert all(low <= p <= high for n in master.ports.values() for p in n)
    assert sorted(spec.env["NODE_RANK"] for spec in specs) == ["0", "0", "1", "1"]


def test_what_shall_end_is_sent_as_stop_until_it_is_released(alice, vc):
    node = make_node("gpu-1", gpus=8)
    ended, stopped, running = (placed(alice, vc) for _ in range(3))
    report(attempts_of(ended), "running", "exited")
    services.stop(alice, stopped.pk)
    desired = {spec.job_id: spec.desired for spec in desired_attempts(node.pk)}
    assert desired == {str(ended.pk): "stop", str(stopped.pk): "stop", str(running.pk): "run"}
    report(attempts_of(ended), "released")
    assert str(ended.pk) not in {spec.job_id for spec in desired_attempts(node.pk)}


def test_other_nodes_attempts_are_not_listed(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=1) for i in range(2)]
    job = placed(alice, vc, instances=2)
    for node in nodes:
        mine = {str(a.pk) for a in attempts_of(job) if a.node_id == node.pk}
        assert {spec.attempt_id for spec in desired_attempts(node.pk)} == mine


def test_a_retry_has_the_environment_of_its_own_attempt(alice, vc):
    node = make_node("gpu-1", gpus=8)
    job = placed(alice, vc, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    explain(job)
    job.refresh_from_db()
    job.not_before = None
    job.save()
    tick()
    (spec,) = desired_attempts(node.pk)
    (attempt,) = attempts_of(job)
    assert (spec.attempt_id, spec.epoch) == (str(attempt.pk), 2)
    assert spec.env["SKEP_ATTEMPT_ID"] == str(attempt.pk)


def test_any_number_of_jobs_takes_the_same_number_of_queries(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=1000, memory_mb=4_000_000)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            desired_attempts(node.pk)
        return len(captured)

    placed(alice, vc, gpus=0, instances=2)
    few = queries()
    for _ in range(10):
        placed(alice, vc, gpus=0, instances=20)
        placed(alice, vc, gpus=0)
    assert queries() == few <= 8
    assert queries() == 1  # all known
    assert len(desired_attempts(node.pk)) == 212


@pytest.mark.parametrize("name", ["HOST_NETWORK", "RDMA", "PRIVILEGED", "NETWORK_MODE"])
def test_24_no_variable_of_a_job_switches_on_what_an_admin_left_off(alice, vc, name):
    """As SUDO_SESSION_ENABLED did elsewhere: no setting is read from the variables of jobs."""
    make_node()
    values = {name: "1", name.lower(): "true"}
    job = placed(alice, vc, skep={"environment": values})
    (attempt,) = attempts_of(job)
    (spec,) = desired_attempts(attempt.node_id)
    assert (spec.network, spec.rdma, spec.env[name]) == ("isolated", False, "1")


def test_31_huge_commands_cannot_make_a_frame_that_no_agent_reads(alice, vc):
    node = make_node("cpu-1", gpus=0, cpus=1000, memory_mb=4_000_000)
    early = placed(alice, vc, gpus=0)
    huge = ["\u0001" * 60_000]
    placed(alice, vc, gpus=0, instances=200, commands=huge)
    specs = desired_attempts(node.pk)
    frame = Desired(revision=1, attempts=specs).model_dump_json()
    assert len(frame) < MAX_TEXT_FRAME
    assert specs[0].job_id == str(early.pk)  # what is there already is never left out
    assert 10 < len(specs) < 201  # the job alone may have half of it


def test_a_job_records_how_it_is_stopped_and_why(alice, vc):
    node = make_node("gpu-1", gpus=8)
    job = placed(alice, vc)
    Job.objects.filter(pk=job.pk).update(
        stop_grace_s=90, checkpoint_signal="SIGUSR2", checkpoint_grace_s=60
    )
    (spec,) = desired_attempts(node.pk)
    assert (spec.stop_grace_s, spec.checkpoint_signal, spec.checkpoint_grace_s) == (
        *(90, "SIGUSR2"),
        60,
    )
    assert (spec.desired, spec.stop_cause) == ("run", "")
    preempting.evict([job.pk], "Node gpu-1 is being drained.", timezone.now())
    (spec,) = desired_attempts(node.pk)
    assert (spec.desired, spec.stop_cause) == ("stop", "preempted")


def test_a_stop_by_its_owner_has_no_cause(alice, vc):
    node = make_node("gpu-1", gpus=8)
    services.stop(alice, placed(alice, vc).pk)
    (spec,) = desired_attempts(node.pk)
    assert (spec.desired, spec.stop_cause) == ("stop", "")


def test_a_task_of_an_incremental_job_is_alone_in_its_world(alice, vc):
    node = make_node("gpu-1", gpus=8)
    partly_placed(alice, vc, tasks=3, placed_tasks=2)
    specs = desired_attempts(node.pk)
    assert [spec.env["RANK"] for spec in specs] == ["0", "0"]
    assert [spec.env["WORLD_SIZE"] for spec in specs] == ["1", "1"]
    assert sorted(spec.env["PAI_TASK_INDEX"] for spec in specs) == ["0", "1"]
    assert {spec.env["PAI_TASKS_NUM"] for spec in specs} == {"3"}


def test_states_of_many_nodes_take_as_many_queries_as_that_of_one(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=8) for i in range(1, 6)]
    jobs = [placed(alice, vc, gpus=8) for _ in nodes]
    over, first, *others = nodes
    epochs = {node.pk: node.session_epoch for node in nodes}

    def built(wanted):
        with CaptureQueriesContext(connection) as captured:
            found = desired.build_frames({pk: desired.SessionState(epochs[pk]) for pk in wanted})
        return found, len(captured)

    _, one = built([first.pk])
    epochs[over.pk] += 1
    found, many = built([over.pk, *(node.pk for node in others)])
    assert many == one
    assert found.keys() == {node.pk for node in others}
    sent = {a.node_id: a for job in jobs for a in attempts_of(job)}
    for node in others:
        (spec,) = found[node.pk].attempts
        assert spec.attempt_id == str(sent[node.pk].pk)
        assert sent[node.pk].sent_run_at is not None
    assert sent[over.pk].sent_run_at is None

    revision = found[others[0].pk].revision
    again = desired.build_frames(
        {others[0].pk: desired.SessionState(epochs[others[0].pk], revision)}
    )
    assert again == {others[0].pk: None}


def test_a_frame_is_what_the_protocol_says_of_its_state(alice, vc):
    """It is put together from texts that were made once."""
    node = make_node("gpu-1", gpus=8)
    node.connected, node.session_epoch = True, 1
    node.save()
    placed(alice, vc, name="alone")
    placed(alice, vc, name="gang", instances=2)
    stopped = placed(alice, vc, name="stopped")
    services.stop(alice, stopped.pk)
    for _ in range(2):  # built, and remembered
        built = desired.build_frame(node.pk, desired.SessionState(1))
        assert built is not None
        state = desired.desired_state(node.pk)
        whole = Desired(revision=built.revision, attempts=state.attempts, shared=state.shared)
        assert built.frame == whole.model_dump_json()
        assert {spec.desired for spec in built.attempts} == {"run", "hold", "stop"}
