"""The clock of one server process jumps: what it writes of leases is dated by the database, and no
other process takes a task for late because of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
import time_machine
from django.utils import timezone
from tests.support.jobs_world import (
    attempts_of,
    placed,
    report,
    state_of,
    states_of,
    submit,
    tick,
)
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cells.services import drain
from skep_platform.core.bulk import database_time
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle import repair
from skep_platform.jobs.models import Job, JobAttempt, Lease
from skep_platform.usage import counting
from skep_platform.usage.models import UsageDay

pytestmark = pytest.mark.django_db
JUMPS = [timedelta(days=2), timedelta(hours=2), timedelta(hours=-2)]


@pytest.fixture
def world(db):
    alice = make_user("alice")
    make_node("gpu-1", gpus=2)
    return alice, make_vc("vision", quotas={"A100": 2}, members=[alice])


@contextmanager
def clock(jump: timedelta) -> Iterator[None]:
    """Let the clock of this process, but not that of the database, be wrong by so much."""
    with time_machine.travel(timezone.now() + jump, tick=True):
        yield


def is_between(before: datetime, at: datetime | None, after: datetime) -> bool:
    return at is not None and before <= at <= after


@pytest.mark.parametrize("jump", JUMPS)
def test_a_lease_is_taken_by_the_time_of_the_database(world, jump):
    before = database_time()
    with clock(jump):
        job = placed(*world)
    after = database_time()
    [attempt], [lease] = attempts_of(job), Lease.objects.all()
    assert is_between(before, lease.acquired_at, after)
    assert is_between(before, attempt.created_at, after)
    assert is_between(before, job.placed_at, after)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_task_that_was_placed_by_a_wrong_clock_is_not_late(world, jump):
    with clock(jump):
        job = placed(*world, instances=2, skep={"barrier": 60})
    repair.reconcile()
    assert states_of(job) == ["ASSIGNED", "ASSIGNED"]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_lease_is_given_back_by_the_time_of_the_database(world, jump):
    job = placed(*world)
    [attempt] = attempts_of(job)
    before = database_time()
    with clock(jump):
        report(attempt, "running", "exited", "released")
    after = database_time()
    [lease] = Lease.objects.all()
    assert state_of(job) == "SUCCEEDED"
    assert is_between(before, lease.released_at, after)
    assert is_between(before, attempts_of(job)[0].released_at, after)
    assert is_between(before, Job.objects.get(pk=job.pk).finished_at, after)


@pytest.mark.parametrize("jump", JUMPS)
def test_usage_counts_no_time_of_a_wrong_clock(world, jump):
    before = database_time()
    with clock(jump):
        job = placed(*world)
        counting.count()
    [attempt] = attempts_of(job)
    with clock(-jump):
        report(attempt, "running", "exited", "released")
        counting.count()
    elapsed = database_time() - before
    counted = sum(UsageDay.objects.values_list("allocated_us", flat=True))
    assert 0 < counted <= elapsed / timedelta(microseconds=1)
    assert Lease.objects.get().counted_until is None  # it has ended just now


@pytest.mark.parametrize("jump", JUMPS)
def test_a_stopped_job_ends_by_the_time_of_the_database(world, jump):
    job = placed(*world)
    before = database_time()
    report(attempts_of(job), "running", "exited", exit_code=1)
    with clock(jump):
        services.stop(world[0], job.pk)
    after = database_time()
    ended = JobAttempt.objects.get(job=job)
    assert (state_of(job), ended.outcome) == ("STOPPED", "STOPPED")
    assert is_between(before, ended.finished_at, after)
    assert is_between(before, Job.objects.get(pk=job.pk).stop_requested_at, after)


# A scheduler whose clock is behind asks none that has only just begun.
LEAVING = [(how, jump) for how in ("drain", "move", "reserve") for jump in JUMPS]


@pytest.mark.parametrize(("how", "jump"), LEAVING[:-1])
def test_a_job_is_asked_to_leave_by_the_time_of_the_database(world, how, jump):
    alice, vc = world
    job = placed(alice, vc, gpus=2)
    report(attempts_of(job), "running")
    before = database_time()
    with clock(jump):
        if how == "drain":
            drain(None, "gpu-1")
        elif how == "move":
            services.move(alice, job.pk, "gpu-1")
        else:
            submit(alice, vc, gpus=2, priority="prod")
            tick()
    assert is_between(before, Job.objects.get(pk=job.pk).preempting_at, database_time())
