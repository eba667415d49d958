"""The Celery application: queue `scheduler` is consumed one at a time, `default` in parallel.

What a worker logs names its task, and the request that sent it.
"""

from __future__ import annotations

import os
from typing import Any

import structlog
from celery import Celery
from celery.signals import before_task_publish, task_failure, task_postrun, task_prerun

from skep_agent import tracing
from skep_platform.core import consuming, failures, metrics

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")

REQUEST_ID = "skep_request_id"  # header of a task's message

app = Celery("skep")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
metrics.measure_tasks()
consuming.install(app)
tracing.name_service("skep-worker")


@before_task_publish.connect
def _pass_request_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    if headers is not None and request_id:
        headers[REQUEST_ID] = request_id


@task_prerun.connect
def _name_task(task: Any = None, task_id: str = "", **_: Any) -> None:
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=task.name, task_id=task_id)
    if request_id := task.request.get(REQUEST_ID):
        structlog.contextvars.bind_contextvars(request_id=request_id)


@task_postrun.connect
def _forget_task(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


@task_failure.connect
def _leave_read_only(exception: BaseException | None = None, **_: Any) -> None:
    if exception is not None:
        failures.leave_if_read_only(exception)
