"""A database that fails over while a request is under way: nothing is lost, nothing is done twice.

The backend ends just after it ran a statement that commits by itself, or just before the commit of
a transaction: as a client sees it, both look the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from tests.support.jobs_world import attempts_of, job_file, placed, report, state_of, submit
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.jobs.models import Job, Lease, TaskAttempt
from skep_platform.scheduling.tick import Scheduler, run_once

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def fails_over(after: str) -> Iterator[None]:
    """End the backend of this thread once, after the first statement that has these words."""
    ended: list[int] = []

    def run(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        found = execute(sql, params, many, context)
        if after in str(sql) and not ended:
            pid = connection.connection.info.backend_pid
            ended.append(pid)
            with psycopg.connect(_address(), autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            if not connection.in_atomic_block:
                execute("SELECT 1", None, False, context)  # the answer never comes
        return found

    try:
        with connection.execute_wrapper(run):
            yield
    finally:
        connection.close()  # as at the end of a request, or of a task
    assert ended, f"no statement has {after}"


def _address() -> str:
    known = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return psycopg.conninfo.make_conninfo(**{n: known[n] for n in names if known.get(n)})


@pytest.fixture
def world():
    alice = make_user("alice")
    make_node("n1", gpus=8)
    return alice, make_vc("vision", quotas={"A100": 8}, members=[alice])


@pytest.mark.parametrize("kind", ["submit", "with a dependency", "clone", "run again", "batch"])
def test_a_request_that_is_sent_again_with_its_key_makes_one_job(world, kind):
    alice, vc = world
    source = submit(alice, vc, name="source")
    file = job_file(vc, name="new")
    if kind == "with a dependency":
        file["extras"]["skep"] = {"dependsOn": [{"job": "source"}]}
    path, body = {
        "clone": (f"/jobs/{source.pk}/clone", {}),
        "run again": (f"/jobs/{source.pk}/run-again", {"elsewhere": True}),
        "batch": ("/jobs/batch", {"files": [json.dumps(file)]}),
    }.get(kind, ("/jobs", file))
    api = Api(alice)
    api.client.raise_request_exception = False

    def ask() -> Any:
        return api.post(path, body, HTTP_IDEMPOTENCY_KEY="k1")

    with fails_over('INSERT INTO "jobs_job"'):
        answer = ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert ask().status_code in (200, 201)
    assert Job.objects.count() == 2
    new = Job.objects.exclude(pk=source.pk).get()
    assert (new.roles.count(), new.tasks.count()) == (1, 1)


def test_a_gang_is_placed_once(world):
    job = submit(*world)
    scheduler = Scheduler()
    with fails_over('INSERT INTO "jobs_lease"'), pytest.raises(OperationalError):
        run_once(scheduler)
    run_once(scheduler)  # at once: the gang is to blame for nothing
    assert TaskAttempt.objects.filter(job=job).count() == 1
    assert Lease.objects.filter(released_at=None).count() == job.gpus


def test_facts_that_are_sent_again_are_stored_once(world):
    job = placed(*world)
    (attempt,) = attempts_of(job)
    with fails_over("FOR NO KEY UPDATE OF j, a"), pytest.raises(OperationalError):
        report(attempt, "running")
    report(attempt, "running", "exited", "released", exit_code=0)
    report(attempt, "running", "exited", "released", exit_code=0)
    assert state_of(job) == "SUCCEEDED"
    assert not Lease.objects.filter(released_at=None).exists()
