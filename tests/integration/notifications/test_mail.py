"""E-mails, to a real SMTP server."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone
from tests.support.platform_api import ROOT, Api, refusal
from tests.support.platform_factories import make_job, make_user
from tests.support.ports import free_port
from tests.support.receivers import mail_server

from skep_platform.audit.models import AuditEntry
from skep_platform.core.events import notify
from skep_platform.notifications import collecting, delivering, preferences
from skep_platform.notifications.models import Delivery

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server():
    with mail_server() as box:
        yield box


@pytest.fixture
def mailbox(server, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_USE_TLS, settings.DEFAULT_FROM_EMAIL = False, "Skep <skep@example.org>"
    server.mails.clear()
    server.answer, server.connections = "", 0
    return server


@pytest.fixture
def alice():
    return make_user("alice", email="alice@example.org")


def fail(user, vc, *names: str) -> None:
    for name in names:
        notify("job.failed", "job", make_job(vc, user, name=name).pk, "Failed. Out of memory.")
    collecting.collect()


def later(seconds: float):
    return time_machine.travel(timezone.now() + timedelta(seconds=seconds))


def test_an_event_that_only_a_newer_server_knows_keeps_no_other_mail_from_being_sent(
    mailbox, alice, vc
):
    fail(alice, vc, "a")
    newer = Delivery.objects.get()
    newer.pk, newer.event, newer.due_at = uuid4(), "job.teleported", timezone.now()
    newer._state.adding = True
    newer.save()
    with later(61):
        delivering.deliver("email")
    (mail,) = mailbox.mails
    assert mail["Subject"] == "[Skep] Job a failed"
    newer.refresh_from_db()
    assert (newer.state, newer.error) == ("pending", "It could not be written (KeyError).")
    assert newer.due_at > timezone.now()


def test_a_mail_waits_for_more_of_its_kind_and_is_sent_once(mailbox, alice, vc):
    fail(alice, vc, "a", "b")
    assert delivering.deliver("email") == 0
    fail(alice, vc, "c")
    with later(61):
        assert [delivering.deliver("email") for _ in range(2)] == [1, 0]
    (mail,) = mailbox.mails
    assert (mail["Subject"], mail["To"]) == ("[Skep] 3 jobs failed", "alice@example.org")
    assert mail["From"] == "Skep <skep@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    row = Delivery.objects.get()
    assert mail["Message-ID"] == f"<{row.pk}@example.org>"
    assert row.state == "sent"
    text = mailbox.text()
    assert "c (vision)\nFailed. Out of memory.\n" in text
    assert "/jobs/" in text
    assert "/settings/notifications" in text


def test_one_connection_carries_many_mails(mailbox, alice, vc):
    bob = make_user("bob", email="bob@example.org")
    fail(alice, vc, "a")
    fail(bob, vc, "b")
    with later(61):
        assert delivering.deliver("email") == 2
    assert (len(mailbox.mails), mailbox.connections) == (2, 1)


def test_32_the_name_of_a_job_adds_no_header(mailbox, alice, vc):
    fail(alice, vc, "evil\r\nBcc: all@example.org")
    with later(61):
        delivering.deliver("email")
    assert not any(mail["Bcc"] for mail in mailbox.mails)
    assert Delivery.objects.get().state in ("sent", "failed")


class TestFailures:
    def test_a_slow_server_gets_no_mail_whose_claim_may_end_before_it_is_sent(
        self, mailbox, alice, vc, monkeypatch
    ):
        monkeypatch.setattr(delivering, "MAIL_S", -1.0, raising=False)
        bob = make_user("bob", email="bob@example.org")
        fail(alice, vc, "a")
        fail(bob, vc, "b")
        with later(61):
            assert mailbox.connections == 0
            delivering.deliver("email")
        assert (len(mailbox.mails), mailbox.connections) == (2, 2)  # by a claim each
        assert set(Delivery.objects.values_list("state", "attempts")) == {("sent", 1)}

    def test_a_server_that_is_down_is_asked_again_later(self, mailbox, alice, vc, settings):
        settings.EMAIL_PORT = free_port()
        fail(alice, vc, "a")
        with later(61):
            delivering.deliver("email")
        row = Delivery.objects.get()
        assert (row.state, row.attempts) == ("pending", 1)
        assert "cannot be reached" in row.error
        settings.EMAIL_PORT = mailbox.port
        with later(61 + 40):
            delivering.deliver("email")
        assert [mail["Subject"] for mail in mailbox.mails] == ["[Skep] Job a failed"]

    def test_an_address_that_is_refused_for_good_is_not_tried_again(self, mailbox, alice, vc):
        mailbox.answer = "550 no such user"
        fail(alice, vc, "a")
        with later(61):
            delivering.deliver("email")
        row = Delivery.objects.get()
        assert (row.state, row.attempts) == ("failed", 1)
        assert "550" in row.error

    def test_a_greylisting_server_is_tried_by_the_schedule_and_then_no_more(
        self, mailbox, alice, vc
    ):
        mailbox.answer = "450 later"
        fail(alice, vc, "a")
        waited = 61.0
        for pause_s in (*delivering.RETRY_S, 0):
            with later(waited):
                assert delivering.deliver("email") == 1
            waited += pause_s * 1.2 + 1
        row = Delivery.objects.get()
        assert (row.state, row.attempts) == ("failed", len(delivering.RETRY_S) + 1)

    def test_a_worker_that_died_leaves_the_mail_to_another_one(self, mailbox, alice, vc):
        fail(alice, vc, "a")
        with later(61):
            delivering._claim("email", delivering.uuid4())  # and it dies
            assert delivering.deliver("email") == 0
        with later(61 + delivering.CLAIM_S + 1):
            assert delivering.deliver("email") == 1
        assert len(mailbox.mails) == 1


class TestWithoutAServer:
    def test_the_channel_says_that_it_is_not_set_up(self, alice, vc, settings):
        settings.EMAIL_HOST = ""
        api = Api(alice)
        (email,) = [
            c
            for c in api.get("/notifications/preferences").json()["channels"]
            if c["name"] == "email"
        ]
        assert "SKEP_SMTP_HOST" in email["problem"]
        tested = api.post("/notifications/test", {"channel": "email"})
        assert refusal(tested) == (409, "email_unavailable")
        fail(alice, vc, "a")
        assert not Delivery.objects.exists()


class TestUnsubscribe:
    def link(self, mailbox) -> str:
        return re.search(r"No more e-mails of this kind: (\S+)", mailbox.text()).group(1)

    def test_the_link_of_a_mail_ends_mails_of_its_kind_without_a_login(self, mailbox, alice, vc):
        fail(alice, vc, "a")
        with later(61):
            delivering.deliver("email")
        token = urlsplit(self.link(mailbox)).query.removeprefix("token=")
        answer = Api().post("/notifications/unsubscribe", {"token": token})
        assert answer.json()["event"] == "job.failed"
        assert preferences.of(alice)["job.failed"] == ["in_page", "webhook"]
        entry = AuditEntry.objects.filter(action="notification.preferences.update").get()
        assert entry.target_name == "alice"
        fail(alice, vc, "b")
        assert Delivery.objects.filter(state="pending").count() == 0

    def test_the_button_of_a_mail_program_does_the_same(self, mailbox, alice, vc):
        fail(alice, vc, "a")
        with later(61):
            delivering.deliver("email")
        mail = mailbox.mails[-1]
        assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        parts = urlsplit("".join(mail["List-Unsubscribe"].split()).strip("<>"))
        assert parts.path == f"{ROOT}/notifications/unsubscribe"
        form = {"content_type": "application/x-www-form-urlencoded"}
        answer = Api().client.post(
            f"{parts.path}?{parts.query}", "List-Unsubscribe=One-Click", **form
        )
        assert answer.status_code == 200
        assert "email" not in preferences.of(alice)["job.failed"]

    def test_a_token_of_another_use_or_made_up_is_refused(self, alice):
        good = preferences.unsubscribe_token(alice.pk, "job.failed")
        for token in ("x", good[:-1], good + "x"):
            answer = Api().post("/notifications/unsubscribe", {"token": token})
            assert refusal(answer) == (400, "token_invalid")
        assert "email" in preferences.of(alice)["job.failed"]


def test_a_test_is_sent_by_the_way_of_all_others_and_its_end_can_be_read(mailbox, alice):
    api = Api(alice)
    made = api.post("/notifications/test", {"channel": "email"})
    assert (made.status_code, made.json()["state"]) == (202, "pending")
    delivering.deliver("email")
    shown = api.get(f"/notifications/deliveries/{made.json()['id']}").json()
    assert (shown["state"], shown["title"]) == ("sent", "Test notification")
    assert mailbox.mails[-1]["Subject"] == "[Skep] Test notification"


def test_tests_are_limited(mailbox, alice):
    api = Api(alice)
    answers = [api.post("/notifications/test", {"channel": "email"}) for _ in range(6)]
    assert [a.status_code for a in answers] == [202] * 5 + [429]
