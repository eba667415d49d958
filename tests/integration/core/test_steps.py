"""A step of a periodic task that fails keeps none of the others from running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import ProgrammingError, connection
from django.utils import timezone
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from tests.support.platform_factories import make_node

from skep_platform.cluster import services
from skep_platform.cluster import tasks as cluster
from skep_platform.cluster.models import JoinToken, MaintenanceState, MaintenanceWindow
from skep_platform.operations import tasks as operations
from skep_platform.telemetry import tasks as telemetry
from skep_platform.telemetry.models import GpuRollup

pytestmark = pytest.mark.django_db


@contextmanager
def broken(table: str) -> Iterator[None]:
    """Have every statement about a table fail, as one whose index is corrupt."""

    def run(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if table in sql:
            raise ProgrammingError(f"{table} is broken")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(run):
        yield


def failures(task: str, step: str) -> float:
    labels = {"task": task, "step": step}
    return REGISTRY.get_sample_value("skep_task_step_failures_total", labels) or 0.0


def test_maintenance_begins_while_faults_cannot_be_read(settings):
    settings.SKEP_CORDON_FAULTS = 3
    node, now = make_node("n1"), timezone.now()
    window = MaintenanceWindow.objects.create(
        node=node, starts_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1)
    )
    labels = "skep.cluster.reconcile", "faults.cordon_faulty"
    before = failures(*labels)
    with (
        broken("cluster_nodefault"),
        capture_logs() as logs,
        pytest.raises(ProgrammingError, match="cluster_nodefault is broken"),
    ):
        cluster.reconcile()
    window.refresh_from_db()
    assert window.state == MaintenanceState.ACTIVE
    assert failures(*labels) == before + 1
    [line] = [one for one in logs if one["event"] == "task_step_failed"]
    assert (line["name"], line["step"]) == labels


@pytest.mark.django_db(transaction=True)
def test_join_tokens_are_forgotten_while_alerts_cannot_be_deleted():
    services.issue_join_token(None, 60)
    JoinToken.objects.update(expires_at=timezone.now() - timedelta(days=31))
    with broken("operations_alert"), pytest.raises(ProgrammingError):
        operations.tidy()
    assert not JoinToken.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_old_samples_are_deleted_while_scores_of_predictions_cannot_be():
    long_ago = timezone.now() - timedelta(days=2000)
    GpuRollup.objects.create(
        device=make_node("n1", gpus=1).devices.get(),
        at=long_ago,
        seconds=60,
        samples=1,
        utilization_sum=1.0,
        utilization_max=1.0,
        memory_used_mb_max=1,
    )
    with broken("telemetry_predictionday"), pytest.raises(ProgrammingError):
        telemetry.delete_old_rollups()
    assert not GpuRollup.objects.exists()
