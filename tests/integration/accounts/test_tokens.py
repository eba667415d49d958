"""API tokens: named, scoped, expiring, listed, revocable."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import ROOT, Api, refusal, session
from tests.support.platform_factories import (
    PASSWORD,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
)

from skep_platform.accounts import current_user
from skep_platform.accounts.models import ApiToken
from skep_platform.accounts.queries import living_token
from skep_platform.accounts.services import create_token
from skep_platform.core.errors import Forbidden
from skep_platform.gateway.callers import Asked, may_reach, reach

pytestmark = pytest.mark.django_db


def by(secret: str) -> Api:
    api = Api()
    api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return api


@pytest.fixture
def remembered(monkeypatch):
    """An hour: what must hold at once does not hold because a second has passed."""
    monkeypatch.setattr(current_user, "FRESH_S", 3600.0)


@pytest.mark.usefixtures("remembered")
def test_a_token_is_read_once_and_its_end_holds_at_once():
    admin, ann = Api(make_user(admin=True)), make_user("ann")
    row, secret = create_token(ann)
    assert by(secret).get("/me").status_code == 200  # notes the use, which takes a query
    assert by(secret).get("/me").status_code == 200
    with CaptureQueriesContext(connection) as captured:
        assert by(secret).get("/jobs/schema").status_code == 200
    assert not captured.captured_queries
    admin.delete(f"/tokens/{row.public_id}")
    assert by(secret).get("/jobs/schema").status_code == 401


@pytest.mark.usefixtures("remembered")
def test_what_changes_of_a_user_holds_at_once_for_a_remembered_token():
    admin = Api(make_user(admin=True))
    ann = make_user("ann", admin=True)
    api = Api(ann)
    assert api.get("/users").status_code == 200
    admin.patch("/users/ann", {"is_admin": False})
    assert api.get("/users").status_code == 403
    admin.patch("/users/ann", {"is_active": False})
    assert api.get("/me").status_code == 401


def test_what_another_process_changes_holds_when_the_token_is_read_again():
    _, secret = create_token(make_user("ann"))
    assert living_token(secret, 3600.0)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts_apitoken")
    assert living_token(secret, 3600.0)
    assert not living_token(secret)


@pytest.mark.usefixtures("remembered")
def test_requests_with_one_token_share_no_user():
    _, secret = create_token(make_user("ann"))
    living_token(secret, 3600.0).user.email = "changed@example.org"
    assert living_token(secret, 3600.0).user.email != "changed@example.org"


@pytest.mark.parametrize("scope", ["read", "submit", "admin"])
def test_finding_s17_a_token_makes_no_token(scope):
    user = make_user("ann")
    api = by(create_token(user, scope=scope)[1])
    assert api.post("/auth/tokens", {"scope": "read"}).status_code == 403
    assert ApiToken.objects.filter(user=user).count() == 1


def test_finding_s17_a_session_makes_scoped_tokens_and_lists_and_revokes_them():
    ann = session(make_user("ann"))
    body = {"name": "ci", "scope": "submit", "expires_in_s": 3600}
    made = ann.post("/auth/tokens", body).json()
    (listed,) = ann.get("/auth/tokens").json()
    assert (listed["name"], listed["scope"], listed["last_used_at"]) == ("ci", "submit", None)
    assert "token" not in listed
    assert by(made["token"]).get("/me").status_code == 200
    assert ann.get("/auth/tokens").json()[0]["last_used_at"] is not None
    assert ann.delete(f"/auth/tokens/{made['id']}").status_code == 204
    assert by(made["token"]).get("/me").status_code == 401


def test_finding_s17_login_by_password_takes_a_scope():
    make_user("ann")
    body = {"username": "ann", "password": PASSWORD, "scope": "read"}
    token = Api().post("/auth/token", body).json()
    assert token["scope"] == "read"
    assert refusal(by(token["token"]).post("/jobs/check", {})) == (403, "scope_too_small")
    assert refusal(Api().post("/auth/token", {**body, "scope": "root"})) == (400, "invalid")


def test_finding_s17_how_long_tokens_live_is_a_setting(settings):
    settings.SKEP_TOKEN_DAYS, settings.SKEP_TOKEN_MAX_DAYS = 2, 7
    ann = session(make_user("ann"))
    token, _ = create_token(ann.user)
    assert timedelta(days=1) < token.expiry - timezone.now() < timedelta(days=3)
    assert refusal(ann.post("/auth/tokens", {"expires_in_s": 8 * 86_400})) == (400, "ttl_invalid")
    settings.SKEP_TOKEN_MAX_DAYS = 1
    token, _ = create_token(ann.user)
    assert token.expiry - timezone.now() <= timedelta(days=1)


def test_finding_s17_older_tokens_keep_what_they_could_do():
    assert ApiToken._meta.get_field("scope").default == "admin"


def test_finding_s17_a_reading_token_enters_no_container():
    ann = make_user("ann")
    job = make_job(make_vc(members=[ann]), ann, state="RUNNING")
    attempt = place(job, list(make_node("n1", gpus=1).devices.all()), state="RUNNING")
    asked = Asked("exec", argv=("sh",))
    users = {
        scope: living_token(create_token(ann, scope=scope)[1]).user for scope in ("read", "submit")
    }
    with pytest.raises(Forbidden) as raised:
        reach(users["read"], attempt.pk, asked)
    assert raised.value.code == "scope_too_small"
    assert not may_reach(users["read"], attempt.pk)
    assert reach(users["submit"], attempt.pk, asked).attempt_id == attempt.pk


def test_finding_s17_the_use_of_a_token_is_noted_once_an_hour(django_assert_num_queries):
    api = by(create_token(make_user("ann"))[1])
    api.get("/jobs/schema")
    with django_assert_num_queries(1):
        api.client.get(f"{ROOT}/jobs/schema")


@pytest.mark.parametrize(
    ("ordering", "owners"),
    [
        ("", ["ann", "cem", "bob"]),
        ("created_at", ["bob", "cem", "ann"]),
        ("owner", ["ann", "bob", "cem"]),
        ("-owner", ["cem", "bob", "ann"]),
        ("name", ["cem", "ann", "bob"]),
    ],
)
def test_tokens_of_all_users_are_ordered_and_paged(admin, ordering, owners):
    for owner, name in (("bob", "z"), ("cem", "a"), ("ann", "k")):
        create_token(make_user(owner), name)
    query, found = {"limit": 1, **({"ordering": ordering} if ordering else {})}, []
    page = admin.get("/tokens", **query).json()
    while True:
        found += [row["owner"] for row in page["results"]]
        if page["next"] is None:
            break
        page = admin.client.get(page["next"]).json()
    assert [owner for owner in found if owner != admin.user.username] == owners


def test_an_order_that_tokens_do_not_have_is_refused(admin):
    assert refusal(admin.get("/tokens", ordering="secret")) == (400, "invalid_filter")
