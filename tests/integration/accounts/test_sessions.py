"""The sessions of a user, as the settings show and end them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.clocks import every_clock_at
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.accounts.models import BrowserSession, User
from skep_platform.accounts.tasks import tidy

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def browser(agent: str, address: str = "127.0.0.1") -> Api:
    api = Api()
    api.client.defaults |= {"HTTP_USER_AGENT": agent, "REMOTE_ADDR": address}
    body = {"username": "ada", "password": PASSWORD}
    assert api.post("/auth/login", body).status_code == 200
    return api


def listed(api: Api) -> list[dict[str, Any]]:
    return api.get("/me/sessions").json()


def test_a_user_sees_from_where_and_by_what_each_session_is_used(ada):
    phone = browser("Phone/1", "192.0.2.7")
    assert phone.get("/me").status_code == 200
    desk = browser("Desk/2", "192.0.2.8")
    found = {row["user_agent"]: row for row in listed(desk)}
    assert {name: row["address"] for name, row in found.items()} == {
        "Phone/1": "192.0.2.7",
        "Desk/2": "192.0.2.8",
    }
    assert [row["user_agent"] for row in found.values() if row["current"]] == ["Desk/2"]
    assert listed(session(make_user("eve"))) != listed(desk)
    key = desk.client.cookies["skep_session"].value
    assert key not in str(listed(desk))


def test_one_session_or_all_others_are_ended(ada):
    phone, tablet, desk = browser("Phone/1"), browser("Tablet/1"), browser("Desk/2")
    for api in (phone, tablet, desk):
        api.get("/me")
    of_phone = next(row["id"] for row in listed(desk) if row["user_agent"] == "Phone/1")
    assert desk.delete(f"/me/sessions/{of_phone}").status_code == 204
    assert phone.get("/me").status_code == 401
    assert tablet.get("/me").status_code == 200
    assert refusal(desk.delete(f"/me/sessions/{of_phone}")) == (404, "not_found")
    assert desk.delete("/me/sessions").status_code == 204
    assert tablet.get("/me").status_code == 401
    assert [row["current"] for row in listed(desk)] == [True]


def test_no_one_ends_those_of_others_and_a_token_ends_none(ada):
    desk = browser("Desk/2")
    (row,) = listed(desk)
    eve = session(make_user("eve"))
    assert refusal(eve.delete(f"/me/sessions/{row['id']}")) == (404, "not_found")
    assert refusal(Api(ada).delete("/me/sessions")) == (403, "session_required")
    assert desk.get("/me").status_code == 200


def test_the_last_use_is_noted_without_a_query_for_each_request(ada):
    desk = browser("Desk/2")
    desk.get("/me")
    before = BrowserSession.objects.get().last_seen_at
    with CaptureQueriesContext(connection) as queries:
        desk.get("/me")
    assert not [query for query in queries if "browsersession" in query["sql"]]
    assert BrowserSession.objects.get().last_seen_at == before


def test_sessions_that_are_over_are_not_kept(ada):
    desk = browser("Desk/2")
    desk.get("/me")
    desk.post("/auth/logout")
    phone = browser("Phone/1")
    assert [row["user_agent"] for row in listed(phone)] == ["Phone/1"]
    with every_clock_at(timezone.now() + timedelta(days=30)):
        tidy()
    assert not Session.objects.exists()
    assert not BrowserSession.objects.exists()


def test_a_new_password_leaves_the_present_session_alone(ada):
    phone, desk = browser("Phone/1"), browser("Desk/2")
    phone.get("/me")
    body = {"current": PASSWORD, "new": "another-fine-password"}
    assert desk.post("/me/password", body).status_code == 204
    assert [row["user_agent"] for row in listed(desk)] == ["Desk/2"]
