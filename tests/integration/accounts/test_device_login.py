"""Logging a program in by a browser: RFC 8628."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tests.support.clocks import every_clock_at
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.accounts import device, services
from skep_platform.accounts.models import ApiToken, DeviceLogin, User
from skep_platform.accounts.tasks import tidy
from skep_platform.audit.models import AuditEntry
from skep_platform.core.errors import Unauthorized

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def begin(scope: str = "submit") -> dict[str, Any]:
    answer = Api().post("/auth/device", {"name": "skep on a-laptop", "scope": scope})
    assert answer.status_code == 200
    return answer.json()


def fetch(begun: dict[str, Any]) -> Any:
    return Api().post("/auth/device/token", {"device_code": begun["device_code"]})


def decide(api: Api, begun: dict[str, Any], allow: bool = True, **more: Any) -> Any:
    return api.post("/me/device", {"code": begun["user_code"], "allow": allow, **more})


def later(seconds: float) -> Any:
    return every_clock_at(timezone.now() + timedelta(seconds=seconds))


def test_a_program_gets_a_token_once_its_user_has_allowed_it(ada):
    begun = begin()
    assert begun["verification_uri_complete"].endswith(f"/device?code={begun['user_code']}")
    assert refusal(fetch(begun)) == (400, "authorization_pending")
    browser = session(ada)
    shown = browser.get("/me/device", code=begun["user_code"].lower().replace("-", " ")).json()
    assert (shown["name"], shown["scope"], shown["address"]) == (
        *("skep on a-laptop", "submit"),
        "127.0.0.1",
    )
    assert decide(browser, begun, scope="read", expires_in_s=3600).status_code == 204
    with later(6):
        made = fetch(begun)
        assert made.status_code == 201
        assert refusal(fetch(begun)) == (400, "expired_token")
    token = ApiToken.objects.get(name="skep on a-laptop")
    assert (token.user, token.scope) == (ada, "read")
    assert token.expiry < timezone.now() + timedelta(hours=2)
    program = Api()
    program.client.credentials(HTTP_AUTHORIZATION=f"Bearer {made.json()['token']}")
    assert program.get("/me").json()["username"] == "ada"
    entry = AuditEntry.objects.get(action="login.succeeded")
    assert (entry.actor_name, entry.facts["method"]) == ("ada", "device")


@pytest.mark.parametrize("more", [{}, {"expires_in_s": 3_000_000_000}])
def test_a_denied_login_gets_nothing(ada, more):
    begun = begin()
    assert decide(session(ada), begun, allow=False, **more).status_code == 204
    assert refusal(fetch(begun)) == (400, "access_denied")
    assert refusal(fetch(begun)) == (400, "expired_token")
    assert not ApiToken.objects.exists()


def test_codes_work_once_and_for_ten_minutes(ada):
    begun, browser = begin(), session(ada)
    with later(601):
        assert refusal(decide(session(ada), begun)) == (404, "device_code_unknown")
        assert refusal(fetch(begun)) == (400, "expired_token")
        tidy()
    assert not DeviceLogin.objects.exists()
    begun = begin()
    assert decide(browser, begun).status_code == 204
    eve = session(make_user("eve"))
    assert refusal(decide(eve, begun)) == (404, "device_code_unknown")
    assert refusal(browser.get("/me/device", code=begun["user_code"]))[0] == 404


def test_who_was_deactivated_in_between_is_not_logged_in(ada):
    begun = begin()
    decide(session(ada), begun)
    User.objects.update(is_active=False)
    assert refusal(fetch(begun)) == (400, "access_denied")


def test_a_new_password_ends_logins_that_were_allowed_and_not_fetched(ada):
    begun, browser = begin(), session(ada)
    assert decide(browser, begun).status_code == 204
    body = {"current": PASSWORD, "new": "an-entirely-new-one"}
    assert browser.post("/me/password", body).status_code == 204
    assert refusal(fetch(begun)) == (400, "expired_token")
    assert not ApiToken.objects.exists()


def test_a_session_that_ended_meanwhile_allows_nothing(ada):
    kept, code = device.start("skep on a-laptop", "submit")
    services.end_other_sessions(User.objects.get())
    with pytest.raises(Unauthorized):
        device.decide(ada, code, True, "submit", None)
    assert refusal(fetch({"device_code": kept})) == (400, "authorization_pending")


def test_a_token_allows_no_further_one_and_no_one_allows_nothing(ada):
    begun = begin()
    assert refusal(decide(Api(ada), begun)) == (403, "session_required")
    assert decide(Api(), begun).status_code == 401
    assert refusal(fetch(begun)) == (400, "authorization_pending")


def test_a_lifetime_that_is_too_long_is_refused(ada, settings):
    settings.SKEP_TOKEN_MAX_DAYS = 10
    begun = begin()
    answer = decide(session(ada), begun, expires_in_s=11 * 86_400)
    assert refusal(answer) == (400, "ttl_invalid")


def test_a_program_that_asks_too_often_waits_and_codes_are_not_guessed(ada):
    begun = begin()
    assert refusal(fetch(begun)) == (400, "authorization_pending")
    assert refusal(fetch(begun)) == (400, "slow_down")
    browser = session(ada)
    answers = [browser.get("/me/device", code="BBBB-BBBB").status_code for _ in range(21)]
    assert answers == [404] * 20 + [429]
    answers = [Api().post("/auth/device", {"name": "x"}).status_code for _ in range(20)]
    assert answers[-1] == 429


def test_no_code_is_stored(ada):
    begun = begin()
    row = DeviceLogin.objects.values().get()
    for code in (begun["device_code"], begun["user_code"], begun["user_code"].replace("-", "")):
        assert code not in str(row)
