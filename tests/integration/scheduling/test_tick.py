"""Ticks: what they see, what they report, and how many a burst of submits takes."""

from __future__ import annotations

from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from tests.support.at_once import just_before
from tests.support.jobs_world import (
    attempts_of,
    explain,
    lose,
    placed,
    report,
    state_of,
    states_of,
    submit,
    tick,
)
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform import schedule
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device
from skep_platform.core import leadership, notifications
from skep_platform.core.leadership import Leader
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling import tasks
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.tick import Pace, Scheduler, run_once
from skep_platform.tenancy.limits import reset_limit, set_limit

pytestmark = pytest.mark.django_db


def test_priority_goes_first_then_age(alice, vc):
    make_node("gpu-1", gpus=1)
    old, prod, young = submit(alice, vc), submit(alice, vc, priority="prod"), submit(alice, vc)
    order = []
    for _ in range(3):
        (job_id,) = tick()
        order.append(job_id)
        report(attempts_of(Job.objects.get(pk=job_id)), "running", "exited", "released")
    assert order == [str(prod.pk), str(old.pk), str(young.pk)]


def test_a_gang_starts_whole_or_not_at_all(alice, vc):
    make_node("gpu-1", gpus=4)
    job = submit(alice, vc, instances=5)
    assert tick() == set()
    assert states_of(job) == []
    make_node("gpu-2", gpus=4)
    assert tick() == {str(job.pk)}
    assert len({a.node_id for a in attempts_of(job)}) == 2


def test_quota_is_kept_over_ticks(alice):
    make_node("gpu-1", gpus=8)
    vc = make_vc("small", quotas={"A100": 2}, members=[alice])
    first, second = submit(alice, vc, gpus=2), submit(alice, vc, gpus=1)
    assert tick() == {str(first.pk)}
    second.refresh_from_db()
    assert second.wait_reason["code"] == "vc_busy"
    assert submit(alice, vc, gpus=6, priority="oppo")
    assert len(tick()) == 1


def test_a_job_over_the_gpus_of_its_user_waits_and_others_start_before_it(alice, vc):
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    make_node("gpu-1", gpus=8)
    set_limit(None, vc, "gpus_per_user", 4)
    scheduler = Scheduler()
    first, second, other = submit(alice, vc, gpus=4), submit(alice, vc), submit(bob, vc, gpus=4)
    assert run_once(scheduler) == {str(first.pk), str(other.pk)}
    shown = Api(alice).get(f"/jobs/{second.pk}").json()["wait_reason"]
    assert shown["code"] == "user_gpu_limit"
    says = f"You run 4 of 4 GPUs that a user may have in {vc.name} at a time, and it needs 1 GPU."
    assert shown["message"] == says
    seen_by_admin = Api(make_user("root", admin=True)).get(f"/jobs/{second.pk}").json()
    assert seen_by_admin["wait_reason"]["message"].startswith("alice runs 4 of 4 GPUs")
    set_limit(None, vc, "gpus_per_user", 5)  # the scheduler follows, and has it started
    stop = attempts_of(other)
    report(stop, "running", "exited", "released")
    assert run_once(scheduler) == {str(second.pk)}


def test_running_jobs_of_a_user_are_limited(alice, vc):
    make_node("gpu-1", gpus=8)
    set_limit(None, vc, "running_jobs_per_user", 1)
    first, second = submit(alice, vc), submit(alice, vc)
    scheduler = Scheduler()
    assert run_once(scheduler) == {str(first.pk)}
    second.refresh_from_db()
    assert second.wait_reason["code"] == "user_job_limit"
    reset_limit(None, vc, "running_jobs_per_user")
    assert run_once(scheduler) == {str(second.pk)}


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


def test_a_round_without_news_and_without_a_queue_is_one_query(alice, vc):
    make_node("gpu-1", gpus=8)
    placed(alice, vc)
    scheduler = Scheduler()
    for _ in range(2):
        run_once(scheduler)
    with CaptureQueriesContext(connection) as captured:
        run_once(scheduler)
    assert len(captured) == 1


def test_reasons_are_written_when_they_are_news(alice, vc, monkeypatch):
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    jobs = [submit(alice, vc) for _ in range(30)]
    scheduler = Scheduler()
    run_once(scheduler)
    job = Job.objects.get(pk=jobs[0].pk)
    assert set(job.wait_reason) == {"code", "message", "details"}
    assert job.wait_reason["code"] == "vc_busy"
    seen = job.updated_at
    with CaptureQueriesContext(connection) as captured:
        run_once(scheduler)
    assert not [q for q in captured if q["sql"].startswith("UPDATE")]
    report(attempts_of(Job.objects.exclude(placed_at=None).get()), "running", "exited", "released")
    assert run_once(scheduler) == {str(jobs[0].pk)}
    jobs[0].refresh_from_db()
    assert jobs[0].wait_reason is None
    assert Job.objects.get(pk=jobs[1].pk).updated_at >= seen


def test_a_long_queue_is_reported_its_reasons_in_portions(alice, vc, monkeypatch):
    monkeypatch.setattr(ticks, "MOST", 4)
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    for _ in range(10):
        submit(alice, vc)
    scheduler = Scheduler()
    reported = []
    for _ in range(4):
        run_once(scheduler)
        reported.append(Job.objects.exclude(wait_reason=None).count())
    assert reported == [4, 8, 10, 10]


def test_a_reason_never_lands_on_a_job_that_was_placed_meanwhile(alice, vc):
    from skep_scheduler.model import Reason

    make_node("gpu-1", gpus=1)
    job = placed(alice, vc)
    ticks.Reasons().store({str(job.pk): Reason("vc_busy", "No free GPUs.")})
    job.refresh_from_db()
    assert job.wait_reason is None


def test_who_leads_again_stores_anew_what_another_one_has_replaced(alice, vc):
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    job = submit(alice, vc)
    scheduler = Scheduler()
    run_once(scheduler, term=1)
    Job.objects.filter(pk=job.pk).update(wait_reason={"code": "of_another_leader"})
    run_once(scheduler, term=3)
    job.refresh_from_db()
    assert job.wait_reason["code"] == "vc_busy"


def test_who_led_again_meanwhile_drops_its_plan(alice, vc, monkeypatch):
    """As one that was stopped while it planned: another one led, and may have placed the same."""
    make_node("gpu-1", gpus=1)
    job = submit(alice, vc)
    monkeypatch.setattr(ticks, "LEADER", leader := Leader("scheduler"))
    plan = ticks.engine.plan

    def interrupted(*args: Any, **options: Any) -> Any:
        leader.term += 1
        return plan(*args, **options)

    monkeypatch.setattr(ticks.engine, "plan", interrupted)
    monkeypatch.setattr(ticks.notifications, "tick_hinted", lambda: False)
    assert ticks.tick(Scheduler()) == 1
    job.refresh_from_db()
    assert job.placed_at is None
    leader.resign()


def test_who_leads_no_longer_once_it_has_placed_stores_nothing_more(alice, vc):
    make_node("gpu-1", gpus=1)
    first, second = submit(alice, vc), submit(alice, vc)
    scheduler, leads = Scheduler(), iter([True, False])
    assert run_once(scheduler, lambda: next(leads)) == {str(first.pk)}
    second.refresh_from_db()
    assert second.wait_reason is None
    run_once(scheduler)
    second.refresh_from_db()
    assert second.wait_reason["code"] == "vc_busy", "it led again"


def test_a_reason_that_could_not_be_stored_is_stored_in_the_next_round(alice, vc):
    make_node("gpu-1", gpus=1)
    placed(alice, vc)
    job = submit(alice, vc)
    scheduler = Scheduler()

    def deadlock() -> None:
        raise OperationalError("deadlock detected")

    with pytest.raises(OperationalError), just_before('"wait_reason" = ', deadlock):
        run_once(scheduler)
    run_once(scheduler)
    job.refresh_from_db()
    assert job.wait_reason["code"] == "vc_busy"


@pytest.fixture
def sent(monkeypatch):
    """The ticks that hints ask for, instead of a broker's queue."""
    found = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: found.append(name))
    monkeypatch.setattr(
        notifications.current_app, "send_task", lambda name, **_: found.append(name)
    )
    return found


@pytest.mark.django_db(transaction=True)
def test_a_burst_of_1000_submits_is_a_handful_of_ticks(sent, monkeypatch):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    set_limit(None, vc, "submits_per_minute", 1000)
    make_node("gpu-1", gpus=8)
    # Seconds pass on a slow machine; here only hints that were taken count.
    monkeypatch.setattr(notifications, "TICK_PENDING_S", 600)
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
        during.setattr(ticks.placing, "place", submit_late)
        during.setattr(ticks, "ROUNDS_S", 60.0)
        # A busy machine may take more than 2 s, and longer than a lease.
        during.setattr(notifications, "TICK_PENDING_S", 60)
        during.setattr(leadership, "LEASE_S", 60.0)
        during.setattr(ticks, "LEADER", Leader("scheduler"))
        rounds = ticks.tick(Scheduler())
    assert rounds >= 2


def test_a_message_whose_hint_was_taken_by_an_earlier_round_does_nothing(alice, vc):
    make_node("gpu-1", gpus=8)
    job = submit(alice, vc)
    notifications.take_tick_hint()
    tasks.tick(hinted=True)
    assert states_of(job) == []
    notifications.valkey().set(notifications.TICK_PENDING, 1)
    tasks.tick(hinted=True)
    assert states_of(job) == ["ASSIGNED"]


def test_beats_message_always_ticks(alice, vc):
    make_node("gpu-1", gpus=8)
    job = submit(alice, vc)
    notifications.take_tick_hint()
    tasks.tick()
    assert states_of(job) == ["ASSIGNED"]


def test_a_job_that_waits_for_its_retry_keeps_the_reason_of_the_failure(alice, vc):
    make_node("gpu-1", gpus=8)
    job = placed(alice, vc, retries=1)
    report(attempts_of(job), "running")
    report(attempts_of(job), "exited", exit_code=1)
    report(attempts_of(job), "released")
    explain(job)
    tick()
    job.refresh_from_db()
    assert job.wait_reason["code"] == "retry"
    assert "exited with code 1" in job.wait_reason["message"]


def test_the_celery_task_has_the_name_that_beat_and_notifications_use():
    assert tasks.tick.name == notifications.TICK_TASK == "skep.scheduling.tick"
    current_app.loader.import_default_modules()
    assert schedule.tasks(settings.CELERY_BEAT_SCHEDULE) <= current_app.tasks.keys()


def test_finding_c4_a_round_that_lays_out_the_cells_is_followed_by_a_longer_pause():
    """Nodes that join one by one change the inventory with each: the cells of 2,000 nodes, laid
    out in 80 ms, take a tenth of a core then, and not a third."""
    scheduler = Scheduler()
    make_node(gpus=2)
    run_once(scheduler)
    assert scheduler.source.relaid
    node = make_node(gpus=2)
    run_once(scheduler)
    assert scheduler.source.relaid
    cluster.cordon(None, node.name)
    run_once(scheduler)
    assert not scheduler.source.relaid
    assert Pace().rest_s(0.08, 100.0, relaid=True) == pytest.approx(0.8)
    assert Pace().rest_s(9.0, 100.0, relaid=True) <= 1.0


def test_a_round_after_a_silence_is_followed_by_no_rest():
    pace = Pace()
    assert pace.rest_s(0.04, 100.0, relaid=False) == 0
    assert pace.rest_s(0.04, 100.05, relaid=False) == 0
    assert pace.rest_s(0.04, 200.0, relaid=False) == 0


def test_rounds_that_follow_each_other_leave_two_thirds_of_the_time_to_others():
    pace, now, worked = Pace(), 100.0, 0.0
    for _ in range(500):
        now += 0.05
        worked += 0.05
        now += pace.rest_s(0.05, now, relaid=False)
    assert worked / (now - 100.0) == pytest.approx(1 / 3, abs=0.01)
