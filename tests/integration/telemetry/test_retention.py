"""Logs of jobs that ended long ago are deleted, files and rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.files.storage import storages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.clocks import every_clock_at
from tests.support.gateway_rows import frame, running_attempt
from tests.support.platform_factories import release

from skep_platform.core.errors import Gone, Unavailable
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JobState
from skep_platform.telemetry import download, retention
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.queries import Filter
from skep_platform.telemetry.services import append_logs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_week(settings):
    settings.SKEP_LOG_RETENTION_DAYS = 7


def wrote(chunks: int, *, days_ago: float | None) -> TaskAttempt:
    """An attempt with this many chunks, whose job ended then, if it did."""
    attempt = running_attempt(gpus=0)
    for number in range(chunks):
        append_logs(attempt.node_id, [frame(attempt, 4 * number, b"abc\n")])
    if days_ago is not None:
        release(attempt)
        ended = timezone.now() - timedelta(days=days_ago)
        Job.objects.filter(pk=attempt.job_id).update(state=JobState.SUCCEEDED, finished_at=ended)
    return attempt


def folder(attempt: TaskAttempt) -> Path:
    return Path(storages["logs"].path(str(attempt.job_id)))


def test_those_whose_time_is_over_and_no_others():
    old, young = wrote(3, days_ago=7.1), wrote(2, days_ago=6.9)
    living = wrote(1, days_ago=None)
    assert retention.delete_old_logs() == 1
    assert not folder(old).exists()
    kept = LogChunk.objects.values_list("attempt", flat=True)
    assert sorted(kept) == sorted([young.pk, young.pk, living.pk])
    assert all(
        storages["logs"].exists(key) for key in LogChunk.objects.values_list("key", flat=True)
    )
    found = dict(Job.objects.values_list("pk", "logs_deleted_at"))
    assert abs(found[old.job_id] - timezone.now()) < timedelta(minutes=1)
    assert found[young.job_id] is found[living.job_id] is None
    assert retention.delete_old_logs() == 0


@pytest.mark.django_db(transaction=True)
def test_a_download_is_broken_off_when_the_log_is_deleted_meanwhile(monkeypatch):
    """What is left of it would look like all of it."""
    monkeypatch.setattr(download, "PIECE", 1)
    monkeypatch.setattr(download, "WINDOW", 0)
    job = wrote(5, days_ago=6.99).job
    job.refresh_from_db()

    async def read(then: Callable[[], object]) -> bytes:
        pieces = download.job_download(job, Filter(), prefix=False, settled=False)
        found = await anext(pieces)
        await sync_to_async(then)()
        return found + b"".join([piece async for piece in pieces])

    def delete() -> None:
        with every_clock_at(timezone.now() + timedelta(hours=1)):
            assert retention.delete_old_logs() == 1

    assert async_to_sync(read)(lambda: None) == 5 * b"abc\n"
    with pytest.raises((EOFError, Gone)):
        async_to_sync(read)(delete)


def test_for_ever_with_0_days(settings):
    settings.SKEP_LOG_RETENTION_DAYS = 0
    old = wrote(1, days_ago=1000)
    assert retention.delete_old_logs() == 0
    assert folder(old).exists()


def test_a_run_that_was_cut_off_is_gone_on_with(monkeypatch):
    old = wrote(5, days_ago=8)
    monkeypatch.setattr(retention, "CHUNKS", 2)
    with monkeypatch.context() as outage:
        monkeypatch_after(outage, calls=1)
        with pytest.raises(Unavailable):
            retention.delete_old_logs()
    assert LogChunk.objects.count() == 3
    assert Job.objects.get().logs_deleted_at is None
    assert retention.delete_old_logs() == 1
    assert not LogChunk.objects.exists()
    assert not folder(old).exists()


def monkeypatch_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """The store goes away after so many calls."""
    delete, left = retention.delete_chunks, iter(range(calls))

    def some(keys):
        if next(left, None) is None:
            raise Unavailable("away")
        delete(keys)

    monkeypatch.setattr(retention, "delete_chunks", some)


def test_bytes_that_are_gone_already_do_not_stop_it():
    wrote(3, days_ago=8)
    storages["logs"].delete(LogChunk.objects.first().key)
    assert retention.delete_old_logs() == 1


def test_many_jobs_cost_no_query_each():
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            retention.delete_old_logs()
        return len(captured)

    wrote(1, days_ago=8)
    one = queries()
    for _ in range(6):
        wrote(1, days_ago=8)
    assert queries() == one
