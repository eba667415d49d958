"""Logging in by session and by token, and what ends a login."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.sessions.models import Session
from django.utils import timezone
from knox.models import get_token_model
from rest_framework.test import APIClient
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_user, make_vc

from skep_platform.accounts import services, tokens
from skep_platform.accounts.models import ApiToken
from skep_platform.accounts.queries import living_token
from skep_platform.accounts.tasks import tidy

pytestmark = pytest.mark.django_db
LOGIN = "/api/v1/auth/login"


@pytest.fixture
def browser() -> APIClient:
    """A client that checks CSRF, as a real browser session meets it."""
    return APIClient(enforce_csrf_checks=True)


def log_in(browser: APIClient, username: str, password: str = PASSWORD):
    csrf = browser.get("/api/v1/auth/csrf").json()["csrf_token"]
    browser.credentials(HTTP_X_CSRFTOKEN=csrf)
    answer = browser.post(LOGIN, {"username": username, "password": password}, format="json")
    if answer.status_code == 200:
        browser.credentials(HTTP_X_CSRFTOKEN=browser.cookies["skep_csrf"].value)
    return answer


def test_session_login_says_who_one_is(browser):
    user = make_user("ann", email="ann@example.org")
    make_vc("vision", members=[user])
    answer = log_in(browser, "ann")
    assert answer.status_code == 200
    assert answer.json() == {
        "id": user.pk,
        "username": "ann",
        "email": "ann@example.org",
        "email_confirmed": False,
        "is_admin": False,
        "mfa_setup_required": False,
        "virtual_clusters": [{"name": "vision", "role": "member"}],
        "admins": [],
    }
    assert browser.get("/api/v1/me").json() == answer.json()


def test_login_without_the_csrf_header_is_refused(browser):
    make_user("ann")
    answer = browser.post(LOGIN, {"username": "ann", "password": PASSWORD}, format="json")
    assert refusal(answer) == (403, "csrf_failed")


def test_writes_of_a_session_need_the_csrf_header(browser):
    make_user("ann")
    log_in(browser, "ann")
    browser.credentials()
    assert browser.post("/api/v1/auth/tokens", {}, format="json").status_code == 403
    assert ApiToken.objects.count() == 0


def test_session_cookie_is_out_of_reach_of_scripts(browser):
    make_user("ann")
    cookie = log_in(browser, "ann").cookies["skep_session"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_logout_ends_the_session(browser):
    make_user("ann")
    log_in(browser, "ann")
    assert browser.post("/api/v1/auth/logout").status_code == 204
    assert refusal(browser.get("/api/v1/me")) == (401, "not_authenticated")


def test_logout_with_a_token_deletes_that_token():
    api = Api(make_user())
    assert api.post("/auth/logout").status_code == 204
    assert refusal(api.get("/me")) == (401, "authentication_failed")


@pytest.mark.parametrize(
    ("username", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("gone", PASSWORD)]
)
def test_unknown_wrong_and_deactivated_look_the_same(username, password):
    make_user("ann")
    make_user("gone", is_active=False)
    answer = Api().post("/auth/token", {"username": username, "password": password})
    assert refusal(answer) == (401, "login_failed")
    assert answer.json()["message"] == "Wrong user name or password."


def test_an_unknown_user_costs_as_much_hashing_as_a_known_one(monkeypatch):
    make_user("ann")
    hashed = []
    encode = PBKDF2PasswordHasher.encode
    monkeypatch.setattr(
        PBKDF2PasswordHasher,
        "encode",
        lambda self, *a, **k: hashed.append(1) or encode(self, *a, **k),
    )
    counts = []
    for name in ("ann", "nobody"):
        hashed.clear()
        Api().post("/auth/token", {"username": name, "password": "wrong"})
        counts.append(len(hashed))
    assert counts == [1, 1]


def test_guessing_is_throttled_per_address_and_user(monkeypatch):
    monkeypatch.setattr("skep_platform.accounts.throttle.PER_USER", 3)
    make_user("ann")
    make_user("bob")
    guess = {"username": "ann", "password": "wrong"}
    codes = [Api().post("/auth/token", guess).status_code for _ in range(4)]
    assert codes == [401, 401, 401, 429]
    right = Api().post("/auth/token", {"username": "ANN", "password": PASSWORD})
    assert refusal(right) == (429, "throttled")
    assert right.headers["Retry-After"] == "60"
    other = Api().post("/auth/token", {"username": "bob", "password": PASSWORD})
    assert other.status_code == 201


def test_guessing_many_users_is_throttled_per_address(monkeypatch):
    monkeypatch.setattr("skep_platform.accounts.throttle.PER_ADDRESS", 2)
    codes = [
        Api().post("/auth/token", {"username": f"u{i}", "password": "x"}).status_code
        for i in range(3)
    ]
    assert codes == [401, 401, 429]


def test_forwarded_address_does_not_escape_the_throttle(monkeypatch):
    monkeypatch.setattr("skep_platform.accounts.throttle.PER_USER", 1)
    guess = {"username": "ann", "password": "wrong"}
    codes = [
        Api().post("/auth/token", guess, HTTP_X_FORWARDED_FOR=f"10.0.0.{i}").status_code
        for i in range(2)
    ]
    assert codes == [401, 429]


def test_success_forgives_failures(monkeypatch):
    monkeypatch.setattr("skep_platform.accounts.throttle.PER_USER", 2)
    make_user("ann")
    for password in ("wrong", PASSWORD, "wrong"):
        last = Api().post("/auth/token", {"username": "ann", "password": password})
    assert last.status_code == 401


def test_token_by_password_works_and_is_reported_once():
    user = make_user("ann")
    body = {"username": "ann", "password": PASSWORD, "name": "laptop", "expires_in_s": 60}
    answer = Api().post("/auth/token", body)
    assert answer.status_code == 201
    shown = answer.json()
    assert shown["token"].startswith("skt_")
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {shown['token']}")
    assert client.get("/api/v1/me").json()["username"] == "ann"
    listed = client.get("/api/v1/auth/tokens")
    (row,) = listed.json()
    assert set(row) == {
        *("id", "name", "last4", "scope", "created_at", "expires_at", "last_used_at")
    }
    assert (row["name"], row["last4"]) == ("laptop", shown["token"][-4:])
    assert shown["token"] not in listed.content.decode()
    assert shown["token"] not in str(list(ApiToken.objects.filter(user=user).values()))


def test_token_request_costs_one_query_to_know_the_caller(django_assert_num_queries):
    api = Api(make_user())
    with django_assert_num_queries(1):
        assert living_token(api.token).user == api.user


def test_me_costs_two_queries_by_token(django_assert_num_queries):
    make_vc(members=[user := make_user()])
    api = Api(user)
    with django_assert_num_queries(2):
        assert api.get("/me").status_code == 200


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer a b", "Bearer skt_wrong", "Bearer \xff\xfe", "Bearer " + "x" * 9000],
)
def test_garbled_authorization_is_a_typed_refusal(header):
    answer = APIClient().get("/api/v1/me", HTTP_AUTHORIZATION=header)
    assert refusal(answer) == (401, "authentication_failed")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_expired_token_is_refused_and_not_listed():
    user = make_user()
    old, secret = services.create_token(user, "old", 60)
    ApiToken.objects.filter(pk=old.pk).update(expiry=timezone.now() - timedelta(minutes=10))
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert refusal(client.get("/api/v1/me"))[0] == 401
    names = [row["name"] for row in Api(user).get("/auth/tokens").json()]
    assert "old" not in names


@pytest.mark.parametrize("ttl", [0, -5, 10**9, 10**30, "soon", 1.5])
def test_token_lifetime_is_bounded(ttl):
    answer = session(make_user()).post("/auth/tokens", {"name": "x", "expires_in_s": ttl})
    assert answer.status_code == 400


def test_tokens_of_a_user_are_bounded(monkeypatch):
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    api = session(make_user())
    assert api.post("/auth/tokens", {"name": "a"}).status_code == 201
    assert refusal(api.post("/auth/tokens", {"name": "b"})) == (409, "too_many_tokens")


def test_token_of_someone_else_cannot_be_deleted():
    ann, bob = session(make_user()), Api(make_user())
    theirs = ann.post("/auth/tokens", {"name": "x"}).json()["id"]
    assert refusal(bob.delete(f"/auth/tokens/{theirs}")) == (404, "not_found")
    assert ann.delete(f"/auth/tokens/{theirs}").status_code == 204


def test_deactivated_user_is_out_at_once_everywhere(browser):
    admin = Api(make_user(admin=True))
    user = make_user("ann")
    token, _ = Api(user), log_in(browser, "ann")
    assert admin.patch("/users/ann", {"is_active": False}).status_code == 200
    assert token.get("/me").status_code == browser.get("/api/v1/me").status_code == 401
    assert not get_token_model().objects.filter(user=user).exists()
    admin.patch("/users/ann", {"is_active": True})
    assert token.get("/me").status_code == browser.get("/api/v1/me").status_code == 401


def test_new_password_by_the_admin_ends_sessions_and_tokens(browser):
    make_user("ann")
    token, _ = Api(make_user("bob")), log_in(browser, "ann")
    admin = Api(make_user(admin=True))
    for name in ("ann", "bob"):
        assert admin.patch(f"/users/{name}", {"password": "another-long-one"}).status_code == 200
    assert token.get("/me").status_code == browser.get("/api/v1/me").status_code == 401
    assert log_in(APIClient(), "ann", "another-long-one").status_code == 200


def test_own_password_change_keeps_only_this_session(browser):
    user = make_user("ann")
    other = APIClient(enforce_csrf_checks=True)
    log_in(browser, "ann")
    log_in(other, "ann")
    token = Api(user)
    wrong = browser.post(
        "/api/v1/me/password", {"current": "wrong", "new": "x" * 12}, format="json"
    )
    assert refusal(wrong) == (400, "password_wrong")
    body = {"current": PASSWORD, "new": "a-fine-new-password"}
    assert browser.post("/api/v1/me/password", body, format="json").status_code == 204
    assert browser.get("/api/v1/me").status_code == 200
    assert other.get("/api/v1/me").status_code == token.get("/me").status_code == 401


def test_weak_password_is_refused_with_its_reasons():
    admin = Api(make_user(admin=True))
    answer = admin.post("/users", {"username": "ann", "password": "short"})
    assert refusal(answer) == (400, "password_weak")
    assert answer.json()["details"]["reasons"]


def test_tidying_forgets_only_what_is_over(browser):
    user = make_user("ann")
    log_in(browser, "ann")
    log_in(APIClient(), "ann")
    first = Session.objects.first()
    Session.objects.filter(pk=first.pk).update(expire_date=timezone.now())
    old, _ = services.create_token(user, "old", 60)
    services.create_token(user, "young", 60)
    ApiToken.objects.filter(pk=old.pk).update(expiry=timezone.now())
    tidy()
    assert Session.objects.count() == 1
    assert ApiToken.objects.get().name == "young"
