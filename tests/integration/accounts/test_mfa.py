"""Logging in with a second factor: codes of an app, recovery codes, and who must have one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.db import connection
from tests.support.mfa import STEP_S, code_of, enrol
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.accounts import mfa, throttle
from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.core.notifications import valkey

pytestmark = pytest.mark.django_db
NOON = 1_800_000_000.0  # a moment at which a step of 30 s begins


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def _no_guesses():
    valkey().flushdb()


class Browser(Api):
    """A browser: a session that a login begins."""

    def log_in(self, username: str = "ann", code: str = "") -> Any:
        body = {"username": username, "password": PASSWORD}
        return self.post("/auth/login", body | ({"code": code} if code else {}))


@pytest.fixture
def ann() -> User:
    return make_user("ann")


@pytest.fixture
def enrolled(ann: User, clock: Any) -> tuple[Browser, str, list[str]]:
    browser = Browser()
    browser.log_in()
    key, codes = enrol(browser)
    clock.shift(STEP_S)
    return browser, key, codes


def test_a_login_asks_for_the_code_and_takes_it(enrolled):
    _, key, _ = enrolled
    browser = Browser()
    asked = browser.log_in()
    assert refusal(asked) == (401, "mfa_required")
    assert asked.json()["details"]["methods"] == ["totp", "recovery_codes"]
    assert refusal(browser.get("/me")) == (401, "not_authenticated")
    assert browser.log_in(code=code_of(key)).status_code == 200
    assert browser.get("/me").json()["username"] == "ann"


def test_a_token_by_password_needs_the_code(enrolled):
    _, key, _ = enrolled
    body = {"username": "ann", "password": PASSWORD, "name": "laptop"}
    assert refusal(Api().post("/auth/token", body)) == (401, "mfa_required")
    assert refusal(Api().post("/auth/token", body | {"code": "000000"}))[1] == "mfa_code_wrong"
    made = Api().post("/auth/token", body | {"code": code_of(key)})
    assert made.status_code == 201
    assert made.json()["token"]


def test_who_has_not_the_password_learns_nothing_of_mfa(enrolled):
    _, key, _ = enrolled
    body = {"username": "ann", "password": "wrong", "code": code_of(key)}
    assert refusal(Api().post("/auth/login", body)) == (401, "login_failed")


@pytest.mark.parametrize("shift", [0, STEP_S, 2 * STEP_S])
def test_a_code_works_once_as_long_as_it_would_be_valid(enrolled, clock, shift):
    _, key, _ = enrolled
    code = code_of(key, steps=1)  # of a clock that is ahead
    assert Browser().log_in(code=code).status_code == 200
    clock.shift(shift)
    assert refusal(Browser().log_in(code=code)) == (401, "mfa_code_wrong")


def test_the_code_of_the_set_up_is_used_up(ann):
    browser = Browser()
    browser.log_in()
    key, _ = enrol(browser)
    assert refusal(Browser().log_in(code=code_of(key))) == (401, "mfa_code_wrong")


@pytest.mark.parametrize(("steps", "works"), [(-2, False), (-1, True), (1, True), (2, False)])
def test_a_clock_may_differ_by_one_step(enrolled, clock, steps, works):
    _, key, _ = enrolled
    clock.shift(5 * STEP_S)
    assert (Browser().log_in(code=code_of(key, steps)).status_code == 200) is works


@pytest.mark.django_db(transaction=True)
def test_of_two_logins_with_one_code_at_once_one_is_refused(enrolled):
    _, key, _ = enrolled
    code = code_of(key)

    def attempt(_: int) -> int:
        try:
            return int(Browser().log_in(code=code).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [200, 401, 401, 401]


def test_a_recovery_code_works_once_and_is_audited(enrolled):
    browser, _, codes = enrolled
    assert len(set(codes)) == 10
    assert Browser().log_in(code=codes[3]).status_code == 200
    assert refusal(Browser().log_in(code=codes[3])) == (401, "mfa_code_wrong")
    assert browser.get("/me/mfa").json()["recovery_codes_left"] == 9
    entry = AuditEntry.objects.get(action="mfa.recovery_code.use")
    assert (entry.target_name, entry.facts) == ("ann", {"left": 9})


def test_new_recovery_codes_replace_the_former_ones(enrolled):
    browser, key, codes = enrolled
    assert refusal(browser.post("/me/mfa/recovery-codes", {"code": "1"}))[1] == "mfa_code_wrong"
    renewed = browser.post("/me/mfa/recovery-codes", {"code": code_of(key)})
    assert not set(renewed.json()["recovery_codes"]) & set(codes)
    assert refusal(Browser().log_in(code=codes[0]))[1] == "mfa_code_wrong"
    assert Browser().log_in(code=renewed.json()["recovery_codes"][0]).status_code == 200


def test_guesses_with_the_right_password_are_throttled(enrolled, monkeypatch):
    _, key, _ = enrolled
    monkeypatch.setattr(throttle, "PER_USER", 4)
    answers = [Browser().log_in(code=f"{n:06}").json()["code"] for n in range(6)]
    assert answers == ["mfa_code_wrong"] * 4 + ["throttled"] * 2
    # Giving the password alone in between does not begin the count anew.
    assert refusal(Browser().log_in()) == (429, "throttled")
    assert refusal(Browser().log_in(code=code_of(key))) == (429, "throttled")


def test_guesses_from_many_addresses_are_throttled(enrolled, monkeypatch):
    _, key, _ = enrolled
    monkeypatch.setattr(throttle, "CODES", 3)

    def guess(number: int, code: str) -> Any:
        body = {"username": "ann", "password": PASSWORD, "code": code}
        return Api().post("/auth/login", body, REMOTE_ADDR=f"203.0.113.{number}")

    codes = [refusal(guess(n, f"{n:06}"))[1] for n in range(4)]
    assert codes == ["mfa_code_wrong"] * 3 + ["throttled"]
    assert refusal(guess(9, code_of(key))) == (429, "throttled")


def test_a_wrong_code_is_audited_and_the_question_is_not(enrolled):
    Browser().log_in()
    Browser().log_in(code="000000")
    entries = AuditEntry.objects.filter(action="login.failed")
    assert [(e.target_name, e.facts["code"]) for e in entries] == [("ann", "mfa_code_wrong")]


def test_setting_up_needs_the_password_and_a_code(ann):
    browser = Browser()
    browser.log_in()
    assert refusal(browser.post("/me/mfa/confirm", {"code": "1"})) == (409, "mfa_not_started")
    assert refusal(browser.post("/me/mfa/start", {"password": "no"})) == (400, "password_wrong")
    made = browser.post("/me/mfa/start", {"password": PASSWORD}).json()
    assert made["url"].startswith("otpauth://totp/ann?secret=" + made["key"])
    assert made["qr_path"].startswith("M")
    assert refusal(browser.post("/me/mfa/confirm", {"code": "1"})) == (400, "mfa_code_wrong")
    assert browser.get("/me/mfa").json()["enabled"] is False
    assert Browser().log_in().status_code == 200, "what is not confirmed asks for nothing"


def test_setting_up_ends_other_sessions_and_keeps_this_one(ann):
    other, browser = Browser(), Browser()
    other.log_in()
    browser.log_in()
    enrol(browser)
    assert other.get("/me").status_code == 401
    assert browser.get("/me").status_code == 200
    assert refusal(browser.post("/me/mfa/start", {"password": PASSWORD})) == (409, "mfa_enabled")


def test_a_token_changes_nothing(enrolled):
    browser, key, _ = enrolled
    api = Api(User.objects.get(username="ann"))
    for path in ("start", "confirm", "recovery-codes", "disable"):
        body = {"password": PASSWORD, "code": code_of(key)}
        assert refusal(api.post(f"/me/mfa/{path}", body)) == (403, "session_required")
    assert browser.get("/me/mfa").json()["enabled"] is True


@pytest.mark.parametrize("by", ["password", "code", "recovery_code"])
def test_switching_off_needs_the_password_or_a_code(enrolled, by):
    browser, key, codes = enrolled
    assert refusal(browser.post("/me/mfa/disable", {"password": "no"}))[1] == "password_wrong"
    assert refusal(browser.post("/me/mfa/disable", {"code": "1"}))[1] == "mfa_code_wrong"
    assert refusal(browser.post("/me/mfa/disable", {}))[1] == "password_wrong"
    body = {
        "password": {"password": PASSWORD},
        "code": {"code": code_of(key)},
        "recovery_code": {"code": codes[0]},
    }[by]
    assert browser.post("/me/mfa/disable", body).status_code == 204
    assert browser.get("/me").status_code == 200, "this session goes on"
    assert Browser().log_in().status_code == 200
    assert not Authenticator.objects.exists()


def test_an_admin_resets_it_and_the_sessions_end(enrolled):
    browser, _, _ = enrolled
    admin = Api(make_user("root", admin=True))
    assert admin.get("/users/ann").json()["mfa"] is True
    assert admin.delete("/users/ann/mfa").status_code == 204
    assert browser.get("/me").status_code == 401
    assert Browser().log_in().status_code == 200
    assert refusal(admin.delete("/users/ann/mfa")) == (409, "mfa_disabled")
    entry = AuditEntry.objects.get(action="mfa.reset")
    assert (entry.actor_name, entry.target_name) == ("root", "ann")


def test_keys_and_codes_are_nowhere_in_the_clear(enrolled):
    _, key, codes = enrolled
    with connection.cursor() as cursor:
        for table in ("mfa_authenticator", "audit_entry", "django_session"):
            cursor.execute(f"SELECT t::text FROM {table} t")
            rows = " ".join(row[0] for row in cursor.fetchall())
            assert not [secret for secret in (key, *codes) if secret in rows]


def test_a_key_that_no_server_opens_is_a_refusal(enrolled, settings):
    settings.SECRET_KEY = "another-key-of-more-than-32-characters"
    assert refusal(Browser().log_in(code="123456")) == (409, "mfa_locked")


@pytest.mark.parametrize(("whom", "required"), [("", ""), ("admins", "root"), ("all", "ann root")])
def test_who_must_set_it_up_does_nothing_else_before(settings, ann, whom, required):
    settings.SKEP_REQUIRE_MFA = whom
    make_user("root", admin=True)
    for name in ("ann", "root"):
        browser = Browser()
        me = browser.log_in(name).json()
        token = {"username": name, "password": PASSWORD}
        if name in required.split():
            assert me["mfa_setup_required"] is True
            assert refusal(browser.get("/jobs")) == (403, "mfa_setup_required")
            assert refusal(browser.post("/auth/tokens", {})) == (403, "mfa_setup_required")
            assert refusal(Api().post("/auth/token", token)) == (403, "mfa_setup_required")
            enrol(browser)
        assert browser.get("/me").json()["mfa_setup_required"] is False
        assert browser.get("/jobs").status_code == 200


def test_a_session_without_a_second_factor_opens_no_socket_where_one_is_required(settings, ann):
    from skep_platform.gateway.callers import Credential

    browser = Browser()
    browser.log_in()
    credential = Credential("", browser.client.cookies["skep_session"].value)
    assert credential.user() == ann
    settings.SKEP_REQUIRE_MFA = "all"
    assert credential.user() is None
    enrol(browser)
    assert Credential("", browser.client.cookies["skep_session"].value).user() == ann


def test_no_page_of_allauth_is_served(client):
    for path in ("accounts/login/", "accounts/2fa/", "accounts/signup/", "accounts/logout/"):
        body = client.get(f"/{path}").content.decode(errors="replace")
        assert "csrfmiddlewaretoken" not in body


def test_a_qr_code_is_what_a_reader_expects():
    """Each dark module is a square of its own, in a picture of 100 by 100."""
    path = mfa.qr_path("otpauth://totp/ann?secret=ABC")
    assert path.startswith("M0.000 0.000h")  # the finder pattern at the corner
    assert set(path) <= set("M0123456789. hvz-")
