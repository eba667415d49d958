"""The bytes of log that are stored for one job are limited; its node is never kept waiting."""

from __future__ import annotations

import pytest
from tests.support.gateway_rows import frame, running_attempt

from skep_platform.core.models import Event
from skep_platform.jobs.models import TaskAttempt
from skep_platform.telemetry import appending
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.retention import LogAllowance
from skep_platform.telemetry.services import append_logs
from skep_platform.tenancy.models import VcLimit

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(monkeypatch) -> TaskAttempt:
    monkeypatch.setattr(appending, "_allowance", LogAllowance())
    found = running_attempt()
    VcLimit.objects.create(vc=found.job.vc, name="log_bytes_per_job", value=1000)
    return found


def send(attempt: TaskAttempt, offset: int, data: bytes):
    (ack,) = append_logs(attempt.node_id, [frame(attempt, offset, data)])
    return ack


def stored(attempt: TaskAttempt) -> int:
    return sum(LogChunk.objects.filter(attempt=attempt).values_list("size", flat=True))


def test_finding_s11_a_job_stores_no_more_log_than_its_limit(attempt):
    for piece in range(10):
        ack = send(attempt, piece * 200, b"x" * 200)
        assert ack.offset == (piece + 1) * 200  # the node forgets what it sent
        assert not ack.again
    assert stored(attempt) == 1000
    (event,) = Event.objects.filter(kind="job.log_limit")
    assert event.data == {"most_bytes": 1000}


def test_finding_s11_a_log_over_the_limit_ends_where_it_was_cut(attempt):
    send(attempt, 0, b"x" * 1000)
    send(attempt, 1000, b"x" * 500)
    assert send(attempt, 1500, b"").end
    attempt.refresh_from_db()
    assert attempt.log_sizes == {"stdout": 1000}


def test_finding_s11_another_process_goes_on_counting_and_reports_it_once(attempt, monkeypatch):
    send(attempt, 0, b"x" * 1000)
    send(attempt, 1000, b"x" * 500)
    monkeypatch.setattr(appending, "_allowance", LogAllowance())
    send(attempt, 1500, b"x" * 500)
    assert stored(attempt) == 1000
    assert Event.objects.filter(kind="job.log_limit").count() == 1
