"""Finding S11: rows of events, samples and nodes in memory are bounded."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.core.events import Folder, delete_old_events, event
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db


def write(subject: str, *kinds: str, actor: str = "") -> None:
    Event.objects.bulk_create(
        event("job", subject, kind, f"{kind} {number}", actor=actor, number=number)
        for number, kind in enumerate(kinds)
    )


def rows(subject: str) -> list[tuple[str, int]]:
    found = Event.objects.filter(subject_id=subject).order_by("id")
    return list(found.values_list("kind", "count"))


@pytest.fixture(autouse=True)
def _twenty(settings):
    settings.SKEP_EVENTS_PER_SUBJECT = 20


def test_finding_s11_events_of_a_subject_are_bounded_and_none_is_forgotten():
    write("a", "job.submitted", *["job.exec"] * 500, "job.stopped")
    write("b", *["job.exec"] * 20)
    assert Folder().fold() == 1
    assert rows("a") == [
        ("job.submitted", 1),
        ("job.exec", 486),
        *[("job.exec", 1)] * 14,
        ("job.stopped", 1),
    ]
    assert rows("b") == [("job.exec", 1)] * 20
    folded = Event.objects.get(subject_id="a", count=486)
    assert folded.data == {"number": 486}, "the newest of them"
    assert folded.first_at is not None
    assert Event.objects.earliest("id").at <= folded.first_at < folded.at


def test_finding_s11_who_did_it_is_kept_as_far_as_it_fits():
    for number in range(8):
        write("a", *["job.exec"] * 50, actor=f"user{number % 2}")
    folder = Folder()
    folder.fold()
    totals = {
        actor: sum(Event.objects.filter(actor=actor).values_list("count", flat=True))
        for actor in ("user0", "user1")
    }
    assert totals == {"user0": 200, "user1": 200}
    for number in range(100):
        write("a", "job.exec", actor=f"robot{number}")
    folder.fold()
    assert len(rows("a")) <= 20
    assert sum(count for _, count in rows("a")) == 500


@given(floods=st.lists(st.lists(st.sampled_from("abcd"), max_size=60), min_size=1, max_size=5))
def test_finding_s11_folding_again_and_again_loses_no_event(floods):
    Event.objects.all().delete()
    folder, written = Folder(), []
    for kinds in floods:
        write("a", *kinds)
        written += kinds
        folder.fold()
        found = rows("a")
        assert len(found) <= 20
        for kind in "abcd":
            assert sum(count for k, count in found if k == kind) == written.count(kind)


def test_a_first_run_asks_for_many_subjects_at_once(django_assert_num_queries):
    for number in range(30):
        write(f"job-{number}", *["x"] * 20)
    with django_assert_num_queries(2):
        assert Folder().fold() == 0
    write("job-7", "x")
    assert Folder().fold() == 1


def test_a_run_looks_only_at_subjects_with_new_events(django_assert_num_queries):
    write("a", *["x"] * 30)
    folder = Folder()
    assert folder.fold() == 1
    with django_assert_num_queries(1):
        assert folder.fold() == 0
    write("a", *["x"] * 30)
    assert folder.fold() == 1


def test_many_subjects_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr("skep_platform.core.events.SUBJECTS", 2)
    for number in range(7):
        write(f"job{number}", *["x"] * 21)
    assert Folder().fold() == 7
    assert Event.objects.count() == 7 * 16


def test_finding_s11_old_events_are_deleted_in_parts(settings, monkeypatch):
    monkeypatch.setattr("skep_platform.core.events.ROWS", 3)
    settings.SKEP_EVENT_RETENTION_DAYS = 10
    write("a", *["x"] * 10)
    Event.objects.update(at=timezone.now() - timedelta(days=11))
    write("a", "y")
    assert delete_old_events() == 10
    assert rows("a") == [("y", 1)]
    settings.SKEP_EVENT_RETENTION_DAYS = 0
    Event.objects.update(at=timezone.now() - timedelta(days=1000))
    assert delete_old_events() == 0


def test_zero_is_without_a_bound(settings):
    settings.SKEP_EVENTS_PER_SUBJECT = 0
    write("a", *["x"] * 100)
    assert Folder().fold() == 0
