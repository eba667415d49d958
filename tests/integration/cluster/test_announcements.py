"""Announcements: administrators write them, all users see them until they expire."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user

from skep_platform.cluster.models import Announcement

pytestmark = pytest.mark.django_db


def messages(api: Api) -> list[str]:
    return [row["message"] for row in api.get("/announcements").json()["results"]]


def test_every_user_sees_an_announcement_until_it_is_deleted(admin):
    made = admin.post("/announcements", {"message": "Maintenance on Monday."})
    assert made.status_code == 201
    assert made.json()["severity"] == "info"
    admin.post("/announcements", {"message": "Rack r2 is hot.", "severity": "warning"})
    ann = Api(make_user("ann"))
    assert messages(ann) == ["Rack r2 is hot.", "Maintenance on Monday."]
    assert admin.delete(f"/announcements/{made.json()['id']}").status_code == 204
    assert messages(ann) == ["Rack r2 is hot."]
    assert refusal(admin.delete(f"/announcements/{made.json()['id']}")) == (404, "not_found")


def test_an_announcement_expires_and_the_next_one_removes_its_row(admin):
    soon = timezone.now() + timedelta(minutes=1)
    admin.post("/announcements", {"message": "Soon over.", "expires_at": soon.isoformat()})
    assert messages(admin) == ["Soon over."]
    Announcement.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert messages(admin) == []
    admin.post("/announcements", {"message": "Next."})
    assert Announcement.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {"message": ""},
        {"message": "x" * 501},
        {"message": "x", "severity": "fatal"},
        {"message": "x", "expires_at": "2020-01-01T00:00:00Z"},
        {"message": "x\x1b[2J"},
    ],
)
def test_an_announcement_that_cannot_be_shown_is_refused(admin, body):
    assert refusal(admin.post("/announcements", body)) == (400, "invalid")


def test_there_is_a_limit_and_its_error_says_what_to_do(admin):
    for n in range(20):
        assert admin.post("/announcements", {"message": str(n)}).status_code == 201
    refused = admin.post("/announcements", {"message": "one more"})
    assert refusal(refused) == (409, "too_many_announcements")
    assert refused.json()["details"] == {"limit": 20}


def test_the_list_costs_a_fixed_number_of_queries(admin, django_assert_max_num_queries):
    for n in range(5):
        admin.post("/announcements", {"message": str(n)})
    with django_assert_max_num_queries(4):
        assert len(messages(admin)) == 5
