"""A job of 2,000 tasks: as many queries as one of two, whatever happens to it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, explain, fact, placed
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.jobs import services
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs():
    """Of 2 and of 2,000 tasks, on one node."""
    alice = make_user("alice")
    vc = make_vc("big", quotas={"A100": 0}, members=[alice])
    make_node("cpu-1", gpus=0, cpus=2100, memory_mb=4_000_000)
    small = {"gpus": 0, "memory_mb": 512, "retries": 1}
    return placed(alice, vc, instances=2, **small), placed(alice, vc, instances=2000, **small)


def queries_for(job, *phases: str, **fields) -> int:
    attempts = attempts_of(job)
    batch = [fact(attempt, phase, **fields) for attempt in attempts for phase in phases]
    with CaptureQueriesContext(connection) as captured:
        services.apply_facts(attempts[0].node_id, batch)
    return len(captured)


LIVES = {
    "ready": [("pulling", "creating", "ready")],
    "running": [("ready",), ("running",)],
    "succeeded": [("running",), ("exited",), ("released",)],
    "failed": [("running",), ("exited",)],
    "failed to start": [("failed",), ("released",)],
}


@pytest.mark.parametrize("life", LIVES)
def test_facts(jobs, life):
    for phases in LIVES[life]:
        fields = {
            "exited": {"exit_code": int(life != "succeeded")},
            "failed": {"error_code": "engine_down"},
            "pulling": {"pull_percent": 30},
        }.get(phases[0], {})
        few, many = (queries_for(job, *phases, **fields) for job in jobs)
        assert many <= few <= 20, phases


@pytest.mark.parametrize("number", [1, 5])
def test_jobs_of_one_task_are_read_once_and_written_once_for_each_batch(number):
    alice = make_user("alice")
    vc = make_vc("small", quotas={"A100": 8}, members=[alice])
    node = make_node("gpu-1", gpus=8)
    ids = [job.pk for job in (placed(alice, vc) for _ in range(number))]
    attempts = list(TaskAttempt.objects.filter(job__in=ids))
    batches = {
        "creating": ({}, "WAITING"),
        "running": ({}, "RUNNING"),
        "exited": ({"exit_code": 0}, "SUCCEEDED"),
        "released": ({}, "SUCCEEDED"),
    }
    for phase, (fields, state) in batches.items():
        batch = [fact(attempt, phase, **fields) for attempt in attempts]
        with CaptureQueriesContext(connection) as captured:
            services.apply_facts(node.pk, batch)
        read, *written = [q["sql"] for q in captured if "SAVEPOINT" not in q["sql"]]
        assert "FOR NO KEY UPDATE" in read
        assert len(written) == 1, (phase, written)
        assert set(Job.objects.values_list("state", flat=True)) == {state}


def test_an_answer(jobs):
    counts = []
    for job in jobs:
        queries_for(job, "running")
        queries_for(job, "exited", "released", exit_code=1)
        with CaptureQueriesContext(connection) as captured:
            assert explain(job)
        counts.append(len(captured))
    assert counts[1] <= counts[0] <= 20
    assert set(Job.objects.values_list("state", flat=True)) == {"WAITING"}


def test_a_barrier_that_is_over(jobs):
    counts = []
    for job in jobs:
        for attempt in attempts_of(job)[:1]:
            services.apply_facts(attempt.node_id, [fact(attempt, "ready")])
        late = timezone.now() - timedelta(seconds=700)
        Job.objects.filter(pk=job.pk).update(placed_at=late)
        with CaptureQueriesContext(connection) as captured:
            services.reconcile()
        counts.append(len(captured))
    few, many = counts
    assert many <= few + 2  # it looks at the small one again, too
    failed = TaskAttempt.objects.filter(error_code="barrier_timeout")
    assert failed.count() == 2000
