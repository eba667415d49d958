"""Users, as the admin manages them, and the first admin."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import PASSWORD, make_user

from skep_platform.accounts.models import User
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db


def ensure_admin(*args: str) -> dict[str, str]:
    out = StringIO()
    call_command("skep_ensure_admin", *args, stdout=out)
    return json.loads(out.getvalue() or "{}")


def test_admin_creates_reads_lists_and_changes_users(admin):
    body = {"username": "ann", "password": "a-long-password", "email": "ann@example.org"}
    made = admin.post("/users", body)
    assert made.status_code == 201
    assert "password" not in made.json()
    assert admin.get("/users/ann").json() == made.json()
    names = [row["username"] for row in admin.get("/users").json()["results"]]
    assert names == ["ann", "root"]
    changed = admin.patch("/users/ann", {"email": "", "is_admin": True})
    assert (changed.json()["email"], changed.json()["is_admin"]) == ("", True)


def test_users_come_in_pages(admin):
    for i in range(5):
        make_user(f"u{i}")
    first = admin.get("/users", limit=4).json()
    assert first["previous"] is None
    second = admin.client.get(first["next"]).json()
    names = [row["username"] for row in first["results"] + second["results"]]
    assert names == ["root", "u0", "u1", "u2", "u3", "u4"]
    assert second["next"] is None


def test_changes_report_who_made_them_and_never_the_password(admin):
    admin.post("/users", {"username": "ann", "password": "a-long-password"})
    admin.patch("/users/ann", {"password": "another-long-one"})
    events = list(Event.objects.filter(subject_type="user").values())
    assert [e["actor"] for e in events] == ["root", "root"]
    assert "long" not in str(events)


def test_taken_name_is_a_conflict(admin):
    body = {"username": "root", "password": "a-long-password"}
    assert refusal(admin.post("/users", body)) == (409, "name_taken")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 151, "<script>", "a\x00b"])
def test_user_names_are_plain(admin, name):
    body = {"username": name, "password": "a-long-password"}
    assert admin.post("/users", body).status_code == 400


@pytest.mark.parametrize("change", [{"is_admin": False}, {"is_active": False}])
def test_last_admin_must_stay(admin, change):
    assert refusal(admin.patch("/users/root", change)) == (409, "last_admin")
    make_user("second", admin=True)
    assert admin.patch("/users/root", change).status_code == 200


def test_unknown_user_is_not_found(admin):
    assert refusal(admin.get("/users/nobody")) == (404, "not_found")
    assert refusal(admin.patch("/users/nobody", {"email": ""})) == (404, "not_found")


@pytest.mark.parametrize("field", ["id", "is_superuser", "sign_outs", "username", "date_joined"])
def test_22_fields_that_are_not_for_the_caller_are_refused_by_name(admin, field):
    make_user("ann")
    answer = admin.patch("/users/ann", {field: 1})
    assert refusal(answer) == (400, "invalid")
    assert list(answer.json()["details"]["fields"]) == [field]


def test_ensure_admin_creates_the_first_admin_once():
    result = ensure_admin("--username", "boss")
    user = User.objects.get(username="boss")
    assert user.is_admin
    assert user.check_password(result["password"])
    assert ensure_admin() == {}


def test_ensure_admin_ignores_a_deactivated_admin():
    make_user("old", admin=True, is_active=False)
    assert ensure_admin()["username"] == "admin"


def test_23_new_user_has_no_right_anywhere(admin):
    admin.post("/users", {"username": "ann", "password": "a-long-password"})
    admin.post("/virtual-clusters", {"name": "vision"})
    ann = Api(User.objects.get(username="ann"))
    me = ann.get("/me").json()
    assert (me["is_admin"], me["virtual_clusters"]) == (False, [])
    assert ann.get("/virtual-clusters").json()["results"] == []


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/users", "/api/v1/auth/signup", "/api/v1/me", "/signup", "/accounts/signup/"),
        *("/accounts/login/", "/_allauth/browser/v1/auth/signup", "/auth/signup"),
    ],
)
def test_23_no_one_makes_an_account_for_themselves(path):
    """No route of an included library is open either: allauth brings some."""
    account = {"username": "eve", "password": "a-long-password", "email": "eve@example.org"}
    answer = Api().client.post(path, account, format="json")
    assert 400 <= answer.status_code < 500, path
    assert not User.objects.exists()


def test_an_address_that_no_row_holds_is_refused(admin):
    long = f"ann@{'x' * 60}.{'x' * 60}.{'x' * 60}.{'x' * 60}.{'x' * 20}.org"
    make_user("ann")
    body = {"username": "bob", "password": PASSWORD, "email": long}
    for answer in (admin.post("/users", body), admin.patch("/users/ann", {"email": long})):
        assert refusal(answer) == (400, "invalid")
