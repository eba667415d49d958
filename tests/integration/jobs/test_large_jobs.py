"""A job of 2,000 tasks: as many queries as for one task, whatever is asked."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc, place

from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.submission import admission

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _limits_read_anew(monkeypatch):
    monkeypatch.setattr(admission, "_remembered", (-admission.LIMITS_FRESH_S, None))


@pytest.fixture
def api():
    alice = make_user("alice")
    make_vc("vision", members=[alice])
    return Api(alice)


def queries(send) -> int:
    with CaptureQueriesContext(connection) as captured:
        answer = send()
    assert answer.status_code < 300, answer.content
    return len(captured)


def job_text(instances: int) -> str:
    spec = job_file("vision", name=f"tasks-{instances}", gpus=0, instances=instances)
    spec["secrets"] = {"p": "x"}
    spec["extras"]["skep"] = {"environment": {"A": "<% $secrets.p %>"}}
    return json.dumps(spec)


def placed(job: Job, node) -> None:
    """All of its tasks, on one node."""
    Job.objects.filter(pk=job.pk).update(attempt=1, state="RUNNING", placed_at=timezone.now())
    first = place(job, [], node=node, state="RUNNING")
    others = job.tasks.exclude(pk=first.task_id)
    rows = [
        TaskAttempt(
            job=job, task=task, role_id=task.role_id, node=node, index=first.index,
            epoch=first.epoch, state=first.state, network=first.network,
        )
        for task in others
    ]  # fmt: skip
    TaskAttempt.objects.bulk_create(rows, batch_size=500)


def test_submit_detail_tasks_events_and_stop(api):
    node = make_node("n", gpus=1, cpus=2000, memory_mb=2_048_000)
    counts = []
    for instances in (1, 2000):
        text = job_text(instances)
        count = [
            queries(
                lambda text=text: api.client.post(
                    "/api/v1/jobs", text, content_type="application/json"
                )
            )
        ]
        job = Job.objects.get(name=f"tasks-{instances}")
        placed(job, node)
        job_path = f"/jobs/{job.pk}"
        for path in ("", "/tasks?limit=200", "/tasks?state=RUNNING", "/events"):
            count.append(queries(lambda path=job_path + path: api.get(path)))
        count.append(queries(lambda path=job_path: api.post(f"{path}/stop")))
        counts.append(count)
        assert sum(api.get(job_path).json()["task_roles"][0]["states"].values()) == instances
    one, many = counts
    assert all(more <= few for few, more in zip(one, many, strict=True)), counts
    assert max(many) <= 20
