"""Samples of what virtual clusters own and use; and what a submitter sees before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import attempts_of, job_file, placed, report, submit
from tests.support.platform_factories import make_node, make_vc

from skep_platform.cluster.models import Device
from skep_platform.core import notifications
from skep_platform.jobs import services
from skep_platform.scheduling import planned, tasks
from skep_platform.scheduling import tick as ticks
from skep_platform.scheduling.models import VcUse
from skep_platform.scheduling.source import StateSource
from skep_scheduler import usage
from skep_scheduler.usage.accounting import Use

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 1, 12, 30, 17, tzinfo=UTC)


@pytest.fixture
def vcs(alice):
    make_node("gpu-1", gpus=4)
    make_node("gpu-2", gpus=4)
    owner = make_vc("owner", quotas={"A100": 8}, members=[alice])
    return owner, make_vc("guest", members=[alice])


def use_of(name: str) -> Use:
    return usage.measure(StateSource().catch_up())[name, "A100"]


def test_what_is_owned_and_used(alice, vcs):
    placed(alice, vcs[0], gpus=2)
    submit(alice, vcs[0], gpus=4, instances=2)
    assert use_of("owner") == Use(owned=8, used=2, free=6, waiting=8)


def test_what_a_guest_borrows_is_lent_by_who_owns_it(alice, vcs):
    placed(alice, vcs[1], gpus=3, priority="oppo")
    assert use_of("guest").borrowed == 3
    assert use_of("owner").lent == 3


def test_bad_hardware_is_missing(alice, vcs):
    Device.objects.filter(node__name="gpu-2").update(health="BAD")
    assert use_of("owner").bad == 4


def test_a_minute_is_sampled_once_and_old_samples_thin_out(vcs):
    world = StateSource().catch_up()
    for _ in range(2):
        planned.sample_use(world, NOW)
    sample = VcUse.objects.get(vc=vcs[0])
    assert (sample.at, sample.owned) == (NOW.replace(second=0), 8)
    now = datetime.now(UTC).replace(minute=7)
    for days in (0, 8, 91):
        planned.sample_use(world, now - timedelta(days=days))
    planned.sample_use(world, (now - timedelta(days=8)).replace(minute=15))
    VcUse.objects.filter(at__lt=NOW + timedelta(hours=1)).delete()
    tasks.tidy()
    kept = [at for (at,) in VcUse.objects.order_by("at").values_list("at")]
    assert [at.minute for at in kept] == [15, 7]


def test_the_tasks_run_on_the_scheduler_s_own_world(alice, vcs):
    tasks.tick()
    tasks.sample_use()
    tasks.verify_world()
    assert VcUse.objects.filter(vc=vcs[0]).count() == 1


def test_the_world_is_verified_now_and_then_also_while_hints_wait(vcs, monkeypatch):
    monkeypatch.setattr(ticks, "SCHEDULER", ticks.Scheduler())

    def queries() -> int:
        notifications.valkey().set(notifications.TICK_PENDING, 1)  # as under constant load
        with CaptureQueriesContext(connection) as captured:
            tasks.verify_world()
        notifications.take_tick_hint()
        return len(captured)

    assert queries() == 0
    ticks.SCHEDULER.verified_at -= tasks.VERIFY_WITHIN_S
    assert queries() > 0
    assert queries() == 0


def forecast(alice, vc, **changes):
    return services.check(alice, json.dumps(job_file(vc, **changes))).forecast


def test_before_submitting_one_sees_a_start_at_once(alice, vcs):
    answer = forecast(alice, vcs[0], gpus=4, instances=2)
    assert (answer["code"], answer["details"]["nodes"]) == ("starts_now", ["gpu-1", "gpu-2"])
    assert answer["details"]["expected_start"] > 0


def test_before_submitting_one_sees_who_would_be_preempted(alice, vcs, settings):
    young = {"opportunistic_min_run_s": 0.0}
    settings.SKEP_SCHEDULING = settings.SKEP_SCHEDULING | young
    guest = placed(alice, vcs[1], gpus=4, instances=2, priority="oppo")
    report(attempts_of(guest), "running")
    answer = forecast(alice, vcs[0], gpus=4)
    assert answer["code"] == "would_preempt"
    assert "once 1 running job has left" in answer["message"]


def test_before_submitting_one_sees_why_it_would_wait(alice, vcs):
    placed(alice, vcs[0], gpus=4, instances=2)
    answer = forecast(alice, vcs[0], gpus=1)
    assert answer["code"] == "vc_busy"
    assert "expected_start" in answer["details"]
