"""Making placements true: races, the last wall, ports, and what a commit costs."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import structlog
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from tests.support.at_once import just_before
from tests.support.jobs_world import attempts_of, lose, state_of, states_of, submit, tick
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device, Node
from skep_platform.core.logs import configure
from skep_platform.jobs import services
from skep_platform.jobs.models import Job, Lease, PortLease, TaskAttempt
from skep_platform.scheduling import placing
from skep_platform.scheduling.models import VcTimeline
from skep_platform.scheduling.source import StateSource
from skep_platform.tenancy.limits import set_limit
from skep_scheduler import engine
from skep_scheduler.model import Placement, TaskPlacement

pytestmark = pytest.mark.django_db


def planned() -> list[Placement]:
    return list(engine.plan(StateSource().catch_up(), 4e9).placements)


def place_by_hand(job: Job, node: Node, *indices: int) -> Placement:
    """One task of role worker on each of these GPUs."""
    uuids = list(node.devices.order_by("index").values_list("uuid", flat=True))
    tasks = (
        TaskPlacement("worker", i, node.name, (uuids[index],), "A100", "A100")
        for i, index in enumerate(indices)
    )
    return Placement(str(job.pk), tuple(tasks))


def test_a_gang_is_committed_whole(alice, vc):
    node = make_node("gpu-1", gpus=4)
    job = submit(alice, vc, instances=2, gpus=2)
    (placement,) = planned()
    assert placing.place([placement]) == {str(job.pk)}
    job.refresh_from_db()
    assert (job.attempt, job.wait_reason) == (1, None)
    assert job.placed_at is not None
    held = {lease.device_id for lease in Lease.objects.filter(released_at=None)}
    assert held == set(node.devices.values_list("uuid", flat=True))
    for attempt, task in zip(attempts_of(job), placement.tasks, strict=True):
        assert (attempt.index, attempt.epoch, attempt.gpu_model) == (1, 1, "A100")
        assert tuple(attempt.gpu_uuids) == task.gpu_uuids


CHANGES = {
    "the job was stopped": lambda alice, job, node: services.stop(alice, job.pk),
    "the job was placed": lambda alice, job, node: tick(),
    "the node is cordoned": lambda alice, job, node: cluster.cordon(None, node.name),
    "the node is lost": lambda alice, job, node: lose(node),
    "the node's agent is gone": lambda alice, job, node: cluster.close_session(
        node.pk, node.session_epoch
    ),
    "a GPU went bad": lambda alice, job, node: Device.objects.update(health="BAD"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_that_is_no_longer_true_is_not_carried_out(alice, vc, change):
    node = make_node("gpu-1", gpus=1)
    job = submit(alice, vc)
    placements = planned()
    CHANGES[change](alice, job, node)
    before = TaskAttempt.objects.count()
    assert placing.place(placements) == set()
    assert TaskAttempt.objects.count() == before


def test_a_gpu_that_moved_to_another_node_is_not_leased_there(alice, vc):
    make_node("gpu-1", gpus=1)
    other = make_node("gpu-2", gpus=0)
    submit(alice, vc)
    placements = planned()
    Device.objects.update(node=other)
    assert placing.place(placements) == set()


def test_the_lease_constraint_is_the_last_wall_and_hits_one_gang_alone(alice, vc):
    """A plan that gives one GPU to two gangs: a defect that must not hurt the others."""
    node = make_node("gpu-1", gpus=8)
    jobs = [submit(alice, vc, instances=2) for _ in range(3)]
    first, second, third = (
        place_by_hand(job, node, *gpus)
        for job, gpus in zip(jobs, [(0, 1), (1, 2), (3, 4)], strict=True)
    )
    assert placing.place([first, second, third]) == {str(jobs[0].pk), str(jobs[2].pk)}
    assert states_of(jobs[0]) == states_of(jobs[2]) == ["ASSIGNED"] * 2
    assert (state_of(jobs[1]), states_of(jobs[1])) == ("WAITING", [])
    assert Lease.objects.filter(released_at=None).count() == 4
    assert tick() == {str(jobs[1].pk)}


@pytest.mark.django_db(transaction=True)
def test_of_two_commits_for_one_gpu_at_the_same_moment_one_wins():
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    node = make_node("gpu-1", gpus=8)
    for _ in range(5):
        jobs = [submit(alice, vc, instances=2) for _ in range(2)]
        together = threading.Barrier(2)
        # The GPUs in opposite order: that must not deadlock either.
        placements = [place_by_hand(jobs[0], node, 0, 1), place_by_hand(jobs[1], node, 1, 0)]

        def run(placement: Placement, together: threading.Barrier = together) -> set[str]:
            try:
                together.wait(timeout=60)
                return placing.place([placement])
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(run, placements))
        assert sorted(len(answer) for answer in answers) == [0, 1]
        assert Lease.objects.filter(released_at=None).count() == 2
        for job in jobs:
            services.stop(alice, job.pk)
        TaskAttempt.objects.update(released_at="2026-01-01T00:00Z", state="STOPPED")
        Lease.objects.update(released_at="2026-01-01T00:00Z")


@pytest.mark.django_db(transaction=True)
def test_a_stop_at_the_moment_of_the_commit_leaves_no_running_task():
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    make_node("gpu-1", gpus=8)
    for _ in range(5):
        job = submit(alice, vc, instances=4)
        placements = planned()
        together = threading.Barrier(2)

        def both(step, together: threading.Barrier = together) -> None:
            try:
                together.wait(timeout=60)
                step()
            finally:
                connections.close_all()

        steps = [
            lambda placements=placements: placing.place(placements),
            lambda job=job: services.stop(alice, job.pk),
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(both, steps))
        if state_of(job) == "STOPPED":
            assert states_of(job) == []
        else:
            assert (state_of(job), set(states_of(job))) == ("STOPPING", {"STOPPING"})
        TaskAttempt.objects.update(released_at="2026-01-01T00:00Z", state="STOPPED")
        Lease.objects.update(released_at="2026-01-01T00:00Z")


def test_a_fault_in_one_gang_does_not_keep_the_others_out(alice, vc, capsys, monkeypatch):
    """A role that the job does not have, as from a defect: postponed and reported."""
    configure("INFO")
    monkeypatch.setattr(placing, "log", structlog.get_logger("test"))
    node = make_node("gpu-1", gpus=2)
    good, bad = submit(alice, vc), submit(alice, vc)
    right = place_by_hand(good, node, 0)
    wrong = place_by_hand(bad, node, 1)
    wrong = replace(wrong, tasks=(replace(wrong.tasks[0], gpu_model="x" * 1000),))
    Job.objects.filter(pk=bad.pk).update(request_id="of-the-test")
    assert placing.place([right, wrong]) == {str(good.pk)}
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = [line for line in lines if line["event"] == "gang_not_placed"]
    assert (line["job_id"], line["request_id"]) == (str(bad.pk), "of-the-test")
    bad.refresh_from_db()
    assert bad.wait_reason["code"] == "commit_failed"
    assert bad.not_before is not None
    assert tick() == set()


DEADLOCK = "DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$"


def test_a_gang_that_met_a_deadlock_is_not_postponed(alice, vc):
    make_node("gpu-1", gpus=1)
    job = submit(alice, vc)

    def deadlock() -> None:
        with connection.cursor() as cursor:
            cursor.execute(DEADLOCK)

    with just_before('INSERT INTO "jobs_taskattempt"', deadlock):
        assert placing.place(planned()) == set()
    job.refresh_from_db()
    assert (job.not_before, job.wait_reason) == (None, None)
    assert tick() == {str(job.pk)}


def test_ports_of_nodes_are_leased_and_given_back(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=1, port_range=(20000, 20019)) for i in range(2)]
    set_limit(None, vc, "host_network", 1)
    job = submit(alice, vc, instances=2, ports={"rpc": 2}, skep={"network": "host"})
    assert tick() == {str(job.pk)}
    for node in nodes:
        ports = list(PortLease.objects.filter(node=node).values_list("port", flat=True))
        assert len(ports) in (4, 5)  # ssh, http and two rpc; rank 0 has the master's
        assert len(set(ports)) == len(ports)
        assert all(20000 <= port <= 20019 for port in ports)


def test_a_gang_for_which_ports_are_missing_waits_and_says_so(alice, vc):
    for i in range(2):
        make_node(f"gpu-{i}", gpus=2, port_range=(20000, 20004))
    set_limit(None, vc, "host_network", 1)
    host = {"network": "host"}
    wide = submit(alice, vc, instances=2, gpus=2, ports={"rpc": 4}, skep=host)
    narrow = submit(alice, vc, gpus=0)
    assert tick() == {str(narrow.pk)}
    wide.refresh_from_db()
    assert wide.wait_reason["code"] == "commit_failed"
    assert "ports" in wide.wait_reason["message"]


def test_a_port_is_held_once_whatever_a_plan_says(alice, vc):
    nodes = [make_node(f"gpu-{i}", gpus=4, port_range=(20000, 20100)) for i in range(2)]
    set_limit(None, vc, "host_network", 1)
    held = []
    for gpu in range(4):
        job = submit(alice, vc, instances=2, skep={"network": "host"})
        tasks = tuple(
            replace(place_by_hand(job, node, gpu).tasks[0], index=i) for i, node in enumerate(nodes)
        )
        held.append(Placement(str(job.pk), tasks))
    assert len(placing.place(held)) == 4
    for node in nodes:
        ports = list(PortLease.objects.filter(node=node).values_list("port", flat=True))
        assert len(ports) == len(set(ports)) >= 8


def queries_of_tick(expected: int) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert len(tick()) == expected
    return len(captured)


def test_gangs_that_start_are_written_by_two_statements(alice, vc):
    """All rows of the gangs, and last the revisions of their nodes."""
    make_node("gpu-1", gpus=8)
    for _ in range(4):
        submit(alice, vc)
    with CaptureQueriesContext(connection) as captured:
        assert len(tick()) == 4
    writes = ("INSERT", "UPDATE", "DELETE")
    written = [q["sql"] for q in captured if q["sql"].strip().startswith(("WITH w0", *writes))]
    placed, revisions, *rest = written
    assert (placed.split()[1], revisions.split()[1]) == ("w0", "cluster_node")
    assert all("scheduling_vctimeline" in sql for sql in rest)
    assert list(VcTimeline.objects.values_list("entries", flat=True)) == [[]], "none waits"


def test_a_gang_of_2000_tasks_takes_as_many_queries_as_one(alice, vc):
    make_node("cpu-1", gpus=0, cpus=4000, memory_mb=4_000_000)
    for _ in range(2):  # the second one finds something running
        submit(alice, vc, gpus=0)
        few = queries_of_tick(1)
    submit(alice, vc, gpus=0, instances=2000)
    assert queries_of_tick(1) == few <= 31


def test_sixty_small_gangs_share_a_transaction(alice, vc):
    make_node("cpu-1", gpus=0, cpus=4000, memory_mb=4_000_000)
    for _ in range(2):  # the second one finds something running
        submit(alice, vc, gpus=0)
        few = queries_of_tick(1)
    for _ in range(60):
        submit(alice, vc, gpus=0)
    assert queries_of_tick(60) == few
