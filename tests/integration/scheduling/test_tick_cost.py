"""A round costs what changed, and not how long the queue is: statements, rows and calls."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import attempts_of, report, submit
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.jobs.models import Job
from skep_platform.scheduling import planned, tick
from skep_platform.scheduling.tick import Scheduler, run_once

pytestmark = pytest.mark.django_db

SHORT, LONG = 20, 300


def test_a_round_costs_the_same_behind_a_queue_of_20_and_of_300_gangs(monkeypatch):
    # Time lines and new numbers have a share of the time, however long the queue is.
    monkeypatch.setattr(planned, "TIMELINES_SHARE", 1e-9)
    monkeypatch.setattr(tick, "REFRESH_S", 1e6)
    short, long = _costs(SHORT, "short"), _costs(LONG, "long")
    for what, (statements, calls) in long.items():
        assert statements <= short[what][0], (what, short[what], long[what])
        assert calls < 1.3 * short[what][1], (what, short[what], long[what])


def _costs(waiting: int, name: str) -> dict[str, tuple[int, int]]:
    """Return the statements and the calls of rounds after one change each, in a virtual cluster
    whose GPUs are in use and in which so many gangs wait."""
    alice = make_user(f"alice-{name}")
    make_node(f"node-{name}", gpus=4)
    vc = make_vc(name, quotas={"A100": 3}, members=[alice])
    spare = make_vc(f"{name}-spare", quotas={"A100": 1}, members=[alice])
    scheduler = Scheduler()
    running = [submit(alice, vc) for _ in range(3)]
    assert len(run_once(scheduler)) == 3
    _copy(submit(alice, vc), waiting - 1)
    for _ in range(3):
        run_once(scheduler)
    assert len(scheduler.source.state.waiting) == waiting

    found = {"quiet": _cost(scheduler)}
    submit(alice, spare)
    found["another starts"] = _cost(scheduler, placed=1)
    submit(alice, vc)
    found["one more waits"] = _cost(scheduler)
    report(attempts_of(running[0]), "running", "exited", "released")
    found["one ends"] = _cost(scheduler, placed=1)
    Job.objects.all().delete()
    return found


def _cost(scheduler: Scheduler, placed: int = 0) -> tuple[int, int]:
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    with CaptureQueriesContext(connection) as captured:
        sys.setprofile(count)
        try:
            found = run_once(scheduler)
        finally:
            sys.setprofile(None)
    assert len(found) == placed
    return len(captured), calls


def _copy(job: Job, times: int) -> None:
    """Insert so many jobs like one that waits, as other submits would."""
    with connection.cursor() as cursor:
        cursor.execute(COPY, {"job": job.pk, "times": times})


COPY = """
WITH made AS (
    INSERT INTO jobs_job
    SELECT (jsonb_populate_record(j, jsonb_build_object(
               'id', gen_random_uuid(), 'name', j.name || '-' || n))).*
      FROM jobs_job j, generate_series(1, %(times)s) n WHERE j.id = %(job)s
    RETURNING id
), roles AS (
    INSERT INTO jobs_taskrole
    SELECT (jsonb_populate_record(r, jsonb_build_object('job_id', made.id, 'id',
               nextval(pg_get_serial_sequence('jobs_taskrole', 'id'))))).*
      FROM jobs_taskrole r, made WHERE r.job_id = %(job)s
    RETURNING id, job_id
)
INSERT INTO jobs_task
SELECT (jsonb_populate_record(t, jsonb_build_object('job_id', roles.job_id, 'role_id', roles.id,
           'id', nextval(pg_get_serial_sequence('jobs_task', 'id'))))).*
  FROM jobs_task t, roles WHERE t.job_id = %(job)s
"""
