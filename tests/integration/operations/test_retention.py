"""Every table stays bounded, and says by what."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.utils import timezone
from tests.support.platform_factories import make_node

from skep_platform import schedule
from skep_platform.cluster import faults, services
from skep_platform.cluster.models import (
    JoinToken,
    MaintenanceState,
    MaintenanceWindow,
    NodeFault,
)
from skep_platform.operations import retention, tasks

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
