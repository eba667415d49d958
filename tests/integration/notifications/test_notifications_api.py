"""The list of notifications, what was read, and preferences."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user

from skep_platform.accounts.models import User
from skep_platform.core.events import notify
from skep_platform.core.user_events import DEFAULT_MASK, USER_EVENTS, mask
from skep_platform.notifications import collecting

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice, vc) -> Api:
    for kind in ("job.failed", "job.succeeded", "job.preempted"):
        notify(kind, "job", make_job(vc, alice, name=kind).pk, "It happened.")
    collecting.collect()
    return Api(alice)


def test_reading_lowers_the_number_of_unread_ones(api):
    rows = api.get("/notifications").json()["results"]
    assert api.get("/notifications/unread").json() == {"unread": 3}
    assert api.post("/notifications/read", {"ids": [rows[0]["id"]]}).json() == {"unread": 2}
    unread = api.get("/notifications", unread="true").json()["results"]
    assert [row["id"] for row in unread] == [row["id"] for row in rows[1:]]
    changed = api.patch(f"/notifications/{rows[0]['id']}", {"read": False})
    assert changed.json() == {"unread": 3}
    assert api.post("/notifications/read", {}).json() == {"unread": 0}


def test_after_reading_the_next_event_is_a_new_notification(api, alice, vc):
    api.post("/notifications/read", {})
    notify("job.failed", "job", make_job(vc, alice, name="next").pk, "It failed.")
    collecting.collect()
    (row,) = api.get("/notifications", unread="1").json()["results"]
    assert row["title"] == "Job next failed"


def test_19_no_one_else_reads_or_changes_them(api, admin):
    (first, *_) = api.get("/notifications").json()["results"]
    for other in (admin, Api(make_user("bob"))):
        assert other.get("/notifications").json()["results"] == []
        other.post("/notifications/read", {"ids": [first["id"]]})
        other.patch(f"/notifications/{first['id']}", {"read": True})
        assert other.delete(f"/notifications/{first['id']}").status_code == 404
    assert api.get("/notifications/unread").json() == {"unread": 3}


def test_preferences_have_defaults_and_change_one_by_one(alice):
    api = Api(alice)

    def chosen(answer) -> dict[str, list[str]]:
        return {row["event"]: row["channels"] for row in answer.json()["events"]}

    before = chosen(api.get("/notifications/preferences"))
    assert before["job.failed"] == ["in_page", "email", "webhook"]
    assert before["job.started"] == []
    body = {"events": {"job.failed": {"email": False}, "job.started": {"in_page": True}}}
    after = chosen(api.patch("/notifications/preferences", body))
    assert after["job.failed"] == ["in_page", "webhook"]
    assert after["job.started"] == ["in_page"]
    assert {k: v for k, v in after.items() if k not in body["events"]} == {
        k: v for k, v in before.items() if k not in body["events"]
    }
    known = User.objects.get(pk=alice.pk).notified_events
    assert known == DEFAULT_MASK | mask(["job.started"])


@pytest.mark.parametrize(
    ("events", "code", "field"),
    [
        ({"job.exploded": {"email": True}}, "unknown_event", "events"),
        ({"job.failed": {"pigeon": True}}, "channel_not_offered", "events.job.failed.pigeon"),
        (
            {"webhook.disabled": {"in_page": False}},
            "channel_not_offered",
            "events.webhook.disabled.in_page",
        ),
        (
            {"announcement.created": {"in_page": True}},
            "channel_not_offered",
            "events.announcement.created.in_page",
        ),
    ],
)
def test_bad_preferences_are_refused_by_name(alice, events, code, field):
    answer = Api(alice).patch("/notifications/preferences", {"events": events})
    assert refusal(answer) == (400, code)
    assert answer.json()["details"]["field"] == field


def test_the_bits_of_events_never_change():
    """They are stored: a new event is appended."""
    assert [one.name for one in USER_EVENTS] == [
        *("job.started", "job.failed", "job.succeeded", "job.stopped", "job.retried"),
        *("job.preempted", "job.waiting_long", "job.idle", "budget.warning", "budget.used_up"),
        *("announcement.created", "webhook.disabled"),
        *("job.image_saved", "job.image_not_saved", "platform.alert"),
    ]
