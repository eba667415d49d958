"""Logging in by the password of a directory: Debian's slapd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from tests.support import mfa, slapd
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_user, make_vc
from tests.support.slapd import BASE, Directory, directory, person

from skep_platform import env_settings
from skep_platform.accounts import groups, ldap_sync
from skep_platform.accounts.models import ApiToken, User
from skep_platform.audit.models import AuditEntry
from skep_platform.core.errors import Unavailable
from skep_platform.tenancy import memberships

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    people = (person("mei"), person("omar"), person("ann"), person("root"))
    with directory(tmp_path_factory.mktemp("slapd"), *people) as found:
        yield found


@pytest.fixture
def ldap(served: Directory, settings: Any, tmp_path: Path) -> Directory:
    configure(settings, served, tmp_path)
    return served


def configure(settings: Any, served: Directory, folder: Path) -> None:
    cache.delete(ldap_sync.CURSOR)
    secret = folder / "bind-password"
    secret.write_text(slapd.SERVICE_PASSWORD + "\n")
    settings.SKEP_LDAP_URI = served.tls
    settings.SKEP_LDAP_CA_FILE = str(served.ca)
    settings.SKEP_LDAP_BIND_DN = slapd.SERVICE
    settings.SKEP_LDAP_BIND_PASSWORD_FILE = str(secret)
    settings.SKEP_LDAP_USER_BASE = f"ou=people,{BASE}"
    settings.SKEP_LDAP_GROUP_BASE = f"ou=groups,{BASE}"


def log_in(username: str = "mei", password: str = slapd.PASSWORD, api: Api | None = None) -> Any:
    return (api or Api()).post("/auth/login", {"username": username, "password": password})


def research(vc_name: str = "team") -> None:
    group = groups.create(make_user(admin=True), "science", external_name="research")
    memberships.set_group(None, make_vc(vc_name), group.name, "member")


def test_23_the_first_login_makes_an_account_with_the_least_rights(ldap):
    make_vc("team")
    browser = Api()
    me = log_in(api=browser).json()
    assert (me["username"], me["email"]) == ("mei", "mei@example.org")
    assert (me["is_admin"], me["virtual_clusters"]) == (False, [])
    assert browser.get("/me").json()["username"] == "mei"
    assert not User.objects.get(username="mei").has_usable_password()
    made = AuditEntry.objects.get(action="login.succeeded")
    assert (made.target_name, made.facts["method"]) == ("mei", "ldap")


def test_a_command_line_gets_a_token_by_the_same_password(ldap):
    answer = Api().post("/auth/token", {"username": "mei", "password": slapd.PASSWORD})
    assert answer.status_code == 201


def test_the_password_of_another_person_of_this_name_confirms_no_token_of_a_service_account(ldap):
    log_in("ann")
    User.objects.filter(username="ann").update(username="ann-of-the-directory")
    ann = make_user("ann")  # logs in by single sign-on
    User.objects.filter(pk=ann.pk).update(password="!")
    make_vc("team", vc_admins=[ann])
    api, accounts = Api(ann), "/virtual-clusters/team/service-accounts"
    assert api.post(accounts, {"name": "ci"}).status_code == 201
    refused = api.post(f"{accounts}/ci/tokens", {"password": slapd.PASSWORD})
    assert refusal(refused) == (401, "login_failed")
    assert not ApiToken.objects.filter(user__is_service_account=True).exists()


def test_groups_follow_the_directory_at_each_login(ldap):
    research()
    browser = Api()
    assert [vc["name"] for vc in log_in(api=browser).json()["virtual_clusters"]] == ["team"]
    change = f"dn: cn=research,ou=groups,{BASE}\nchangetype: modify\n{{}}: member\n"
    member = f"member: uid=mei,ou=people,{BASE}\n"
    ldap.change(change.format("delete") + member)
    try:
        assert log_in().json()["virtual_clusters"] == []
    finally:
        ldap.change(change.format("add") + member)
    assert log_in("ann").json()["virtual_clusters"] == []


def test_groups_are_not_touched_where_none_are_searched(ldap, settings):
    settings.SKEP_LDAP_GROUP_BASE = ""
    research()
    assert log_in().json()["virtual_clusters"] == []


def test_a_search_for_groups_that_fails_takes_no_one_out(ldap, settings):
    research()
    log_in()
    settings.SKEP_LDAP_GROUP_BASE = "ou=absent,dc=example,dc=org"
    assert refusal(log_in()) == (503, "ldap_unavailable")
    assert User.objects.get(username="mei").group_members.count() == 1


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("mei", "wrong"),
        ("mei", ""),
        ("nobody", slapd.PASSWORD),
        ("*", slapd.PASSWORD),
        ("mei)(uid=*", slapd.PASSWORD),
        ("mei)(|(uid=*", slapd.PASSWORD),
        ("\\2a", slapd.PASSWORD),
    ],
)
def test_32_wrong_names_and_passwords_and_filters_in_names_are_refused(ldap, username, password):
    answer = log_in(username, password)
    assert answer.status_code in (400, 401)
    if password:
        assert refusal(answer) == (401, "login_failed")
    assert not User.objects.exists()


def test_a_deactivated_user_stays_out(ldap):
    log_in()
    User.objects.update(is_active=False)
    assert refusal(log_in()) == (403, "account_inactive")
    assert AuditEntry.objects.filter(facts__code="account_inactive").exists()


def test_a_user_whom_the_filter_leaves_out_stays_out(ldap, settings):
    settings.SKEP_LDAP_USER_FILTER = "(&(uid=%(user)s)(!(mail=mei@example.org)))"
    assert refusal(log_in()) == (401, "login_failed")
    assert log_in("ann").status_code == 200


class TestSync:
    """The filter says who is disabled, as it does in a directory of Active Directory."""

    FILTER = "(&(uid=%(user)s)(!(mail=mei@example.org)))"

    def users(self) -> tuple[Api, Api]:
        mei, ann = Api(), Api()
        log_in("mei", api=mei)
        log_in("ann", api=ann)
        for api in (mei, ann):
            assert api.get("/me").status_code == 200
        return mei, ann

    def test_who_is_disabled_loses_sessions_and_tokens(self, ldap, settings):
        mei, ann = self.users()
        Api().post("/auth/token", {"username": "mei", "password": slapd.PASSWORD})
        assert ldap_sync.sync() == 0
        assert mei.get("/me").status_code == 200
        settings.SKEP_LDAP_USER_FILTER = self.FILTER
        assert ldap_sync.sync() == 1
        assert mei.get("/me").status_code == 401
        assert ann.get("/me").status_code == 200
        assert not ApiToken.objects.exists()
        entry = AuditEntry.objects.get(action="user.sign_out")
        assert (entry.actor_kind, entry.target_name) == ("system", "mei")
        assert ldap_sync.sync() == 0

    def test_a_directory_that_does_not_answer_ends_nothing(self, ldap, settings):
        mei, _ = self.users()
        settings.SKEP_LDAP_URI = "ldap://127.0.0.1:1"
        with pytest.raises(Unavailable):
            ldap_sync.sync()
        assert mei.get("/me").status_code == 200

    def test_who_was_not_looked_at_is_next_when_it_answers_again(self, ldap, settings, monkeypatch):
        mei, _ = self.users()
        monkeypatch.setattr(ldap_sync, "BATCH", 1)
        settings.SKEP_LDAP_USER_FILTER = self.FILTER
        up, settings.SKEP_LDAP_URI = settings.SKEP_LDAP_URI, "ldap://127.0.0.1:1"
        with pytest.raises(Unavailable):
            ldap_sync.sync()
        settings.SKEP_LDAP_URI = up
        assert ldap_sync.sync() == 1
        assert mei.get("/me").status_code == 401

    @pytest.mark.parametrize(
        ("plausible", "wrong"),
        [(10, "(&(uid=%(user)s)(mail=none))"), (3, "(&(uid=%(user)s)(mail=ann@example.org))")],
    )
    def test_a_mistake_in_the_filter_does_not_sign_everyone_out(
        self, ldap, settings, monkeypatch, plausible, wrong
    ):
        mei, _ = self.users()
        omar = Api()
        log_in("omar", api=omar)
        omar.get("/me")
        monkeypatch.setattr(ldap_sync, "PLAUSIBLE", plausible)
        settings.SKEP_LDAP_USER_FILTER = wrong
        assert ldap_sync.sync() == 0
        assert mei.get("/me").status_code == 200

    def test_after_such_a_round_the_rest_of_the_turn_ends_nothing(
        self, ldap, settings, monkeypatch
    ):
        self.users()
        omar = Api()
        log_in("omar", api=omar)
        omar.get("/me")
        monkeypatch.setattr(ldap_sync, "BATCH", 2)
        settings.SKEP_LDAP_USER_FILTER = "(&(uid=%(user)s)(mail=none))"
        assert [ldap_sync.sync() for _ in range(4)] == [0] * 4
        assert omar.get("/me").status_code == 200

    def test_who_left_long_ago_is_no_sign_of_a_mistake(self, ldap, settings, monkeypatch):
        mei, ann = self.users()
        omar = Api()
        log_in("omar", api=omar)
        omar.get("/me")
        monkeypatch.setattr(ldap_sync, "PLAUSIBLE", 2)
        settings.SKEP_LDAP_USER_FILTER = "(&(uid=%(user)s)(!(mail=omar@example.org)))"
        assert ldap_sync.sync() == 1
        assert omar.get("/me").status_code == 401
        settings.SKEP_LDAP_USER_FILTER = "(&(uid=%(user)s)(mail=ann@example.org))"
        assert ldap_sync.sync() == 1
        assert mei.get("/me").status_code == 401
        assert ann.get("/me").status_code == 200

    @pytest.mark.parametrize("by", ["password", "sso"])
    def test_who_logs_in_otherwise_too_is_left_alone(self, ldap, settings, by):
        self.users()
        user = User.objects.get(username="mei")
        settings.SKEP_OIDC_ISSUER = "https://id.example.org"
        if by == "password":
            user.set_password(PASSWORD)
            user.save()
        else:
            SocialAccount.objects.create(user=user, provider=settings.SKEP_OIDC_ISSUER, uid="1")
        mei = session(user)
        mei.get("/me")
        settings.SKEP_LDAP_USER_FILTER = self.FILTER
        assert ldap_sync.sync() == 0
        assert mei.get("/me").status_code == 200

    def test_rounds_are_bounded_and_come_to_everyone(self, ldap, settings, monkeypatch):
        mei, ann = self.users()
        monkeypatch.setattr(ldap_sync, "BATCH", 1)
        settings.SKEP_LDAP_USER_FILTER = "(&(uid=%(user)s)(!(mail=ann@example.org)))"
        assert [ldap_sync.sync() for _ in range(3)].count(1) == 1
        assert mei.get("/me").status_code == 200
        assert ann.get("/me").status_code == 401


@pytest.mark.parametrize("same", ["username", "email"])
def test_23_a_local_account_is_not_taken_over(ldap, same):
    taken = {"username": {"username": "Mei"}, "email": {"email": "MEI@example.org"}}[same]
    user = make_user(**({"username": "other", "admin": True} | taken))
    user.set_unusable_password()
    user.save()
    answer = log_in("mei")
    assert refusal(answer) == (409, "account_exists")
    assert not SocialAccount.objects.exists()


def test_passwords_of_local_accounts_are_not_sent_to_the_directory(ldap):
    """`root` is in the directory too, and its password there opens nothing here."""
    make_user("root", admin=True)
    assert refusal(log_in("root")) == (401, "login_failed")
    assert log_in("root", PASSWORD).status_code == 200


def test_an_admin_gets_in_while_the_directory_is_down(ldap, settings):
    settings.SKEP_LDAP_URI = "ldap://127.0.0.1:1"
    make_user("root", admin=True)
    assert log_in("root", PASSWORD).status_code == 200
    assert refusal(log_in("mei")) == (503, "ldap_unavailable")


def test_a_renamed_user_keeps_the_account(ldap, settings):
    log_in()
    settings.SKEP_LDAP_USER_FILTER = "(mail=%(user)s@example.org)"
    settings.SKEP_LDAP_USERNAME_ATTRIBUTE = "cn"
    ldap.change(f"dn: uid=mei,ou=people,{BASE}\nchangetype: modify\nreplace: cn\ncn: mei-lin\n")
    try:
        assert log_in().json()["username"] == "mei"
    finally:
        ldap.change(f"dn: uid=mei,ou=people,{BASE}\nchangetype: modify\nreplace: cn\ncn: mei\n")
    assert User.objects.count() == 1


def test_the_second_factor_is_asked_for_as_of_others(ldap, settings):
    settings.SKEP_REQUIRE_MFA = "all"
    browser = Api()
    assert log_in(api=browser).json()["mfa_setup_required"] is True
    mfa.enrol(browser, slapd.PASSWORD)
    assert refusal(log_in()) == (401, "mfa_required")


def test_the_password_is_changed_in_the_directory(ldap):
    browser = Api()
    log_in(api=browser)
    body = {"current": slapd.PASSWORD, "new": "another-fine-password"}
    assert refusal(browser.post("/me/password", body)) == (409, "password_external")


def test_without_local_passwords_the_directory_lets_in(ldap, settings):
    settings.SKEP_PASSWORD_LOGIN = False
    make_user("local")
    assert refusal(log_in("local", PASSWORD)) == (403, "password_login_off")
    assert log_in("mei").status_code == 200
    assert Api().get("/info").json()["password_login"] is True


@pytest.mark.parametrize("start_tls", [True, False])
def test_a_certificate_of_another_authority_is_refused(ldap, settings, start_tls):
    settings.SKEP_LDAP_URI = ldap.plain if start_tls else ldap.tls
    settings.SKEP_LDAP_START_TLS = start_tls
    assert log_in().status_code == 200
    settings.SKEP_LDAP_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
    assert refusal(log_in()) == (503, "ldap_unavailable")


def test_a_wrong_password_of_the_service_is_no_wrong_password_of_the_user(ldap, settings, tmp_path):
    Path(settings.SKEP_LDAP_BIND_PASSWORD_FILE).write_text("wrong")
    answer = log_in()
    assert refusal(answer) == (503, "ldap_unavailable")
    assert slapd.SERVICE not in answer.content.decode()
    settings.SKEP_LDAP_BIND_PASSWORD_FILE = str(tmp_path / "absent")
    assert refusal(log_in()) == (503, "ldap_unavailable")


@pytest.mark.parametrize(
    ("uri", "base", "user_filter", "problem"),
    [
        ("", "", "(uid=%(user)s)", False),
        ("ldaps://ldap.example.org", "ou=people", "(uid=%(user)s)", False),
        ("ldap://ldap.example.org:389", "ou=people", "(&(a=b)(uid=%(user)s))", False),
        ("ldap.example.org", "ou=people", "(uid=%(user)s)", True),
        ("ldaps://ldap.example.org", "", "(uid=%(user)s)", True),
        ("ldaps://ldap.example.org", "ou=people", "(uid=mei)", True),
        ("ldaps://ldap.example.org", "ou=people", "(uid=%(name)s)", True),
        ("ldaps://ldap.example.org", "ou=people", "uid=%(user)s", True),
        ("ldaps://ldap.example.org", "ou=people", "(uid=%s)", True),
    ],
)
def test_a_server_with_half_a_directory_does_not_start(uri, base, user_filter, problem):
    assert bool(env_settings.ldap_problem(uri, base, user_filter)) is problem
