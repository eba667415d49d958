"""The idle rule: who is warned, who is stopped, and who is left alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, event_kinds, placed, report
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user

from skep_platform.audit.models import AuditEntry
from skep_platform.jobs.models import Job
from skep_platform.telemetry import idle
from skep_platform.telemetry.models import GpuRollup
from skep_platform.tenancy.limits import set_limit

pytestmark = pytest.mark.django_db
MINUTES = 20


@pytest.fixture
def rule(vc):
    """Warn after 20 minutes under 5 %, and stop 10 minutes later."""
    make_node("gpu-1", gpus=8)
    for name, value in (("minutes", MINUTES), ("stop_minutes", 10), ("grace_minutes", 30)):
        set_limit(None, vc, f"idle_{name}", value)
    return vc


def running(user, vc, *, minutes: int = 60, **changes) -> Job:
    """A job that has run for so long."""
    job = placed(user, vc, **changes)
    report(attempts_of(job), "running")
    then = timezone.now() - timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(placed_at=then, begun_at=None, started_at=then)
    return Job.objects.get(pk=job.pk)


def sampled(job: Job, percent: float, *, minutes: int = 40, busy_gpu: float | None = None) -> None:
    """Store the use of its GPUs for the last minutes; of the first GPU it may be another one."""
    GpuRollup.objects.filter(attempt__job=job).delete()
    now = timezone.now().replace(second=0, microsecond=0)
    rows = []
    for attempt in attempts_of(job):
        for n, uuid in enumerate(attempt.gpu_uuids):
            used = busy_gpu if n == 0 and busy_gpu is not None else percent
            rows += [
                GpuRollup(
                    device_id=uuid,
                    attempt=attempt,
                    at=now - timedelta(minutes=m),
                    seconds=60,
                    samples=10,
                    utilization_sum=used * 10,
                    utilization_max=used,
                    memory_used_mb_max=1000,
                )
                for m in range(minutes)
            ]
    GpuRollup.objects.bulk_create(rows)


def warned_for(job: Job, minutes: int) -> None:
    then = timezone.now() - timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(idle_warned_at=then)


def fresh(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def test_an_idle_job_is_warned_once_and_then_stopped_with_what_to_do(alice, rule):
    job = running(alice, rule, gpus=2)
    sampled(job, 1.0)
    for _ in range(2):
        idle.watch()
    assert event_kinds(job).count("job.idle") == 1
    assert fresh(job).stop_requested_at is None
    events = Api(alice).get(f"/jobs/{job.pk}/events").json()["results"]
    (warning,) = (one["message"] for one in events if one["kind"] == "job.idle")
    assert "2 GPUs stayed below 5 % utilisation for 20 min. It is stopped in 10 min" in warning
    warned_for(job, 11)
    idle.watch()
    stopped = fresh(job)
    assert (stopped.state, stopped.exit_reason["code"]) == ("STOPPING", "idle")
    assert "ask for fewer GPUs" in stopped.exit_reason["message"]
    assert AuditEntry.objects.filter(action="job.stop", target_name=job.name).exists()
    report(attempts_of(job), "exited", "released")
    assert fresh(job).exit_reason["code"] == "idle"


def test_a_rule_of_one_minute_holds_while_the_newest_bucket_is_not_stored(alice, rule):
    set_limit(None, rule, "idle_minutes", 1)
    job = running(alice, rule, gpus=1)
    sampled(job, 1.0, minutes=1)
    GpuRollup.objects.update(at=timezone.now() - timedelta(seconds=70))
    idle.watch()
    assert event_kinds(job).count("job.idle") == 1


@pytest.mark.parametrize(
    ("percent", "minutes", "busy_gpu", "why"),
    [
        (50.0, 40, None, "it works"),
        (1.0, 40, 60.0, "one of its GPUs works"),
        (1.0, 5, None, "samples of most of the time are missing"),
        (1.0, 0, None, "there are no samples"),
    ],
)
def test_a_job_is_left_alone_without_evidence(alice, rule, percent, minutes, busy_gpu, why):
    job = running(alice, rule, gpus=2)
    sampled(job, percent, minutes=minutes, busy_gpu=busy_gpu)
    warned_for(job, 600) if not minutes else None
    idle.watch()
    assert fresh(job).stop_requested_at is None, why
    assert "job.idle" not in event_kinds(job)


def test_a_job_has_a_grace_after_its_start_and_after_each_new_placement(alice, rule):
    job = running(alice, rule, minutes=25)
    sampled(job, 0.0, minutes=25)
    idle.watch()
    assert "job.idle" not in event_kinds(job)
    job = running(alice, rule)
    sampled(job, 0.0)
    warned_for(job, 90)  # by an earlier attempt: this one was placed an hour ago
    idle.watch()
    assert fresh(job).stop_requested_at is None
    assert event_kinds(job).count("job.idle") == 1


def test_a_warning_is_taken_back_when_the_gpus_work(alice, rule):
    job = running(alice, rule)
    sampled(job, 80.0)
    warned_for(job, 11)
    idle.watch()
    assert fresh(job).idle_warned_at is None
    assert fresh(job).stop_requested_at is None
    assert "job.idle_over" in event_kinds(job)


def test_a_rule_without_a_stop_only_warns_and_no_rule_does_nothing(alice, rule):
    set_limit(None, rule, "idle_stop_minutes", 0)
    job = running(alice, rule)
    sampled(job, 0.0)
    idle.watch()
    warned_for(job, 50)
    idle.watch()
    assert fresh(job).stop_requested_at is None
    set_limit(None, rule, "idle_minutes", 0)
    other = running(alice, rule)
    sampled(other, 0.0)
    idle.watch()
    assert "job.idle" not in event_kinds(other)


def test_a_vc_admin_exempts_a_job(alice, rule):
    boss = make_user("boss")
    rule.memberships.create(user=boss, role="admin")
    job = running(alice, rule)
    sampled(job, 0.0)
    warned_for(job, 11)
    path = f"/jobs/{job.pk}/idle-exemption"
    assert refusal(Api(alice).put(path, {"exempt": True})) == (403, "may_not_exempt")
    assert Api(boss).put(path, {"exempt": True}).json()["idle_exempt"] is True
    idle.watch()
    assert fresh(job).stop_requested_at is None
    assert Api(boss).put(path, {"exempt": False}).json()["idle_exempt"] is False
    idle.watch()
    assert fresh(job).stop_requested_at is None  # it is warned again first


def test_a_round_costs_the_same_however_many_jobs(alice, rule):
    counts = []
    for _ in range(2):
        for _ in range(2):
            sampled(running(alice, rule), 0.0)
        with CaptureQueriesContext(connection) as captured:
            idle.watch()
        counts.append(len(captured))
    assert counts[0] == counts[1]
