"""Every table stays bounded, and says by what."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from celery import current_app
from django.apps import apps
from django.conf import settings
from django.utils import timezone
from tests.support.gateway_rows import running_attempt
from tests.support.platform_factories import make_node, make_user

from skep_platform import schedule
from skep_platform.accounts.tokens import create_token
from skep_platform.audit import services as audit
from skep_platform.cluster import faults, services
from skep_platform.cluster.models import (
    JoinToken,
    MaintenanceState,
    MaintenanceWindow,
    NodeFault,
)
from skep_platform.core.events import record
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.notifications.models import Notification
from skep_platform.operations import retention, tasks
from skep_platform.telemetry.models import GpuRollup

GROUPS = (
    retention.BOUNDED_BY_SIZE,
    retention.WHILE_A_JOB_LASTS,
    frozenset(retention.DELETED_BY),
    retention.KEPT_WITH_THE_JOB,
)


def own_models() -> set[str]:
    return {
        model._meta.label
        for model in apps.get_models()
        if model.__module__.startswith("skep_platform.")
    }


def test_every_model_says_what_keeps_it_bounded():
    assert own_models() == retention.known()
    assert sum(map(len, GROUPS)) == len(retention.known())


def test_what_is_deleted_has_a_task_that_runs_and_a_setting_that_exists():
    scheduled = schedule.tasks(settings.CELERY_BEAT_SCHEDULE)
    for model, (task, when) in retention.DELETED_BY.items():
        assert task in scheduled, model
        assert hasattr(settings, when) or not when.startswith("SKEP_"), model


@pytest.mark.django_db
def test_a_worker_whose_clock_is_years_ahead_deletes_nothing(monkeypatch):
    user, node, now = make_user(), make_node("n1"), timezone.now()
    audit.record("backup.record", "backup", uuid4(), "b")
    record("node", node.pk, "node.lost", "Lost.")
    create_token(user, "laptop")
    faults.add([NodeFault(node=node, at=now, code=1, name="x", attempt_id=uuid4())])
    Notification.objects.create(user=user, event="job.failed", items=[], open_until=now)
    attempt = running_attempt(node, gpus=1)
    use = {"samples": 1, "utilization_sum": 1, "utilization_max": 1, "memory_used_mb_max": 1}
    GpuRollup.objects.create(
        device_id=attempt.gpu_uuids[0], attempt=attempt, at=now, seconds=60, **use
    )
    ended = running_attempt(node, gpus=0).job
    Job.objects.filter(pk=ended.pk).update(state=JobState.SUCCEEDED, finished_at=now)
    before = counts()
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(days=10_000))
    current_app.loader.import_default_modules()
    for task in sorted({task for task, _ in retention.DELETED_BY.values()}):
        current_app.tasks[task].run()
    assert {model: n for model, n in before.items() if counts()[model] < n} == {}
    assert Job.objects.get(pk=ended.pk).logs_deleted_at is None


def counts() -> dict[str, int]:
    return {m: apps.get_model(m).objects.count() for m in sorted(retention.DELETED_BY)}


@pytest.mark.django_db
def test_old_faults_windows_and_tokens_that_nothing_can_use_are_deleted(settings):
    node, now = make_node("n1"), timezone.now()
    settings.SKEP_EVENT_RETENTION_DAYS = 30
    faults.add(
        NodeFault(node=node, at=now - timedelta(days=days), code=1, name="x", attempt_id=uuid4())
        for days in (29, 31)
    )
    for _ in range(2):
        services.issue_join_token(None, 60)
    used_up, expired = JoinToken.objects.order_by("pk")[:2]
    JoinToken.objects.exclude(pk__in=[used_up.pk, expired.pk]).delete()
    JoinToken.objects.filter(pk=expired.pk).update(expires_at=now - timedelta(days=31))
    for days in (29, 31):
        MaintenanceWindow.objects.create(
            node=node,
            starts_at=now - timedelta(days=days + 1),
            ends_at=now - timedelta(days=days),
            state=MaintenanceState.ENDED,
        )
    tasks.tidy()
    assert MaintenanceWindow.objects.count() == 1
    assert NodeFault.objects.count() == 1
    assert [token.pk for token in JoinToken.objects.all()] == [used_up.pk]
