"""Many users from one CSV file: all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from tests.support.examples import examples
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts import groups
from skep_platform.accounts.models import GroupMember, User
from skep_platform.core.errors import SkepError
from skep_platform.tenancy import user_import
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db

HEADER = "username,email,groups,virtual_clusters\n"
GOOD = HEADER + (
    "mei,mei@example.org,research,vision:admin;nlp\n"
    'omar,omar@example.org,"research;ops",vision\n'
    "kim,,,nlp:viewer\n"
)


@pytest.fixture
def teams(admin) -> None:
    for name in ("research", "ops"):
        groups.create(admin.user, name)
    for name in ("vision", "nlp"):
        make_vc(name)


def send(admin: Api, text: str, **more: Any) -> Any:
    return admin.post("/user-imports", {"csv": text, **more})


def roles() -> set[tuple[str, str, str]]:
    return set(Membership.objects.values_list("user__username", "vc__name", "role"))


def test_users_groups_and_roles_come_from_one_file(admin, teams):
    rows = send(admin, GOOD).json()["users"]
    assert [(row["username"], row["is_new"]) for row in rows] == [
        ("mei", True),
        ("omar", True),
        ("kim", True),
    ]
    assert roles() == {
        ("mei", "vision", "admin"),
        ("mei", "nlp", "member"),
        ("omar", "vision", "member"),
        ("kim", "nlp", "viewer"),
    }
    assert groups.names_of(User.objects.get(username="omar")) == ["ops", "research"]


def test_a_new_user_sets_a_password_by_the_link_and_has_none_before(admin, teams):
    url = send(admin, GOOD).json()["users"][0]["reset_url"]
    token = url.rpartition("token=")[2]
    login = {"username": "mei", "password": ""}
    assert Api().post("/auth/login", login).status_code == 400
    new = {"username": "mei", "token": token, "new": "a-long-passphrase-1"}
    assert Api().post("/auth/password-reset", new).status_code == 204
    login["password"] = "a-long-passphrase-1"
    assert Api().post("/auth/token", login).status_code == 201


def test_a_second_import_changes_nothing_and_lowers_no_role(admin, teams):
    send(admin, GOOD)
    before = (roles(), GroupMember.objects.count(), User.objects.count())
    rows = send(admin, GOOD.replace("vision:admin", "vision:viewer")).json()["users"]
    assert not any(row["is_new"] or row["reset_url"] for row in rows)
    assert (roles(), GroupMember.objects.count(), User.objects.count()) == before


def test_a_dry_run_only_checks(admin, teams):
    rows = send(admin, GOOD, dry_run=True).json()["users"]
    assert len(rows) == 3
    assert not any(row["reset_url"] for row in rows)
    assert User.objects.count() == 1


TOO_LONG = f"ann@{'.'.join(['x' * 60] * 4)}.{'x' * 20}.org"  # for a row


@pytest.mark.parametrize(
    ("text", "line", "column", "code"),
    [
        ("", 1, "username", "column_missing"),
        ("name,email\n", 1, "username", "column_missing"),
        ("username,is_admin\nmei,true\n", 1, "is_admin", "column_unknown"),
        (GOOD + "no name,,,\n", 5, "username", "name_invalid"),
        (GOOD + ",,,\n", 5, "username", "name_invalid"),
        (GOOD + "mei,,,\n", 5, "username", "name_taken"),
        (GOOD + "ann,not-an-address,,\n", 5, "email", "email_invalid"),
        (GOOD + f"ann,{TOO_LONG},,\n", 5, "email", "email_invalid"),
        (GOOD + "ann,,unknown,\n", 5, "groups", "not_found"),
        (GOOD + "ann,,,unknown\n", 5, "virtual_clusters", "not_found"),
        (GOOD + "ann,,,vision:owner\n", 5, "virtual_clusters", "role_unknown"),
        (GOOD + "ann,,,,one too many\n", 5, "", "row_invalid"),
        (GOOD + "ann\n", 5, "", "row_invalid"),
        (GOOD + 'ann,"unclosed\n', 5, "", "row_invalid"),
    ],
)
def test_one_bad_row_changes_nothing_and_is_named(admin, teams, text, line, column, code):
    answer = send(admin, text)
    assert refusal(answer) == (400, "import_invalid" if text else "invalid")
    assert User.objects.count() == 1
    if text:
        found = [(p["line"], p["column"], p["code"]) for p in answer.json()["details"]["problems"]]
        assert (line, column, code) in found


def test_files_are_bounded(admin, teams):
    rows = "".join(f"u{i},,,\n" for i in range(user_import.MAX_ROWS + 1))
    assert refusal(send(admin, HEADER + rows)) == (400, "import_too_large")
    answer = send(admin, HEADER + "bad name,,,\n" * 500)
    details = answer.json()["details"]
    assert (len(details["problems"]), details["total"] >= 500) == (user_import.MAX_PROBLEMS, True)


def test_files_of_spreadsheets_are_read(admin, teams):
    """A byte order mark, lines that end as on Windows, and spaces around names."""
    text = "\ufeff" + GOOD.replace("\n", "\r\n").replace("mei,", " mei , ")
    rows = send(admin, text).json()["users"]
    assert [row["username"] for row in rows] == ["mei", "omar", "kim"]
    assert ("mei", "vision", "admin") in roles()


def test_a_file_with_other_separators_says_so(admin, teams):
    answer = send(admin, GOOD.replace(";", "/").replace(",", ";"))
    assert refusal(answer) == (400, "import_invalid")
    (problem,) = answer.json()["details"]["problems"]
    assert (problem["line"], problem["code"]) == (1, "separator_unknown")
    assert "comma" in problem["message"]


def test_a_bad_row_is_named_by_its_line_after_a_row_of_several_lines(admin, teams):
    answer = send(admin, HEADER + 'mei,mei@example.org,"research;\nops",\nno name,,,\n')
    (problem,) = answer.json()["details"]["problems"]
    assert (problem["line"], problem["code"]) == (4, "name_invalid")


@pytest.mark.parametrize("bad", [False, True])
def test_the_largest_file_is_taken_whole_or_not_at_all(
    admin, teams, bad, django_assert_max_num_queries
):
    last = user_import.MAX_ROWS - 1
    rows = "".join(f"user-{i},,research,vision\r\n" for i in range(last))
    rows += f"user-{last},,{'unknown' if bad else 'research'},vision\r\n"
    with django_assert_max_num_queries(60):
        answer = send(admin, HEADER + rows)
    if not bad:
        assert len(answer.json()["users"]) == user_import.MAX_ROWS
        assert Membership.objects.count() == GroupMember.objects.count() == user_import.MAX_ROWS
        return
    (problem,) = answer.json()["details"]["problems"]
    assert (problem["line"], problem["code"]) == (user_import.MAX_ROWS + 1, "not_found")
    assert User.objects.count() == 1


def test_a_file_costs_a_constant_number_of_statements(admin, teams, django_assert_max_num_queries):
    rows = "".join(f"u{i},u{i}@example.org,research,vision;nlp:viewer\n" for i in range(300))
    with django_assert_max_num_queries(30):
        user_import.import_users(admin.user, HEADER + rows)
    assert Membership.objects.count() == 600


class AnyText(TestCase):
    @settings(max_examples=examples(60), deadline=None)
    @given(st.text(alphabet=st.sampled_from('abc,;:"\n\r\t\0é'), max_size=60))
    def test_any_text_is_imported_or_refused(self, text: str) -> None:
        actor = User.objects.filter(username="root").first() or make_user("root", admin=True)
        before = User.objects.count()
        try:
            rows = user_import.import_users(actor, HEADER + text)
        except SkepError:
            rows = []
        assert User.objects.count() == before + sum(row.is_new for row in rows)
