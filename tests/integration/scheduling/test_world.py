"""A world that was caught up by news equals one that is read anew, after any history."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support import jobs_world
from tests.support.jobs_world import lose, report
from tests.support.platform_factories import (
    make_hello,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
)

from skep_agent.protocol import Gpu
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device, Node
from skep_platform.core.errors import SkepError
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling import planned, shared_state
from skep_platform.scheduling.models import PreemptionCooldown, ReservedStart
from skep_platform.scheduling.source import StateSource, differences, verify
from skep_platform.scheduling.tick import Scheduler, limits, run_once
from skep_platform.tenancy.models import PinnedCell, Quota, VcCell, VirtualCluster
from skep_scheduler import engine
from skep_scheduler.model import Gang, Plan
from skep_scheduler.policies import ordered
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import ReservedStart as Start

pytestmark = pytest.mark.django_db


class History:
    """Random events on a small cluster, as they happen: by the services that make them happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.alice = make_user()
        self.nodes = [make_node(f"n{i}", gpus=4) for i in range(3)]
        self.vcs = [
            make_vc("blue", quotas={"A100": 6}, members=[self.alice]),
            make_vc("red", quotas={"A100": 4}, members=[self.alice]),
        ]
        self.scheduler = Scheduler()
        self.reported: list[str] = []

    def step(self) -> None:
        event = self.random.choice(EVENTS)
        self.reported.append(event.__name__)
        event(self)

    def job(self, **filters: object) -> Job | None:
        return self._any(Job.objects.filter(**filters).order_by("pk"))

    def node(self) -> Node:
        return self.random.choice(self.nodes)

    def vc(self) -> VirtualCluster:
        return self.random.choice(self.vcs)

    def _any(self, rows):
        found = list(rows)
        return self.random.choice(found) if found else None


def submit(h: History) -> None:
    make_job(
        h.vc(),
        h.alice,
        tasks=h.random.choice([1, 1, 2, 3]),
        gpus=h.random.choice([0, 1, 1, 2, 4]),
        priority=h.random.choice([-1, 0, 10, 100]),
        lazy_preemption=h.random.random() < 0.3,
        preemptible=h.random.random() < 0.8,
        incremental=h.random.random() < 0.2,
        duration_s=h.random.choice([None, 600]),
    )


def round_(h: History) -> None:
    run_once(h.scheduler)


def begin(h: History) -> None:
    if job := h.job(state="WAITING", placed_at__isnull=False):
        report(job.attempts.filter(released_at=None), "running")


def end(h: History) -> None:
    attempts = list(TaskAttempt.objects.filter(released_at=None).order_by("pk"))
    if attempts:
        phases = h.random.choice([["exited"], ["exited", "released"], ["released"]])
        report(
            h.random.sample(attempts, min(len(attempts), 2)),
            *phases,
            exit_code=h.random.choice([0, 1]),
        )


def leave(h: History) -> None:
    if job := h.job(attempts__state="STOPPING"):
        report(job.attempts.filter(released_at=None), "exited", "released")


def stop(h: History) -> None:
    if job := h.job(state__in=["WAITING", "RUNNING"]):
        services.stop(h.alice, job.pk)


def preempt(h: History) -> None:
    victim, by = h.job(placed_at__isnull=False), h.job()
    if victim and by:
        preempting.preempt([victim.pk], by, timezone.now())


def downgrade(h: History) -> None:
    if job := h.job(placed_at__isnull=False, priority__gte=0):
        why = {"code": "cells_changed", "message": "Gone.", "details": {}}
        preempting.downgrade({job.pk: why}, timezone.now())


def restore(h: History) -> None:
    if job := h.job(downgraded__isnull=False):
        preempting.restore([job.pk], timezone.now())


def requeue_at_once(h: History) -> None:
    Job.objects.exclude(not_before=None).update(not_before=None)


def cordon(h: History) -> None:
    h.random.choice([cluster.cordon, cluster.uncordon])(None, h.node().name)


def lose_node(h: History) -> None:
    lose(h.node())
    services.reconcile()


def come_back(h: History) -> None:
    node = h.node()
    gpus = [
        Gpu(uuid=d.uuid, model=d.model, memory_mb=d.memory_mb, index=d.index)
        for d in node.devices.order_by("index")
    ]
    node.refresh_from_db()
    cluster.open_session(
        node.pk, node.instance_id, make_hello(node.instance_id, make_inventory(gpus))
    )


def gpu_health(h: History) -> None:
    device = h.random.choice(list(Device.objects.order_by("pk")))
    health = h.random.choice(["HEALTHY", "BAD", "ABSENT"])
    Device.objects.filter(pk=device.pk).update(health=health)


def new_node(h: History) -> None:
    if len(h.nodes) < 6:
        h.nodes.append(make_node(gpus=h.random.choice([2, 4])))


def remove_node(h: History) -> None:
    if len(h.nodes) > 2:
        node = h.node()
        try:
            cluster.remove_node(None, node.name)
        except SkepError:
            return
        h.nodes.remove(node)


def label(h: History) -> None:
    Node.objects.filter(pk=h.node().pk).update(labels={"rack": h.random.choice(["r1", "r2"])})


def claims(h: History) -> None:
    Quota.objects.filter(vc=h.vc()).update(gpus=h.random.randrange(9))


def cells(h: History) -> None:
    vc = h.vc()
    rows = VcCell.objects.filter(vc=vc)
    if rows.exists():
        rows.delete()
    else:
        VcCell.objects.create(vc=vc, chain="A100-NODE4", cell_type="A100-NODE4", number=1)


def pin(h: History) -> None:
    if PinnedCell.objects.exists():
        PinnedCell.objects.all().delete()
    else:
        node = h.node().name
        PinnedCell.objects.create(name="p", cell_type="A100-NODE4", node_name=node, vc=h.vc())


def rename(h: History) -> None:
    VirtualCluster.objects.filter(pk=h.vcs[0].pk).update(name=h.random.choice(["blue", "green"]))


OFTEN: list[Callable[[History], None]] = [submit, submit, round_, round_, round_, begin, end, leave]
EVENTS = OFTEN * 3 + [
    *(stop, preempt, downgrade, restore, requeue_at_once, cordon, lose_node, come_back),
    *(gpu_health, gpu_health, new_node, remove_node, label, claims, cells, pin, rename),
]


@pytest.mark.parametrize("seed", range(8))
def test_a_world_caught_up_by_news_equals_one_read_anew_after_any_history(seed):
    history = History(seed)
    follower = StateSource()  # like that of a web process, which reads stored plans where it plans
    for _ in range(60):
        history.step()
        if history.random.random() < 0.5:
            continue
        fresh = StateSource().catch_up()
        caught_up = follower.catch_up()
        planned.load(caught_up)
        found = differences(caught_up.digest(), fresh.digest())
        assert not found, history.reported
        caught_up.validate()
        fresh.validate()


def next_plan(state: ClusterState, now: float) -> Plan:
    """Return what a scheduler would plan now. The state stays as it is."""
    reserved = state.reservations
    plan = engine.plan(state, now, limits())
    state.set_reservations(reserved)
    return plan


@pytest.mark.parametrize("seed", range(4))
def test_the_scheduler_s_own_world_never_differs_and_a_restarted_one_plans_alike(seed, monkeypatch):
    """Reserved starts and cool-downs are rows, so a new scheduler goes on from them."""
    shorter = {"min_run_s": 0.0, "opportunistic_min_run_s": 0.0}
    monkeypatch.setattr(settings, "SKEP_SCHEDULING", settings.SKEP_SCHEDULING | shorter)
    history = History(100 + seed)
    source = history.scheduler.source
    for _ in range(60):
        history.step()
        assert verify(source) == [], history.reported
        if history.random.random() < 0.3:
            now = time.time()
            restarted = StateSource().catch_up()
            assert next_plan(source.state, now) == next_plan(restarted, now), history.reported


def test_a_standby_that_takes_over_goes_on_from_what_the_leader_reserved():
    history = History(0)
    job = make_job(history.vcs[0], history.alice, gpus=4)
    standby = Scheduler()
    standby.source.catch_up()
    ReservedStart.objects.create(job=job, start=5.0, places=[])
    PreemptionCooldown.objects.create(job=job, times=1, cancelled_at=7.0)
    state = standby.source.catch_up()
    standby.begin(state, 2)
    assert not differences(state.digest(), StateSource().catch_up().digest())
    assert set(state.reservations) == set(state.cancelled) == {str(job.pk)}


def test_a_digest_has_the_reserved_starts_and_the_cooldowns():
    history = History(0)
    first, second = (make_job(history.vcs[0], history.alice, gpus=4) for _ in range(2))
    state = StateSource().catch_up()
    digests = [state.digest()]
    state.set_reservations({str(first.pk): Start(5.0)})
    digests.append(state.digest())
    state.note_cancelled(str(second.pk), 7.0)
    digests.append(state.digest())
    assert len(set(digests)) == 3
    state.set_reservations({"of no gang that waits": Start(5.0)})
    state.note_started(str(second.pk))
    assert state.digest() == digests[0]


def test_a_look_by_another_task_of_the_scheduler_does_not_take_its_news_away():
    """Samples and checks catch the scheduler's state up, too: the next round plans all the same."""
    history = History(0)
    run_once(history.scheduler)
    run_once(history.scheduler)
    assert history.scheduler.idle
    job = make_job(history.vcs[0], history.alice, gpus=1)
    planned.sample_use(history.scheduler.source.catch_up())
    assert run_once(history.scheduler) == {str(job.pk)}


def test_a_world_that_differs_is_reported_and_replaced(caplog):
    history = History(0)
    submit(history)
    source = StateSource()
    source.catch_up()
    lost = source.catch_up()
    lost.forget(str(Job.objects.get().pk))
    assert verify(source)
    assert source.state is not lost
    assert verify(source) == []


def queries_of(source: StateSource) -> int:
    with CaptureQueriesContext(connection) as captured:
        source.catch_up()
    return len(captured)


def test_catching_up_takes_one_query_without_news_and_few_with_any_number():
    history = History(0)
    source = StateSource()
    source.catch_up()
    source.catch_up()
    assert queries_of(source) == 1
    submit(history)
    few = queries_of(source)
    for _ in range(50):
        submit(history)
    assert queries_of(source) == few <= 4
    Device.objects.update(health="BAD")
    assert queries_of(source) == 3
    run_once(history.scheduler)
    assert queries_of(source) <= 4


def test_a_rebuild_takes_as_many_queries_for_many_gangs_as_for_one():
    history = History(0)
    submit(history)
    few = queries_of(StateSource())
    for _ in range(50):
        submit(history)
    assert queries_of(StateSource()) == few


def test_a_view_follows_without_being_notified():
    history = History(0)
    submit(history)
    with shared_state.view() as seen:
        assert len(seen.waiting) == 1
    submit(history)
    with shared_state.view() as seen:
        assert len(seen.waiting) == 2


def test_health_and_size_of_a_node_build_no_cells_anew():
    history = History(0)
    source = StateSource()
    built = source.catch_up().built
    cluster.cordon(None, "n0")
    Device.objects.filter(node__name="n1", index=0).update(health="BAD")
    Node.objects.filter(name="n2").update(cpu_millis=1)
    state = source.catch_up()
    assert state.built is built
    assert [name for name, node in state.nodes.items() if not node.schedulable] == ["n0"]
    assert not state.nodes["n1"].devices[0].healthy
    assert state.nodes["n2"].cpu_millis == 1
    assert verify(source) == []
    make_node("n9", gpus=4)
    assert source.catch_up().built is not built
    assert history.reported == []


def test_many_new_nodes_build_cells_once_and_in_place(monkeypatch):
    History(0)
    source = StateSource()
    cells = source.catch_up().cells
    reported = []
    set_inventory = ClusterState.set_inventory
    monkeypatch.setattr(
        ClusterState, "set_inventory", lambda *args: reported.append(args) or set_inventory(*args)
    )
    for i in range(5):
        make_node(f"new{i}", gpus=4)
    assert source.catch_up().cells is cells
    assert len(reported) == 1
    assert {f"new{i}" for i in range(5)} < cells.nodes.keys()


def test_waiting_counts_from_when_a_job_came_back_and_its_place_from_when_it_was_submitted():
    history = History(0)
    vc, source = history.vcs[0], StateSource()
    hour_ago = timezone.now() - timedelta(hours=1)
    new, retried, preempted = (
        jobs_world.submit(history.alice, vc, name=name, retries=1) for name in "abc"
    )
    Job.objects.update(created_at=hour_ago)
    assert ordered.waits_since(waiting(source, new)) == hour_ago.timestamp()
    run_once(history.scheduler)
    preempting.preempt([preempted.pk], new, timezone.now())
    before = time.time()
    for job in (retried, preempted):
        report(job.attempts.all(), "exited", "released", exit_code=1)
    jobs_world.explain(retried)
    Job.objects.update(not_before=None)
    for job in (retried, preempted):
        gang = waiting(source, job)
        assert gang.submitted_at == hour_ago.timestamp()
        assert before <= ordered.waits_since(gang) <= time.time()


def waiting(source: StateSource, job: Job) -> Gang:
    return source.catch_up().waiting[str(job.pk)]


def test_a_job_that_cannot_be_read_keeps_no_other_one_from_being_placed():
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 4}, members=[alice])
    make_node("n1", gpus=4)
    runs = jobs_world.placed(alice, vc, gpus=2)
    bad = jobs_world.submit(alice, vc, name="bad")
    Job.objects.filter(pk__in=[runs.pk, bad.pk]).update(avoid_nodes=["no", "mapping"])
    good = [jobs_world.submit(alice, vc, name=f"good-{n}", gpus=1) for n in range(3)]
    scheduler = Scheduler()
    assert run_once(scheduler) == {str(job.pk) for job in good[:2]}  # beside the one that runs
    assert verify(scheduler.source) == []
