"""What is old is deleted a bounded number of rows at a time."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.at_once import at_once, just_before

from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.events import record
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db


def make_events(count: int) -> None:
    for number in range(count):
        record("node", number, "node.lost", "Lost.")


def test_each_statement_deletes_a_bounded_number_of_the_rows_asked_for():
    make_events(7)
    newest = Event.objects.order_by("id")[5:]
    kept = {event.pk for event in newest}
    with CaptureQueriesContext(connection) as queries:
        assert delete_in_batches(Event.objects.exclude(pk__in=kept), rows=2) == 5
    assert {event.pk for event in Event.objects.all()} == kept
    deletes = [one["sql"] for one in queries if one["sql"].startswith("DELETE")]
    assert len(deletes) == 3


def test_a_call_ends_with_its_time():
    make_events(7)
    assert delete_in_batches(Event.objects.order_by("id"), rows=2, budget_s=0) == 2
    assert Event.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_two_at_once_delete_each_row_once():
    make_events(9)
    deleted = at_once(*[lambda: delete_in_batches(Event.objects.all(), rows=2)] * 2)
    assert sum(deleted) == 9
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_was_changed_meanwhile_and_is_old_no_more_stays():
    make_events(2)
    first = Event.objects.order_by("id")[0].pk
    change = Event.objects.filter(pk=first).update
    with just_before("FOR UPDATE", lambda: at_once(lambda: change(kind="node.online"))):
        assert delete_in_batches(Event.objects.filter(kind="node.lost")) == 1
    assert Event.objects.get().pk == first
