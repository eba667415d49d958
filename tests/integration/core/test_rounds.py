"""Several periodic tasks by one message."""

from __future__ import annotations

import threading

import pytest
from celery import current_app, shared_task
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from tests.support.platform_factories import make_node, make_user

from skep_platform import schedule
from skep_platform.core import rounds
from skep_platform.core.tasks import run_round
from skep_platform.core.user_events import Channel
from skep_platform.notifications.models import Delivery, DeliveryState

pytestmark = pytest.mark.django_db

# Of an idle cluster, of what comes every 2 s and every 5 s.
STATEMENTS = 16, 6

ran: list[str] = []
begun, hang = threading.Event(), threading.Event()


@shared_task(name="test.rounds.works")
def works() -> None:
    ran.append("works")


@shared_task(name="test.rounds.fails")
def fails() -> None:
    ran.append("fails")
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SELECT 1/0")


@shared_task(name="test.rounds.hangs")
def hangs() -> None:
    ran.append("hangs")
    begun.set()
    hang.wait(30)


@pytest.fixture(autouse=True)
def _nothing_ran():
    current_app.loader.import_default_modules()
    ran.clear()


def count(task: str, state: str) -> float:
    return REGISTRY.get_sample_value("skep_tasks_total", {"task": task, "state": state}) or 0.0


def test_each_task_of_a_round_runs_and_is_counted_and_one_that_fails_holds_up_none():
    before = count(works.name, "SUCCESS"), count(fails.name, "FAILURE")
    with capture_logs() as logs:
        run_round.run([fails.name, "test.rounds.unknown", works.name], 4)
    assert ran == ["fails", "works"]
    assert (count(works.name, "SUCCESS"), count(fails.name, "FAILURE")) == (
        *(before[0] + 1, before[1] + 1),
    )
    failed = [line["name"] for line in logs if line["event"] == "task_failed"]
    assert failed == [fails.name, "test.rounds.unknown"]


def test_a_task_that_hangs_is_left_out_of_later_rounds_and_holds_up_none():
    names = [hangs.name, works.name]
    thread = threading.Thread(target=run_round.run, args=(names, 4))
    thread.start()
    assert begun.wait(30)
    run_round.run(names, 4)
    assert ran == ["hangs", "works"]
    hang.set()
    thread.join(30)
    run_round.run(names, 4)
    assert ran == ["hangs", "works", "works", "hangs", "works"]


def test_what_talks_to_other_servers_has_a_message_of_its_own_when_there_is_something(monkeypatch):
    sent: list[tuple[str, float]] = []
    monkeypatch.setattr(
        *(current_app._get_current_object(), "send_task"),
        lambda name, expires, retry: sent.append((name, expires)),
    )
    names = ["skep.notifications.send_webhooks", "skep.notifications.send_mails"]
    run_round.run(names, 4)
    assert sent == []
    due = {"due_at": timezone.now(), "items": [], "event": "job.failed"}
    Delivery.objects.create(
        user=make_user("alice"), channel=Channel.EMAIL, state=DeliveryState.PENDING, **due
    )
    run_round.run(names, 4)
    assert sent == [("skep.notifications.send_mails", 4)]


def test_a_task_whose_look_for_work_fails_counts_as_failed(monkeypatch):
    monkeypatch.setattr(rounds, "_due", {works.name: lambda: 1 // 0 > 0})
    before = count(works.name, "FAILURE")
    run_round.run([works.name], 4)
    assert (count(works.name, "FAILURE"), ran) == (before + 1, [])


def test_rounds_with_nothing_to_do_cost_few_statements_and_no_message(monkeypatch):
    make_node("gpu-1", gpus=8)
    monkeypatch.setattr(current_app._get_current_object(), "send_task", None)
    short, long = (settings.CELERY_BEAT_SCHEDULE[f"round-of-{s}-s"]["kwargs"] for s in (2, 5))
    run_round.run(**short)
    run_round.run(**long)
    with capture_logs() as logs, CaptureQueriesContext(connection) as of_2_s:
        run_round.run(**short)
    with capture_logs() as more_logs, CaptureQueriesContext(connection) as of_5_s:
        run_round.run(**long)
    assert [*logs, *more_logs] == []
    assert (len(of_2_s), len(of_5_s)) == STATEMENTS


def test_all_that_rounds_send_by_a_message_of_its_own_is_in_a_round():
    assert rounds._due.keys() <= schedule.tasks(settings.CELERY_BEAT_SCHEDULE)
