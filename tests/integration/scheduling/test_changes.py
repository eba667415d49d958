"""The change log: which reader sees what, and that no order of commits hides a change."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place, release

from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import CellLayout, Device, Node
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling import source
from skep_platform.scheduling.models import Change, Nomination
from skep_platform.scheduling.source import ChangeSet, Reader
from skep_platform.tenancy.models import PinnedCell, Quota, VcCell, VirtualCluster

pytestmark = pytest.mark.django_db


class World:
    """A node with two GPUs, a VC, a job that waits and one that is placed on the first GPU."""

    def __init__(self) -> None:
        self.alice = make_user()
        self.vc = make_vc(quotas={"A100": 2}, members=[self.alice])
        self.node = make_node(gpus=2)
        self.devices = list(self.node.devices.order_by("index"))
        self.waits = make_job(self.vc, self.alice)
        self.runs = make_job(self.vc, self.alice, placed_at=timezone.now())
        self.attempt = place(self.runs, self.devices[:1])


@pytest.fixture
def world() -> World:
    return World()


def news_of(step: Callable[[], object]) -> ChangeSet:
    reader = Reader()
    reader.look()
    step()
    return reader.look()


def test_a_first_look_finds_all_and_a_second_one_nothing(world):
    reader = Reader()
    assert reader.look().all
    assert not reader.look()


def test_a_server_that_lost_transactions_is_read_anew(world):
    """After a failover to a standby that lagged behind, or when a backup was restored."""
    reader = Reader()
    reader.look()
    lost = Reader(horizon=reader.horizon + 1_000_000)
    assert lost.look().all
    assert not lost.look().all


NODE: dict[str, Callable[[World], object]] = {
    "is cordoned": lambda w: cluster.cordon(None, w.node.name),
    "is drained": lambda w: cluster.mark_draining(None, w.node.name),
    "is drained or not": lambda w: Node.objects.update(draining=True),
    "is unreachable": lambda w: cluster.close_session(w.node.pk, w.node.session_epoch),
    "has another label": lambda w: Node.objects.update(labels={"rack": "r1"}),
    "has more memory": lambda w: Node.objects.update(memory_mb=1),
    "has a bad GPU": lambda w: Device.objects.update(health="BAD"),
    "loses a GPU": lambda w: w.devices[1].delete(),
    "gets a GPU": lambda w: Device.objects.create(
        uuid="GPU-new", node=w.node, model="A100", memory_mb=1, index=2
    ),
}


@pytest.mark.parametrize("what", NODE)
def test_a_node_is_notified_when_it(world, what):
    assert news_of(lambda: NODE[what](world)) == ChangeSet(nodes={str(world.node.pk)})


def test_a_gang_is_notified_when_it_leaves_the_queue(world):
    news = news_of(lambda: Job.objects.filter(pk=world.waits.pk).update(state="FAILED"))
    assert news == ChangeSet(gangs={str(world.waits.pk)})


def test_finding_c4_the_gpus_of_a_node_that_joins_are_one_change(world):
    """At 16 GPUs each, 500 nodes that join would otherwise write 8,000 rows."""
    rows = Change.objects.filter(kind=Change.Kind.NODE)
    before = set(rows.values_list("pk", flat=True))
    new = Node.objects.create(name="joins")
    gpus = [
        Device(uuid=f"GPU-{n}", node=node, model="A100", memory_mb=1, index=n)
        for n, node in enumerate([new] * 16 + [world.node])
    ]
    Device.objects.bulk_create(gpus)
    logged = rows.exclude(pk__in=before).values_list("subject", flat=True)
    # The node itself, its GPUs, and the other node's GPU.
    assert sorted(logged) == sorted([str(new.pk), str(new.pk), str(world.node.pk)])
    assert news_of(lambda: Device.objects.filter(node=new).delete()).nodes == {str(new.pk)}


def test_a_gpu_that_moves_is_informed_of_both_nodes(world):
    other = make_node(gpus=0)
    news = news_of(lambda: Device.objects.filter(pk=world.devices[1].pk).update(node=other))
    assert news == ChangeSet(nodes={str(world.node.pk), str(other.pk)})


GANG: dict[str, Callable[[World], object]] = {
    "is submitted": lambda w: setattr(w, "runs", make_job(w.vc, w.alice)),
    "is queued again": lambda w: Job.objects.filter(pk=w.runs.pk).update(placed_at=None),
    "backs off": lambda w: Job.objects.filter(pk=w.runs.pk).update(not_before=timezone.now()),
    "shall stop": lambda w: Job.objects.filter(pk=w.runs.pk).update(
        stop_requested_at=timezone.now()
    ),
    "makes room": lambda w: Job.objects.filter(pk=w.runs.pk).update(preempting_at=timezone.now()),
    "is downgraded": lambda w: Job.objects.filter(pk=w.runs.pk).update(downgraded={"code": "x"}),
    "ends": lambda w: Job.objects.filter(pk=w.runs.pk).update(exit_reason={"code": "x"}),
    "lacks places": lambda w: Job.objects.filter(pk=w.runs.pk).update(unplaced=1),
    "gives its GPUs back": lambda w: release(w.attempt),
    "reserves": lambda w: Nomination.objects.create(job=w.runs, placement=[], victims=[]),
}


@pytest.mark.parametrize("what", GANG)
def test_a_gang_is_notified_when_it(world, what):
    news = news_of(lambda: GANG[what](world))
    assert news == ChangeSet(gangs={str(world.runs.pk)})


INVENTORY: dict[str, Callable[[World], object]] = {
    "a quota": lambda w: Quota.objects.update(gpus=1),
    "a cell claim": lambda w: VcCell.objects.create(vc=w.vc, chain="c", cell_type="t", number=1),
    "a pin": lambda w: PinnedCell.objects.create(name="p", cell_type="t", node_name="n"),
    "the layout": lambda w: CellLayout.objects.create(pk=1, text="x: 1"),
    "a virtual cluster": lambda w: make_vc(),
}


@pytest.mark.parametrize("what", INVENTORY)
def test_the_inventory_is_shown_when_this_changes(world, what):
    assert news_of(lambda: INVENTORY[what](world)) == ChangeSet(inventory=True)


def test_a_new_name_of_a_virtual_cluster_is_in_all_its_gangs(world):
    assert news_of(lambda: VirtualCluster.objects.update(name="renamed")).all


NOTHING: dict[str, Callable[[World], object]] = {
    "heartbeats": lambda w: cluster.heartbeat(w.node.pk, w.node.session_epoch),
    "revisions": lambda w: cluster.bump_revision([w.node.pk]),
    "a node saved as it was": lambda w: Node.objects.get(pk=w.node.pk).save(),
    "what a GPU is set to use": lambda w: Device.objects.update(problem="x"),
    "tasks that start": lambda w: TaskAttempt.objects.update(state="RUNNING", phase="running"),
    "why a job waits": lambda w: Job.objects.update(wait_reason={"code": "x"}),
    "a placed job that runs": lambda w: Job.objects.filter(pk=w.runs.pk).update(
        state="RUNNING", started_at=timezone.now()
    ),
    "a description": lambda w: VirtualCluster.objects.update(description="x"),
    "a layout's revision": lambda w: CellLayout.objects.update(revision=7),
}


@pytest.mark.parametrize("what", NOTHING)
def test_the_scheduler_is_not_bothered_with(world, what):
    assert not news_of(lambda: NOTHING[what](world))


def test_a_gang_of_many_tasks_is_one_row(world):
    job = make_job(world.vc, world.alice, tasks=20, gpus=0)
    before = Change.objects.count()
    attempts = [place(job, [], node=world.node, rank=rank) for rank in range(20)]
    assert Change.objects.count() == before + 20  # placed one by one here
    TaskAttempt.objects.filter(pk__in=[a.pk for a in attempts]).update(released_at=timezone.now())
    assert Change.objects.count() == before + 21


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_began_first_and_commits_last_is_not_missed():
    world, reader = World(), Reader()
    early, late = make_job(world.vc, world.alice), make_job(world.vc, world.alice)
    reader.look()
    written, look_over = Event(), Event()

    def slow() -> None:
        try:
            with transaction.atomic():
                Job.objects.filter(pk=early.pk).update(priority=5)
                written.set()
                assert look_over.wait(30)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(slow)
        assert written.wait(30)
        Job.objects.filter(pk=late.pk).update(priority=5)  # a later transaction, committed at once
        first = reader.look()
        assert str(late.pk) in first.gangs
        assert str(early.pk) not in first.gangs
        assert not reader.look()
        look_over.set()
        done.result(30)
    assert reader.look() == ChangeSet(gangs={str(early.pk)})
    assert not reader.look()


@pytest.mark.django_db(transaction=True)
def test_what_was_read_in_a_transaction_that_wrote_is_read_anew_after_it():
    world, reader = World(), Reader()
    reader.look()
    with transaction.atomic():
        Job.objects.filter(pk=world.waits.pk).update(priority=5)
        assert str(world.waits.pk) in reader.look().gangs
        transaction.set_rollback(True)
    assert reader.look().all
    assert not reader.look()


def prune_all() -> None:
    """What others' transactions in the same server may still need is kept: as soon as they end. A
    test beside this one may be one long transaction."""
    deadline = time.monotonic() + 400
    while Change.objects.exclude(kind="pruned").exists():
        assert time.monotonic() < deadline, "another transaction is still open"
        source.prune_changes(timedelta(0))


@pytest.mark.django_db(transaction=True)
def test_a_reader_behind_the_pruned_part_begins_anew():
    world, slow, fast = World(), Reader(), Reader()
    slow.look()
    Job.objects.filter(pk=world.waits.pk).update(priority=5)
    fast.look()
    assert source.prune_changes(timedelta(hours=1)) == 0
    assert not fast.look().all
    prune_all()
    fast.look()
    Job.objects.filter(pk=world.waits.pk).update(priority=6)
    assert fast.look() == ChangeSet(gangs={str(world.waits.pk)})
    assert slow.look().all


def test_old_changes_are_deleted_some_at_a_time_and_the_next_run_goes_on(monkeypatch):
    monkeypatch.setattr(source, "PRUNED", 2)
    old = timezone.now() - timedelta(hours=1)
    Change.objects.bulk_create(Change(txid=n, kind="gang", at=old) for n in range(1, 8))
    with CaptureQueriesContext(connection) as queries:
        monkeypatch.setattr(source, "PRUNE_S", -1.0)
        assert source.prune_changes() == 2
        assert Reader(horizon=7).look().all  # it would miss what is deleted next
        monkeypatch.setattr(source, "PRUNE_S", 60.0)
        assert source.prune_changes() == 5
    assert sum("DELETE" in query["sql"] for query in queries) == 4
    assert {change.kind for change in Change.objects.all()} == {"pruned"}


@pytest.mark.django_db(transaction=True)
def test_an_emptied_database_is_reported():
    World()
    reader = Reader()
    reader.look()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")
    assert reader.look().all
