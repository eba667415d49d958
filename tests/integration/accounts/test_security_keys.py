"""Security keys and passkeys (WebAuthn), by a key in software that can also lie."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.utils import timezone
from tests.support import mfa
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import PASSWORD, make_user
from tests.support.webauthn import SoftKey

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry

pytestmark = pytest.mark.django_db


def browser(host: str = "localhost") -> Api:
    api = Api()
    api.client.defaults["SERVER_NAME"] = host
    return api


def log_in(api: Api, **more: Any) -> Any:
    return api.post("/auth/login", {"username": "ann", "password": PASSWORD, **more})


@pytest.fixture
def ann() -> User:
    return make_user("ann")


@pytest.fixture
def enrolled(ann: User) -> tuple[SoftKey, list[str]]:
    """A user with a passkey."""
    api, key = browser(), SoftKey()
    log_in(api)
    answer = key.enrol(api, passkey=True)
    assert answer.status_code == 201, answer.content
    return key, answer.json()["recovery_codes"]


def asked(api: Api) -> dict[str, Any]:
    answer = log_in(api)
    assert refusal(answer) == (401, "mfa_required")
    details = answer.json()["details"]
    assert set(details["methods"]) == {"webauthn", "recovery_codes"}
    return dict(details["key"])


def by_passkey(api: Api, key: SoftKey) -> Any:
    return api.post("/auth/passkey", key.sign(api.post("/auth/passkey/start").json()))


def test_a_key_is_asked_for_after_the_password_and_lets_in_once(enrolled, settings):
    settings.SKEP_REQUIRE_MFA = "all"
    key, codes = enrolled
    assert len(codes) == 10
    api = browser()
    body = key.sign(asked(api))
    answer = log_in(api, key=body)
    assert answer.status_code == 200
    assert answer.json()["mfa_setup_required"] is False
    assert refusal(log_in(browser(), key=body)) == (401, "key_refused")
    assert log_in(browser(), code=codes[0]).status_code == 200


def test_a_command_line_is_asked_as_well(enrolled):
    answer = Api().post("/auth/token", {"username": "ann", "password": PASSWORD})
    assert refusal(answer) == (401, "mfa_required")


def test_a_passkey_logs_in_without_name_and_password(enrolled):
    api = browser()
    assert by_passkey(api, enrolled[0]).json()["username"] == "ann"
    entry = AuditEntry.objects.filter(action="login.succeeded").order_by("-id")[0]
    assert (entry.actor_name, entry.facts["method"]) == ("ann", "passkey")


def test_a_second_factor_that_is_no_passkey_does_not_log_in_alone(ann):
    api, key = browser(), SoftKey()
    log_in(api)
    assert key.enrol(api).status_code == 201
    assert refusal(by_passkey(browser(), key)) == (401, "key_refused")


@pytest.mark.parametrize(
    "lie", ["other_site", "other_host", "other_key", "unverified", "cloned", "old", "other_user"]
)
def test_what_proves_nothing_is_refused(enrolled, lie):
    key, _ = enrolled
    api = browser()
    assert by_passkey(api, key).status_code == 200
    challenge = browser().post("/auth/passkey/start").json()
    if lie == "other_site":
        key.origin = "https://evil.test"
    elif lie == "other_host":
        key.host = "evil.test"
    elif lie == "other_key":
        key.secret = SoftKey().secret
    elif lie == "unverified":
        key.verified = False
    elif lie == "cloned":
        key.counter -= 1
    elif lie == "other_user":
        make_user("bob")
        key.user_handle = b"MQ"
    with time_machine.travel(timezone.now().timestamp() + (400 if lie == "old" else 0)):
        answer = browser().post("/auth/passkey", key.sign(challenge))
    assert refusal(answer) == (401, "key_refused")
    assert AuditEntry.objects.filter(action="login.failed", facts__code="key_refused").exists()


@pytest.mark.parametrize(
    "credential",
    [None, [], "x", {}, {"id": 1}, {"response": {"userHandle": "!"}}, {"a": "x" * 30000}],
)
def test_garbage_is_a_typed_refusal(enrolled, credential):
    challenge = browser().post("/auth/passkey/start").json()
    body = {"credential": credential, "state": challenge["state"]}
    assert browser().post("/auth/passkey", body).status_code in (400, 401)
    assert browser().post("/auth/passkey", body | {"state": "x"}).status_code in (400, 401)


def test_a_challenge_of_one_purpose_is_none_of_another(enrolled):
    key, _ = enrolled
    passkey = browser().post("/auth/passkey/start").json()
    assert refusal(log_in(browser(), key=key.sign(passkey))) == (401, "key_refused")
    second = asked(browser())
    assert refusal(browser().post("/auth/passkey", key.sign(second))) == (401, "key_refused")


def test_keys_are_listed_named_and_removed(enrolled):
    api = browser()
    by_passkey(api, enrolled[0])
    state = api.get("/me/mfa").json()
    assert (state["enabled"], state["app"], state["keys_supported"]) == (True, False, True)
    [row] = state["keys"]
    assert (row["name"], row["passkey"]) == ("blue key", True)
    assert api.patch(f"/me/mfa/keys/{row['id']}", {"name": "at work"}).status_code == 204
    assert api.get("/me/mfa").json()["keys"][0]["name"] == "at work"
    assert api.delete(f"/me/mfa/keys/{row['id']}").status_code == 204
    state = api.get("/me/mfa").json()
    assert (state["enabled"], state["keys"], state["recovery_codes_left"]) == (False, [], 0)
    assert log_in(browser()).status_code == 200


def test_keys_of_others_do_not_exist(enrolled):
    make_user("bob")
    key_id = enrolled_id()
    api = browser()
    api.post("/auth/login", {"username": "bob", "password": PASSWORD})
    assert refusal(api.delete(f"/me/mfa/keys/{key_id}")) == (404, "not_found")
    assert refusal(api.patch(f"/me/mfa/keys/{key_id}", {"name": "x"})) == (404, "not_found")


def enrolled_id() -> int:
    from allauth.mfa.models import Authenticator

    return int(Authenticator.objects.get(type="webauthn").pk)


def test_a_session_that_was_left_open_adds_and_removes_nothing(enrolled):
    api = browser()
    by_passkey(api, enrolled[0])
    with time_machine.travel(timezone.now().timestamp() + 700):
        for answer in (
            api.post("/me/mfa/keys/start", {}),
            api.delete(f"/me/mfa/keys/{enrolled_id()}"),
        ):
            assert refusal(answer) == (403, "confirmation_required")
        assert refusal(api.post("/me/confirm", {"password": "wrong"})) == (400, "password_wrong")
        assert api.post("/me/confirm", {"password": PASSWORD}).status_code == 204
        assert api.post("/me/mfa/keys/start", {}).status_code == 200


def test_one_key_is_kept_once_and_a_new_one_ends_other_sessions(ann, enrolled):
    key, _ = enrolled
    other, api = browser(), browser()
    by_passkey(other, key)
    by_passkey(api, key)
    assert refusal(key.enrol(api)) == (409, "key_known")
    second = SoftKey().enrol(api, name="spare")
    assert (second.status_code, second.json()["recovery_codes"]) == (201, [])
    assert api.get("/me").status_code == 200
    assert other.get("/me").status_code == 401


def test_app_and_key_stand_side_by_side(enrolled):
    api = browser()
    by_passkey(api, enrolled[0])
    mfa.enrol(api)
    details = log_in(browser()).json()["details"]
    assert set(details["methods"]) == {"totp", "webauthn", "recovery_codes"}


def test_where_only_single_sign_on_lets_in_a_passkey_does_not(enrolled, settings):
    settings.SKEP_PASSWORD_LOGIN = False
    assert refusal(by_passkey(browser(), enrolled[0])) == (403, "password_login_off")
    User.objects.update(is_superuser=True)
    assert by_passkey(browser(), enrolled[0]).status_code == 200


def test_a_deactivated_user_stays_out(enrolled):
    User.objects.update(is_active=False)
    assert refusal(by_passkey(browser(), enrolled[0])) == (401, "key_refused")


@pytest.mark.parametrize(
    ("url", "supported"),
    [
        ("https://skep.example.org", True),
        ("http://skep.example.org", False),
        ("https://10.0.0.1", False),
    ],
)
def test_keys_are_offered_where_browsers_make_them(ann, settings, url, supported):
    settings.SKEP_PUBLIC_URL = url
    api = browser("testserver")
    log_in(api)
    assert api.get("/me/mfa").json()["keys_supported"] is supported
    key = SoftKey("skep.example.org", url)
    if supported:
        assert key.enrol(api).status_code == 201
    else:
        answer = api.post("/me/mfa/keys/start", {})
        assert refusal(answer) == (409, "keys_not_supported")


def test_too_many_refused_passkeys_are_throttled(enrolled, monkeypatch):
    monkeypatch.setattr("skep_platform.accounts.throttle.PER_USER", 2)
    stranger = SoftKey()
    codes = [by_passkey(browser(), stranger).status_code for _ in range(3)]
    assert codes == [401, 401, 429]


def test_who_removes_the_last_key_sets_mfa_up_again_where_it_is_required(enrolled, settings):
    settings.SKEP_REQUIRE_MFA = "all"
    api = browser()
    assert by_passkey(api, enrolled[0]).json()["mfa_setup_required"] is False
    (row,) = api.get("/me/mfa").json()["keys"]
    assert api.delete(f"/me/mfa/keys/{row['id']}").status_code == 204
    assert refusal(api.get("/jobs")) == (403, "mfa_setup_required")
    assert api.get("/me").json()["mfa_setup_required"] is True
