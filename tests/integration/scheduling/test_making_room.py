"""Preemption end to end: reserved, asked, gone, placed; and every way in which it is called off."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    lose,
    placed,
    report,
    state_of,
    submit,
    tick,
)
from tests.support.platform_factories import make_job, make_node, make_vc

from skep_platform.cluster.models import Device
from skep_platform.jobs import queries, services
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling import source as state_source
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.models import Nomination, PreemptionCooldown
from skep_platform.scheduling.source import StateSource
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.tenancy.models import Quota
from skep_scheduler import engine
from skep_scheduler.model import Placement

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_victim_is_too_young(monkeypatch):
    young = {"min_run_s": 0.0, "opportunistic_min_run_s": 0.0}
    monkeypatch.setattr(settings, "SKEP_SCHEDULING", settings.SKEP_SCHEDULING | young)


@pytest.fixture
def node():
    return make_node("gpu-1", gpus=4)


@pytest.fixture
def vc(alice, node):
    return make_vc("vision", quotas={"A100": 4}, members=[alice])


@pytest.fixture
def guest(alice, vc):
    """A job of another virtual cluster that runs on the GPUs of ours."""
    speech = make_vc("speech", members=[alice])
    job = placed(alice, speech, priority="oppo", gpus=4)
    report(attempts_of(job), "running")
    return Job.objects.get(pk=job.pk)


@pytest.fixture
def preemptor(alice, vc, guest):
    job = submit(alice, vc, gpus=4)
    assert tick() == set()
    return job


def leave(job: Job) -> None:
    report(attempts_of(job), "exited", exit_code=143)
    report(attempts_of(job), "released")


def test_the_owner_reserves_its_cells_and_the_guest_is_asked_to_go(alice, guest, preemptor):
    nomination = Nomination.objects.get()
    assert (nomination.job_id, nomination.victims) == (preemptor.pk, [str(guest.pk)])
    assert {task["node"] for task in nomination.placement} == {"gpu-1"}
    guest.refresh_from_db()
    assert guest.preempting_at is not None
    assert "job.reserved" in event_kinds(preemptor)
    tick()
    preemptor.refresh_from_db()
    assert preemptor.wait_reason["code"] == "preempting"


def test_it_starts_when_the_guest_is_gone_who_waits_in_its_old_place(guest, preemptor):
    assert tick() == set()
    assert Nomination.objects.count() == 1
    leave(guest)
    assert tick() == {str(preemptor.pk)}
    assert not Nomination.objects.exists()
    guest.refresh_from_db()
    assert (guest.state, guest.placed_at, guest.preemptions) == ("WAITING", None, 1)


def test_the_guest_is_asked_once_however_often_the_scheduler_plans(guest, preemptor):
    asked = Job.objects.get(pk=guest.pk).preempting_at
    tick(3)
    assert Job.objects.get(pk=guest.pk).preempting_at == asked
    assert event_kinds(guest).count("job.preempted") == 1
    assert event_kinds(preemptor).count("job.reserved") == 1


def test_no_one_gets_what_is_reserved(alice, vc, guest, preemptor):
    other = submit(alice, vc, gpus=1, priority="oppo")
    leave(guest)
    assert tick() == {str(preemptor.pk)}
    assert state_of(other) == "WAITING"


def test_a_preemptor_that_is_stopped_gives_its_reservation_back(alice, guest, preemptor):
    services.stop(alice, preemptor.pk)
    tick()
    assert not Nomination.objects.exists()
    leave(guest)
    assert tick() == {str(guest.pk)}


def test_a_reservation_on_a_node_that_is_lost_is_cancelled(guest, preemptor, node):
    lose(node)
    tick()
    assert not Nomination.objects.exists()
    assert state_of(preemptor) == "WAITING"


def test_a_cancelled_preemptor_is_known_to_cool_down(guest, preemptor):
    scheduler = Scheduler()
    Device.objects.filter(index=0).update(health="BAD")
    run_once(scheduler)
    assert not Nomination.objects.exists()
    assert scheduler.source.state.cancelled[str(preemptor.pk)].times == 1


def test_a_cooldown_outlives_the_scheduler_that_noted_it(alice, vc, guest):
    """The row is read back after a restart: the gang does not preempt before the pause is over."""
    job, first, at = submit(alice, vc, gpus=4), Scheduler(), time.time()
    first.source.catch_up().note_cancelled(str(job.pk), at)
    run_once(first)
    row = PreemptionCooldown.objects.get()
    assert (row.job_id, row.times, row.cancelled_at) == (job.pk, 1, at)
    restarted = Scheduler()
    run_once(restarted)
    known = restarted.source.state.cancelled[str(job.pk)]
    assert (known.times, known.at) == (1, at)
    job.refresh_from_db()
    assert job.wait_reason["code"] == "cooling_down"
    assert not Nomination.objects.exists()
    assert state_source.verify(restarted.source) == []
    PreemptionCooldown.objects.update(cancelled_at=at - 3600)
    later = Scheduler()
    run_once(later)
    assert Nomination.objects.get().job_id == job.pk
    assert later.source.state.cancelled[str(job.pk)].times == 1


def test_a_gang_that_starts_has_no_cooldown_any_more(guest, preemptor):
    scheduler = Scheduler()
    Device.objects.filter(index=0).update(health="BAD")
    run_once(scheduler)
    assert PreemptionCooldown.objects.exists()
    leave(guest)
    Job.objects.filter(pk=guest.pk).update(state="STOPPED")
    Device.objects.update(health="HEALTHY")
    assert run_once(scheduler) == {str(preemptor.pk)}
    assert not PreemptionCooldown.objects.exists()


def test_a_guest_that_just_came_may_stay_for_a_while(alice, vc, guest, monkeypatch):
    limits = settings.SKEP_SCHEDULING | {"opportunistic_min_run_s": 3600.0}
    monkeypatch.setattr(settings, "SKEP_SCHEDULING", limits)
    job = submit(alice, vc, gpus=4)
    tick()
    job.refresh_from_db()
    assert job.wait_reason["code"] == "victims_too_young"
    assert not Nomination.objects.exists()
    monkeypatch.setattr(settings, "SKEP_SCHEDULING", limits | {"opportunistic_min_run_s": 0.0})
    tick()
    assert Nomination.objects.count() == 1


def test_a_plan_that_is_no_longer_true_asks_no_one(alice, vc, guest):
    job = submit(alice, vc, gpus=4)
    plan = engine.plan(StateSource().catch_up(), 4e9)
    services.stop(alice, job.pk)
    assert ticks.nominate(plan.preemptions) == set()
    guest.refresh_from_db()
    assert guest.preempting_at is None
    assert not Nomination.objects.exists()


def test_the_owner_of_a_preemptor_is_not_given_the_names_of_others_jobs(guest, preemptor):
    event = queries.events(preemptor).get(kind="job.reserved")
    assert guest.name not in event.message
    assert "asked 1 running job to leave" in event.message


def test_a_job_that_allows_it_goes_on_without_its_guarantee_instead(alice, vc, node):
    vc = make_vc("half", quotas={"A100": 2}, members=[alice])
    lazy = make_job(vc, alice, gpus=2, priority=0, lazy_preemption=True)
    tick()
    prod = submit(alice, vc, gpus=2, priority="prod")
    assert tick() == {str(prod.pk)}
    lazy.refresh_from_db()
    assert lazy.downgraded["code"] == "preempted_lazily"
    assert TaskAttempt.objects.filter(job=lazy, released_at=None).exists()


def test_claims_that_shrink_take_the_guarantee_and_give_it_back(alice, vc, node):
    job = placed(alice, vc, gpus=4)
    Quota.objects.update(gpus=0)
    tick()
    job.refresh_from_db()
    assert job.downgraded["code"] == "cells_changed"
    assert "job.downgraded" in event_kinds(job)
    Quota.objects.update(gpus=4)
    tick()
    job.refresh_from_db()
    assert job.downgraded is None
    assert "job.restored" in event_kinds(job)


def incremental(vc, alice, tasks: int) -> Job:
    return make_job(vc, alice, tasks=tasks, gpus=1, incremental=True)


def test_tasks_of_an_incremental_job_start_as_they_find_places(alice, vc, node):
    other = placed(alice, vc, gpus=3)
    job = incremental(vc, alice, 3)
    assert tick() == {str(job.pk)}
    job.refresh_from_db()
    assert (job.attempt, job.unplaced) == (1, 2)
    first = job.placed_at
    assert tick() == set()
    report(attempts_of(other), "running", "exited", "released")
    assert tick() == {str(job.pk)}
    job.refresh_from_db()
    assert (job.attempt, job.unplaced, job.placed_at) == (1, 0, first)
    assert [attempt.index for attempt in attempts_of(job)] == [1, 1, 1]
    assert tick() == set()


def test_an_incomplete_job_that_shall_stop_gets_no_more_tasks(alice, vc, node):
    other = placed(alice, vc, gpus=3)
    job = incremental(vc, alice, 3)
    tick()
    services.stop(alice, job.pk)
    report(attempts_of(other), "running", "exited", "released")
    assert tick() == set()
    assert len(attempts_of(job)) == 1


def test_a_gang_that_is_not_whole_is_not_placed(alice, vc, node):
    from skep_platform.scheduling import placing

    job = submit(alice, vc, instances=2)
    (placement,) = engine.plan(StateSource().catch_up(), 4e9).placements
    half = Placement(placement.gang, placement.tasks[:1])
    assert placing.place([half]) == set()
    assert attempts_of(job) == []


def test_a_retry_keeps_its_backoff(alice, vc, node):
    job = submit(alice, vc)
    Job.objects.filter(pk=job.pk).update(not_before=timezone.now() + timedelta(hours=1))
    assert tick() == set()
