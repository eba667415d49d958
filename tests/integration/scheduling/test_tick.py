"""Ticks: what they see, what they tell, and how many a burst of submits takes."""

from __future__ import annotations

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import (
    attempts_of,
    lose,
    placed,
    state_of,
    states_of,
    submit,
    tell,
    tick,
)
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device
from skep_platform.core import doorbells
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling import tasks, waiting
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.snapshot import SnapshotSource
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.tenancy import services as tenancy
from skep_platform.tenancy.models import Quota

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def vc(alice):
    return make_vc("vision", quotas={"A100": 64}, members=[alice])


def test_priority_goes_first_then_age(alice, vc):
    make_node("gpu-1", gpus=1)
    old, prod, young = submit(alice, vc), submit(alice, vc, priority="prod"), submit(alice, vc)
    order = []
    for _ in range(3):
        (job_id,) = tick()
        order.append(job_id)
        tell(attempts_of(Job.objects.get(pk=job_id)), "running", "exited", "released")
    assert order == [str(prod.pk), str(old.pk), str(young.pk)]


def test_a_gang_starts_whole_or_not_at_all(alice, vc):
    make_node("gpu-1", gpus=4)
    job = submit(alice, vc, instances=5)
    assert tick() == set()
    assert states_of(job) == []
    make_node("gpu-2", gpus=1)
    assert tick() == {str(job.pk)}
    assert len({a.node_id for a in attempts_of(job)}) == 2


def test_quota_is_kept_over_ticks(alice):
    make_node("gpu-1", gpus=8)
    vc = make_vc("small", quotas={"A100": 2}, members=[alice])
    first, second = submit(alice, vc, gpus=2), submit(alice, vc, gpus=1)
    assert tick() == {str(first.pk)}
    second.refresh_from_db()
    assert second.wait_reason["code"] == "quota_exceeded"
    assert submit(alice, vc, gpus=6, priority="oppo")
    assert len(tick()) == 1


@pytest.mark.parametrize("use", ["cordon", "lose", "bad"])
def test_nothing_new_goes_where_it_should_not(alice, vc, use):
    node = make_node("gpu-1", gpus=1)
    if use == "cordon":
        cluster.cordon(None, node.name)
    elif use == "lose":
        lose(node)
    else:
        Device.objects.update(health="BAD")
    job = submit(alice, vc)
    assert tick() == set()
    job.refresh_from_db()
    assert job.wait_reason["code"]


def test_what_stopped_waits_no_longer_in_the_snapshot(alice, vc):
    make_node("gpu-1", gpus=1)
    running, waiting_ = placed(alice, vc), submit(alice, vc)
    source = SnapshotSource()
    snapshot = source.take()
    assert [gang.id for gang in snapshot.waiting] == [str(waiting_.pk)]
    assert [r.gang_id for r in snapshot.running] == [str(running.pk)]
    tell(attempts_of(running), "running", "exited")
    assert len(source.take().running) == 1  # its GPU is not clean yet
    tell(attempts_of(running), "released")
    assert source.take().running == ()


def test_a_source_that_remembers_sees_the_same_as_a_new_one(alice, vc):
    make_node("gpu-1", gpus=4)
    source = SnapshotSource()
    steps = [
        lambda: submit(alice, vc, retries=1),
        lambda: submit(alice, vc, instances=9),
        tick,
        lambda: tell(TaskAttempt.objects.first(), "running"),
        lambda: tell(TaskAttempt.objects.first(), "exited", exit_code=1),
        lambda: tell(TaskAttempt.objects.first(), "released"),
        lambda: tenancy.update(None, vc, name="renamed"),
        lambda: Quota.objects.update(gpus=3),
        lambda: make_node("gpu-2", gpus=2),
        lambda: Job.objects.update(not_before=None),
        tick,
        lambda: lose(TaskAttempt.objects.latest("created_at").node),
    ]
    for step in steps:
        step()
        assert source.take() == SnapshotSource().take()


def test_a_snapshot_of_what_is_known_takes_few_queries_and_details_of_the_new(alice, vc):
    make_node("gpu-1", gpus=8)
    for _ in range(5):
        placed(alice, vc)
    for _ in range(20):
        submit(alice, vc, gpus=8, instances=2)
    source = SnapshotSource()
    source.take()

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            source.take()
        return len(captured)

    few = queries()
    assert few <= 6
    submit(alice, vc, gpus=8)
    assert queries() == few + 2
    assert queries() == few


def test_an_empty_queue_is_one_query(alice, vc):
    make_node("gpu-1", gpus=8)
    placed(alice, vc)
    with CaptureQueriesContext(connection) as captured:
        run_once(Scheduler())
    assert len(captured) == 1


def test_reasons_are_written_when_they_are_news(alice, vc, monkeypatch):
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    jobs = [submit(alice, vc) for _ in range(30)]
    scheduler = Scheduler()
    run_once(scheduler)
    job = Job.objects.get(pk=jobs[0].pk)
    assert set(job.wait_reason) == {"code", "message", "details"}
    assert job.wait_reason["code"] == "no_capacity"
    seen = job.updated_at
    with CaptureQueriesContext(connection) as captured:
        run_once(scheduler)
    assert not [q for q in captured if q["sql"].startswith("UPDATE")]
    tell(attempts_of(Job.objects.exclude(placed_at=None).get()), "running", "exited", "released")
    assert run_once(scheduler) == {str(jobs[0].pk)}
    jobs[0].refresh_from_db()
    assert jobs[0].wait_reason is None
    assert Job.objects.get(pk=jobs[1].pk).updated_at >= seen


def test_a_long_queue_is_told_its_reasons_in_portions(alice, vc, monkeypatch):
    monkeypatch.setattr(waiting, "MOST", 4)
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    for _ in range(10):
        submit(alice, vc)
    scheduler = Scheduler()
    told = []
    for _ in range(4):
        run_once(scheduler)
        told.append(Job.objects.exclude(wait_reason=None).count())
    assert told == [4, 8, 10, 10]


def test_a_reason_never_lands_on_a_job_that_was_placed_meanwhile(alice, vc):
    from skep_scheduler.plan import Reason

    make_node("gpu-1", gpus=1)
    job = placed(alice, vc)
    waiting.Reasons().store({str(job.pk): Reason("no_capacity", "No room.")})
    job.refresh_from_db()
    assert job.wait_reason is None


@pytest.fixture
def sent(monkeypatch):
    """The ticks that hints ask for, instead of a broker's queue."""
    found = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: found.append(name))
    monkeypatch.setattr(doorbells.current_app, "send_task", lambda name, **_: found.append(name))
    return found


@pytest.mark.django_db(transaction=True)
def test_a_burst_of_1000_submits_is_a_handful_of_ticks(sent, monkeypatch):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    make_node("gpu-1", gpus=8)
    # Seconds pass on a slow machine; here only hints that were taken count.
    monkeypatch.setattr(doorbells, "TICK_PENDING_S", 600)
    rounds = 0
    for i in range(1000):
        submit(alice, vc)
        if i % 250 == 0:  # a worker takes the message that lies there
            while sent:
                sent.pop()
                rounds += ticks.tick(Scheduler())
    while sent:
        sent.pop()
        rounds += ticks.tick(Scheduler())
    assert 4 <= rounds <= 10
    assert TaskAttempt.objects.count() == 8
    assert state_of(Job.objects.latest("created_at")) == "WAITING"


@pytest.mark.django_db(transaction=True)
def test_a_hint_that_comes_during_a_tick_is_another_round(sent, monkeypatch):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    make_node("gpu-1", gpus=8)
    late = []

    def submit_late(*_: object) -> set[str]:
        if not late:
            late.append(submit(alice, vc))
        return set()

    submit(alice, vc, gpus=0)
    with monkeypatch.context() as during:
        during.setattr(ticks.commit, "commit", submit_late)
        during.setattr(ticks, "ROUNDS_S", 5.0)
        rounds = ticks.tick(Scheduler())
    assert rounds >= 2


def test_a_message_whose_hint_was_taken_by_an_earlier_round_does_nothing(alice, vc):
    make_node("gpu-1", gpus=8)
    job = submit(alice, vc)
    doorbells.take_tick_hint()
    tasks.tick(hinted=True)
    assert states_of(job) == []
    doorbells.valkey().set(doorbells.TICK_PENDING, 1)
    tasks.tick(hinted=True)
    assert states_of(job) == ["ASSIGNED"]


def test_beats_message_always_ticks(alice, vc):
    make_node("gpu-1", gpus=8)
    job = submit(alice, vc)
    doorbells.take_tick_hint()
    tasks.tick()
    assert states_of(job) == ["ASSIGNED"]


def test_a_job_that_waits_for_its_retry_keeps_the_reason_of_the_failure(alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, retries=1)
    tell(attempts_of(job), "running")
    tell(attempts_of(job), "exited", exit_code=1)
    tell(attempts_of(job), "released")
    tick()
    job.refresh_from_db()
    assert job.wait_reason["code"] == "retry"
    assert "exited with code 1" in job.wait_reason["message"]


def test_the_celery_task_has_the_name_that_beat_and_doorbells_use():
    assert tasks.tick.name == doorbells.TICK_TASK == "skep.scheduling.tick"
    current_app.loader.import_default_modules()
    for entry in settings.CELERY_BEAT_SCHEDULE.values():
        assert entry["task"] in current_app.tasks
