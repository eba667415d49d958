"""Account recovery by e-mail, with a real SMTP server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
import time_machine
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support import mfa
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_user
from tests.support.ports import free_port
from tests.support.receivers import Mailbox, mail_server
from tests.support.webauthn import confirm as confirm_me

from skep_platform.accounts import recovery
from skep_platform.accounts.models import AccountMail, User
from skep_platform.audit.models import AuditEntry

pytestmark = pytest.mark.django_db
NEW = "a-new-password-of-mine"


@pytest.fixture(scope="module")
def server() -> Iterator[Mailbox]:
    with mail_server() as box:
        yield box


@pytest.fixture
def mailbox(server: Mailbox, settings: Any) -> Mailbox:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_USE_TLS, settings.DEFAULT_FROM_EMAIL = False, "Skep <skep@example.org>"
    server.mails.clear()
    server.answer = server.refuses = ""
    return server


@pytest.fixture
def mei() -> User:
    email = "mei@example.org"
    return make_user("mei", email=email, confirmed_email=email)


def ask(whom: str = "mei") -> Any:
    answer = Api().post("/auth/recovery", {"user": whom})
    recovery.send_due()
    return answer


def link_in(mailbox: Mailbox) -> dict[str, str]:
    found = re.search(r"https?://\S+token=\S+", mailbox.text())
    assert found
    query = parse_qs(urlsplit(found.group()).query)
    return {name: values[0] for name, values in query.items()}


def reset(link: dict[str, str], new: str = NEW) -> Any:
    body = {"username": link["user"], "token": link["token"], "new": new}
    return Api().post("/auth/password-reset", body)


def log_in(password: str, **more: str) -> Any:
    return Api().post("/auth/login", {"username": "mei", "password": password, **more})


def test_who_forgot_the_password_sets_a_new_one_by_the_link_once(mailbox, mei):
    assert ask().status_code == 202
    assert (mailbox.mails[0]["To"], mailbox.mails[0]["Subject"]) == (
        "mei@example.org",
        "[Skep] Your password",
    )
    link = link_in(mailbox)
    assert log_in(PASSWORD).status_code == 200
    assert refusal(reset(link)) == (400, "link_invalid")  # a login ends it
    ask()
    link = link_in(mailbox)
    assert reset(link).status_code == 204
    assert log_in(NEW).status_code == 200
    assert refusal(reset(link, "another-long-password")) == (400, "link_invalid")
    entry = AuditEntry.objects.filter(action="user.recovery.send").first()
    assert (entry.target_name, entry.facts) == ("mei", {"asked_from": "127.0.0.1"})


def test_the_address_works_as_the_user_name_does_in_any_case(mailbox, mei):
    ask("MEI@Example.org")
    assert link_in(mailbox)["user"] == "mei"


def test_a_recovered_account_still_asks_for_its_second_factor(mailbox, mei):
    codes = mfa.enrol(session(mei))[1]
    ask()
    assert reset(link_in(mailbox)).status_code == 204
    assert refusal(log_in(NEW)) == (401, "mfa_required")
    assert log_in(NEW, code=codes[0]).status_code == 200


def test_the_answer_tells_nothing_about_who_exists_and_neither_do_its_queries(mailbox, mei):
    seen = []
    for whom in ("mei", "nobody", "mei@example.org", "nobody@example.org"):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            answer = Api().post("/auth/recovery", {"user": whom})
        statements = [query["sql"].partition("VALUES")[0] for query in queries]
        seen.append((answer.status_code, answer.content, statements))
    assert all(one == seen[0] for one in seen)
    recovery.send_due()
    assert {mail["To"] for mail in mailbox.mails} == {"mei@example.org"}
    assert not AccountMail.objects.exists()


@pytest.mark.parametrize(
    "who", ["unconfirmed", "changed", "inactive", "external", "service", "deleted"]
)
def test_no_link_is_sent_to(mailbox, mei, who):
    if who == "unconfirmed":
        mei.confirmed_email = ""
    if who == "changed":  # by an admin: the confirmation was of the other address
        mei.email = "attacker@example.org"
    mei.is_active = who != "inactive"
    mei.is_service_account = who == "service"
    if who == "deleted":
        mei.deleted_at = timezone.now()
    if who == "external":
        mei.set_unusable_password()
        SocialAccount.objects.create(user=mei, provider="ldap", uid="1")
    mei.save()
    assert ask().status_code == 202
    assert ask("attacker@example.org").status_code == 202
    assert ask("mei@example.org").status_code == 202
    assert mailbox.mails == []


@pytest.mark.parametrize("off", ["mail", "password"])
def test_it_is_not_offered(mailbox, mei, settings, off):
    assert Api().get("/info").json()["password_recovery"] is True
    if off == "mail":
        settings.EMAIL_HOST = ""
    else:
        settings.SKEP_PASSWORD_LOGIN = False
    assert Api().get("/info").json()["password_recovery"] is False
    assert refusal(ask()) == (409, "recovery_unavailable")
    assert mailbox.mails == []


def test_a_user_gets_few_links_an_hour_and_an_address_asks_seldom(mailbox, mei):
    for _ in range(5):
        for whom in ("mei", "mei@example.org"):
            assert ask(whom).status_code == 202
    assert len(mailbox.mails) == recovery.PER_HOUR["recovery"]
    assert refusal(ask("someone-else"))[0] == 429


def test_a_mail_server_that_is_down_is_asked_again_and_in_the_end_no_more(mailbox, mei, settings):
    settings.EMAIL_PORT = free_port()
    ask()
    row = AccountMail.objects.get()
    settings.EMAIL_PORT = mailbox.port
    assert recovery.send_due() == 0
    with time_machine.travel(row.due_at + timedelta(seconds=1)):
        assert recovery.send_due() == 1
    assert len(mailbox.mails) == 1
    settings.EMAIL_PORT = free_port()
    ask()
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        recovery.send_due()
    assert not AccountMail.objects.exists()


def queue(*whom: str) -> None:
    for one in whom:
        assert Api().post("/auth/recovery", {"user": one}).status_code == 202


def users_of(mails: list[Any]) -> list[str]:
    return [mail.get_payload().split("password of ")[1].split()[0] for mail in mails]


class TestWhatCannotBeSent:
    def test_retries_use_up_nothing_of_what_a_user_gets_in_an_hour(self, mailbox, mei, settings):
        settings.EMAIL_PORT = free_port()
        ask()
        for minutes in range(1, 6):
            with time_machine.travel(timezone.now() + timedelta(seconds=61 * minutes)):
                assert recovery.send_due() == 1
        settings.EMAIL_PORT = mailbox.port
        with time_machine.travel(timezone.now() + timedelta(seconds=61 * 6)):
            recovery.send_due()
        assert len(mailbox.mails) == 1
        for _ in range(5):
            ask()
        assert len(mailbox.mails) == recovery.PER_HOUR["recovery"]

    def test_of_two_accounts_of_one_address_only_the_refused_one_is_tried_again(self, mailbox, mei):
        other = "MEI@example.org"
        make_user("mei2", email=other, confirmed_email=other)
        mailbox.answer, mailbox.refuses = "451 try again later", other
        ask("mei@example.org")
        assert users_of(mailbox.mails) == ["mei"]
        mailbox.answer = ""
        with time_machine.travel(timezone.now() + timedelta(seconds=61)):
            recovery.send_due()
        assert users_of(mailbox.mails) == ["mei", "mei2"]
        assert not AccountMail.objects.exists()

    def test_what_the_server_refuses_for_good_is_not_tried_again(self, mailbox, mei):
        mailbox.answer = "550 no such user"
        for _ in range(recovery.PER_HOUR["recovery"]):
            ask()
        assert not AccountMail.objects.exists()
        mailbox.answer = ""
        ask()
        assert len(mailbox.mails) == 1

    def test_a_server_that_is_down_is_asked_once_in_a_round(self, mailbox, mei, settings):
        make_user("ann", email="ann@example.org", confirmed_email="ann@example.org")
        settings.EMAIL_PORT = free_port()
        queue("mei", "ann")
        assert recovery.send_due() == 3  # both requests, and the first e-mail
        due = AccountMail.objects.filter(due_at__lte=timezone.now())
        assert [row.user.username for row in due] == ["ann"]
        settings.EMAIL_PORT = mailbox.port
        with time_machine.travel(timezone.now() + timedelta(seconds=61)):
            recovery.send_due()
        assert sorted(users_of(mailbox.mails)) == ["ann", "mei"]

    def test_an_unforeseen_error_at_one_loses_no_other(self, mailbox, mei, settings):
        make_user("ann", email="ann@example.org", confirmed_email="ann@example.org")
        settings.EMAIL_BACKEND = "no.such.Backend"
        queue("mei", "ann")
        with pytest.raises(ImportError):
            recovery.send_due()
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        recovery.send_due()
        assert users_of(mailbox.mails) == ["ann"]


class TestConfirming:
    def ask(self, api: Api, email: str = "mei@example.org") -> Any:
        answer = api.post("/me/email", {"email": email})
        recovery.send_due()
        return answer

    def browser(self, user: User) -> Api:
        api = session(user)
        confirm_me(api)
        return api

    def test_an_address_is_the_users_when_its_link_is_opened(self, mailbox):
        mei = make_user("mei", email="old@example.org")
        api = self.browser(mei)
        assert api.get("/me").json()["email_confirmed"] is False
        assert self.ask(api).status_code == 202
        assert api.get("/me").json()["email"] == "old@example.org"
        token = {"token": link_in(mailbox)["token"]}
        assert api.post("/me/email/confirm", token).status_code == 204
        me = api.get("/me").json()
        assert (me["email"], me["email_confirmed"]) == ("mei@example.org", True)
        assert refusal(api.post("/me/email/confirm", token)) == (400, "link_invalid")
        ask("mei@example.org")
        assert link_in(mailbox)["user"] == "mei"

    def test_who_gets_the_link_by_mistake_gains_nothing(self, mailbox):
        api = self.browser(make_user("mei"))
        self.ask(api, "typo@example.org")
        token = {"token": link_in(mailbox)["token"]}
        other = session(make_user("other"))
        assert refusal(other.post("/me/email/confirm", token)) == (400, "link_invalid")
        assert Api().post("/me/email/confirm", token).status_code == 401
        assert not User.objects.exclude(email="").exists()

    def test_an_old_or_forged_link_is_refused(self, mailbox):
        api = self.browser(make_user("mei"))
        self.ask(api)
        token = {"token": link_in(mailbox)["token"]}
        forged = {"token": token["token"][:-1] + "x"}
        assert refusal(api.post("/me/email/confirm", forged)) == (400, "link_invalid")
        with time_machine.travel(timezone.now() + timedelta(days=1, seconds=1)):
            assert refusal(api.post("/me/email/confirm", token)) == (400, "link_invalid")

    def test_a_new_password_ends_a_link(self, mailbox):
        api = self.browser(make_user("mei"))
        self.ask(api)
        assert api.post("/me/password", {"current": PASSWORD, "new": NEW}).status_code == 204
        token = {"token": link_in(mailbox)["token"]}
        assert refusal(api.post("/me/email/confirm", token)) == (400, "link_invalid")

    def test_a_session_left_open_and_a_token_cannot_begin_it(self, mailbox, mei):
        assert refusal(self.ask(session(mei))) == (403, "confirmation_required")
        assert refusal(self.ask(Api(mei))) == (403, "session_required")

    def test_without_valkey_it_is_not_said_that_there_were_too_many(
        self, mailbox, mei, monkeypatch
    ):
        api = self.browser(mei)
        down = redis.Redis(port=free_port())
        monkeypatch.setattr(recovery, "valkey", lambda: down)
        assert refusal(self.ask(api)) == (503, "unavailable")

    def test_without_a_mail_server_it_says_so(self, mei, settings):
        settings.EMAIL_HOST = ""
        assert refusal(self.ask(self.browser(mei))) == (409, "email_unavailable")
