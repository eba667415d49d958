"""What an authenticator app shows, and how a browser sets one up."""

from __future__ import annotations

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.utils import timezone
from tests.support.platform_api import Api
from tests.support.platform_factories import PASSWORD

STEP_S = 30


def code_of(key: str, steps: int = 0) -> str:
    """Return what an app shows `steps` steps after the present one."""
    counter = int(timezone.now().timestamp()) // STEP_S + steps
    return format_hotp_value(hotp_value(key, counter))


def start(browser: Api, password: str = PASSWORD) -> str:
    """Return the key that the page shows to a user who sets up an app."""
    return str(browser.post("/me/mfa/start", {"password": password}).json()["key"])


def enrol(browser: Api, password: str = PASSWORD) -> tuple[str, list[str]]:
    """Set up MFA as the settings page does. Returns the key and the recovery codes."""
    key = start(browser, password)
    answer = browser.post("/me/mfa/confirm", {"code": code_of(key)})
    assert answer.status_code == 200, answer.content
    return key, answer.json()["recovery_codes"]
