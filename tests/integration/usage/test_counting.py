"""The rows of usage equal a naive recount of the leases, after any history of counting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module

import pytest
from django.db import connection, transaction
from django.db.models import Max, Min, Sum
from django.test.utils import CaptureQueriesContext
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.at_once import at_once
from tests.support.gateway_server import wait_until
from tests.support.usage_history import DAY, START, Key, UsageHistory, recount

from skep_platform.core.bulk import fetch
from skep_platform.jobs.lifecycle import preempting
from skep_platform.jobs.models import Job, Lease, TaskAttempt
from skep_platform.usage import counting
from skep_platform.usage.models import JobUsage, UsageDay, UsageRollup

pytestmark = pytest.mark.django_db

HAPPENINGS = (
    *(UsageHistory.pass_time,) * 4,
    *(UsageHistory.submit, UsageHistory.start, UsageHistory.start),
    *(UsageHistory.end_task, UsageHistory.preempt, UsageHistory.change_rank),
    *(UsageHistory.sample, UsageHistory.set_clock_back),
)
COUNTS = ("count", "measure", "twice", "killed")


class _KilledError(Exception):
    pass


def rows() -> dict[Key, tuple[int, int, int]]:
    return {
        Key(row.job_id, row.day, row.gpu_model, row.guaranteed): (
            row.allocated_us,
            row.used_us,
            row.known_us,
        )
        for row in UsageDay.objects.all()
    }


def count_as(how: str, history: UsageHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in one of the ways in which the task may run."""
    if how == "killed":
        with monkeypatch.context() as patch:
            patch.setattr(counting, "_mark", _die)
            patch.setattr(counting, "LEASES", 3)
            with suppress(_KilledError):  # none where nothing was due
                counting.count(history.now, measure=True)
        return
    for _ in range(2 if how == "twice" else 1):
        counting.count(history.now, measure=how == "measure")


def _die(rows: object) -> None:
    raise _KilledError


# An example takes a second: the smallest failing one is not searched for.
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(st.sampled_from((*HAPPENINGS, *COUNTS)), min_size=5, max_size=60),
)
def test_rows_equal_a_recount_of_the_leases_to_the_microsecond(seed, steps):
    with pytest.MonkeyPatch.context() as monkeypatch, rolled_back():
        history = UsageHistory(seed)
        history.submit()
        for step in steps:
            if isinstance(step, str):
                count_as(step, history, monkeypatch)
            else:
                step(history)

        counting.count(history.now)
        expected = recount(history.now)
        counted = rows()
        assert_rollups()
        assert {key: row[0] for key, row in counted.items()} == {
            key: row[0] for key, row in expected.items()
        }

        counting.count(history.now, measure=True)
        assert_same_use(rows(), expected)

        for job in list(history.held):
            while history.held[job]:
                history._release(history.held[job].pop())
        history.now += timedelta(days=3)
        counting.count(history.now)
        assert_same_use(rows(), recount(history.now))
        assert_sums(history.now)
        assert_rollups()
        assert not Lease.objects.filter(counted_until=None).exists()
        assert counting.count(history.now + DAY) == 0  # all of it is counted for good


def assert_rollups() -> None:
    """Each sum that the triggers keep is that of the days."""
    fields = ("gpu_model", "guaranteed", "allocated_us", "used_us", "known_us")
    expected: dict[object, list[int]] = defaultdict(lambda: [0, 0, 0])
    for day, user, vc, model, own, *sums in UsageDay.objects.values_list(
        "day", "user_id", "vc_id", *fields
    ):
        for span in ((False, day), (True, day.replace(day=1))):
            for of in ((user, vc), (None, vc), (None, None)):
                key = (*span, *of, model, own)
                expected[key] = [a + b for a, b in zip(expected[key], sums, strict=True)]
    rollups = UsageRollup.objects.exclude(allocated_us=0, used_us=0, known_us=0)
    stored = {
        tuple(row[:6]): list(row[6:])
        for row in rollups.values_list("monthly", "day", "user_id", "vc_id", *fields)
    }
    assert stored == expected

    jobs = {
        row.job_id: (row.first_day, row.last_day, row.allocated_us, row.used_us, row.idle_us)
        for row in JobUsage.objects.all()
    }
    sums = (
        UsageDay.objects.filter(job__isnull=False)
        .values("job_id")
        .annotate(
            first=Min("day"),
            last=Max("day"),
            all=Sum("allocated_us"),
            used=Sum("used_us"),
            idle=Sum("known_us") - Sum("used_us"),
        )
    )
    assert jobs == {
        row["job_id"]: (row["first"], row["last"], row["all"], row["used"], row["idle"])
        for row in sums
    }


def assert_same_use(counted, expected) -> None:
    assert counted.keys() == expected.keys()
    for key, (allocated, used, known) in expected.items():
        assert counted[key][0] == allocated
        assert abs(counted[key][1] - used) < 1_000_000, key  # a second
        assert counted[key][2] == known


def assert_sums(now) -> None:
    """By job, user, virtual cluster, model and day."""
    expected = recount(now)
    owners = dict(Job.objects.values_list("pk", "owner_id"))
    vcs = dict(Job.objects.values_list("pk", "vc_id"))
    for column, of in {
        "job_id": lambda key: key.job,
        "user_id": lambda key: owners[key.job],
        "vc_id": lambda key: vcs[key.job],
        "gpu_model": lambda key: key.gpu_model,
        "day": lambda key: key.day,
    }.items():
        naive: dict[object, int] = defaultdict(int)
        for key, (allocated, *_) in expected.items():
            naive[of(key)] += allocated
        stored: dict[object, int] = defaultdict(int)
        for value, allocated in UsageDay.objects.values_list(column, "allocated_us"):
            stored[value] += allocated
        assert stored == naive, column


@contextmanager
def rolled_back() -> Iterator[None]:
    """Each example begins with empty tables."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def held(seed: int = 7) -> UsageHistory:
    """A history in which one or two jobs hold GPUs."""
    history = UsageHistory(seed)
    for _ in range(2):
        history.submit()
        history.start()
    assert Lease.objects.exists()
    return history


def test_uncounted_leases_are_found_by_their_index():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + counting.NEXT, [0, 10])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "lease_uncounted" in plan


def test_a_round_costs_the_same_however_many_jobs():
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            counting.count(START + DAY, measure=True)
        return len(captured)

    history = held()
    one = queries()
    for _ in range(5):
        history.preempt()
        history.start()
    assert queries() == one


def test_a_lease_that_is_counted_for_good_is_not_read_again():
    history = held()
    history.now += DAY
    while any(history.held.values()):
        history.preempt()
    jobs = Job.objects.filter(attempts__leases__isnull=False).distinct().count()
    assert counting.count(history.now + timedelta(minutes=1)) == jobs
    assert counting.count(history.now + timedelta(minutes=6)) == jobs
    assert counting.count(history.now + timedelta(minutes=7)) == 0


def test_a_day_is_split_at_midnight_utc():
    history = held()
    midnight = START.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
    Lease.objects.update(acquired_at=midnight - timedelta(seconds=100))
    counting.count(midnight + timedelta(seconds=1))
    gpus = Lease.objects.count()
    days = dict(UsageDay.objects.values_list("day").annotate(all=Sum("allocated_us")))
    assert days == {
        START.date(): gpus * 100_000_000,
        midnight.date(): gpus * 1_000_000,
    }
    assert history.held


def test_a_downgraded_job_borrows_until_it_is_restored():
    history = UsageHistory(1)
    history.submit()
    while not history.held:
        history.start()
    job = history.jobs[0]
    TaskAttempt.objects.update(cell_type="A-NODE")
    Job.objects.filter(pk=job.pk).update(state="RUNNING", placed_at=START, attempt=1)
    why = {"code": "cells_changed", "message": "Its cells went.", "details": {}}
    with transaction.atomic():
        preempting.downgrade({job.pk: why}, START + timedelta(seconds=10))
        preempting.downgrade({job.pk: why}, START + timedelta(seconds=12))  # it is already
        preempting.restore([job.pk], START + timedelta(seconds=30))
    counting.count(START + timedelta(seconds=100))
    gpus = Lease.objects.count()
    by_class = UsageDay.objects.values_list("guaranteed").annotate(all=Sum("allocated_us"))
    assert dict(by_class) == {True: gpus * 80_000_000, False: gpus * 20_000_000}


class TestOldDays:
    def test_are_kept_by_user_and_virtual_cluster_only(self, settings):
        history = held()
        counting.count(START + DAY * 2)
        before = UsageDay.objects.aggregate(all=Sum("allocated_us"))
        settings.SKEP_USAGE_JOB_RETENTION_DAYS = 1
        today = (START + DAY * 2).date()
        assert counting.merge_old_days(today) == 1
        assert counting.merge_old_days(today) == 0
        assert UsageDay.objects.aggregate(all=Sum("allocated_us")) == before
        assert not UsageDay.objects.filter(day=START.date(), job__isnull=False).exists()
        assert UsageDay.objects.filter(day=today, job__isnull=False).exists()
        assert_rollups()
        assert history.held

    def test_are_merged_and_deleted_a_few_rows_at_a_time(self, settings, monkeypatch):
        monkeypatch.setattr(counting, "ROWS", 1)
        for _ in range(3):
            held()
        counting.count(START + DAY * 2)
        before = UsageDay.objects.aggregate(all=Sum("allocated_us"))
        settings.SKEP_USAGE_JOB_RETENTION_DAYS = 1
        today = (START + DAY * 2).date()
        assert counting.merge_old_days(today) == 1
        assert UsageDay.objects.aggregate(all=Sum("allocated_us")) == before
        assert not UsageDay.objects.filter(day=START.date(), job__isnull=False).exists()
        assert_rollups()
        settings.SKEP_USAGE_RETENTION_DAYS = 1
        old = UsageDay.objects.filter(day=START.date()).count()
        with CaptureQueriesContext(connection) as queries:
            assert counting.delete_old_days(today) == old > 1
        deletes = [one["sql"] for one in queries if "DELETE FROM usage_usageday" in one["sql"]]
        assert len(deletes) == old + 1, "each deletes one row, the last one none"
        assert not UsageRollup.objects.filter(allocated_us=0).exists()
        assert_rollups()

    def test_are_deleted_where_that_is_set(self, settings):
        held()
        counting.count(START + DAY * 2)
        assert counting.delete_old_days((START + DAY * 9).date()) == 0
        settings.SKEP_USAGE_RETENTION_DAYS = 1
        counting.delete_old_days((START + DAY * 2).date())
        assert not UsageDay.objects.filter(day=START.date()).exists()
        assert UsageDay.objects.exists()
        assert not UsageRollup.objects.filter(allocated_us=0).exists()
        assert_rollups()


@pytest.mark.django_db(transaction=True)
def test_the_migration_sums_what_there_was_before_the_sums():
    history = held()
    counting.count(START + DAY * 40)
    expected = list(UsageRollup.objects.order_by("id").values_list("day", "allocated_us"))
    UsageRollup.objects.filter(monthly=False).delete()
    UsageRollup.objects.update(allocated_us=7)  # as a migration that was stopped left them
    JobUsage.objects.all().delete()
    migration = import_module("skep_platform.usage.migrations.0005_sum_old_days")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(migration, "JOBS", 1)
        with connection.schema_editor(atomic=False) as editor:
            migration.sum_old_days(None, editor)
    assert history.held
    assert UsageRollup.objects.count() == len(expected)
    assert_rollups()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", [UsageDay, UsageRollup, JobUsage])
def test_a_deletion_waits_for_a_count(model):
    """By cascade it would lock rows in another order than a count does."""
    history = held()
    counting.count(START + timedelta(minutes=1))

    def delete() -> None:
        try:
            model.objects.filter(vc__isnull=False).delete()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            counting.count(START + timedelta(minutes=2))
            deletion = pool.submit(delete)
            wait_until(lambda: deletion.done() or is_waited_for(counting.LOCK), "the deletion")
            assert not deletion.done()
            counting.count(START + timedelta(minutes=3))  # the rows are free
        deletion.result()
    assert history.held
    assert not model.objects.filter(vc__isnull=False).exists()


def is_waited_for(lock: int) -> bool:
    return bool(fetch(WAITING, [lock])[0][0])


WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
 WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted AND objid = %s
"""


@pytest.mark.django_db(transaction=True)
def test_rounds_at_once_count_once():
    history = held()
    history.now += timedelta(hours=30)
    history.preempt()
    now = history.now + timedelta(minutes=10)
    at_once(*[lambda: counting.count(now, measure=True)] * 4)
    counting.count(now, measure=True)
    assert_same_use(rows(), recount(now))
    assert_rollups()
