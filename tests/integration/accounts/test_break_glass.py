"""The command that lets a user in again from the server's machine."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from tests.support import mfa
from tests.support.platform_api import Api, session
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.accounts.models import User
from skep_platform.accounts.services import create_token
from skep_platform.audit.models import AuditEntry

pytestmark = pytest.mark.django_db


def reset(*args: str) -> str:
    """Run the command, and return the password that it prints."""
    out = StringIO()
    call_command("skep_reset_password", *args, "--reason", "lost phone", stdout=out)
    found = json.loads(out.getvalue())
    assert found["username"] == args[0]
    return found["password"]


def logs_in(password: str) -> bool:
    body = {"username": "ann", "password": password}
    return Api().post("/auth/login", body).status_code == 200


def test_the_new_password_is_the_only_way_in_and_the_reason_is_recorded():
    ann = make_user("ann", admin=True)
    browser = session(ann)
    program = Api()
    secret = create_token(ann, "script")[1]
    program.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert browser.get("/me").status_code == program.get("/me").status_code == 200
    password = reset("ann")
    assert browser.get("/me").status_code == program.get("/me").status_code == 401
    assert (logs_in(PASSWORD), logs_in(password)) == (False, True)
    entry = AuditEntry.objects.get(action="user.break_glass")
    assert (entry.target_name, entry.facts["reason"]) == ("ann", "lost phone")
    assert "@" in entry.facts["by"]
    assert password not in str(AuditEntry.objects.values_list())


def test_the_second_factor_goes_only_where_it_is_asked_for():
    ann = make_user("ann")
    mfa.enrol(session(ann))
    assert not logs_in(reset("ann"))  # a code is wanted still
    assert logs_in(reset("ann", "--reset-mfa"))
    assert logs_in(reset("ann", "--reset-mfa"))  # without one there is nothing to switch off


def test_who_is_deactivated_comes_back_only_where_it_is_asked_for():
    make_user("ann", is_active=False)
    with pytest.raises(CommandError, match="user_inactive"):
        reset("ann")
    assert logs_in(reset("ann", "--activate"))
    assert User.objects.get(username="ann").is_active


@pytest.mark.parametrize("name", ["nobody", "svc.robot"])
def test_who_does_not_log_in_gets_no_password(name):
    make_user("svc.robot", is_service_account=True)
    with pytest.raises(CommandError, match="not_found"):
        reset(name)
    with pytest.raises(CommandError, match="reason_missing"):
        call_command("skep_reset_password", name, "--reason", " ")
