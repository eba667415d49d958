"""Live pages: who receives which notifications, and for how long."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone
from tests.support.gateway_live import Page, login
from tests.support.gateway_rows import frame, running_attempt
from tests.support.gateway_server import ProcessServer, wait_until
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc
from websockets.exceptions import InvalidStatus

from skep_platform.accounts import services as accounts
from skep_platform.accounts.models import ApiToken, User
from skep_platform.core import notifications
from skep_platform.gateway import live
from skep_platform.gateway.socket import people_limits
from skep_platform.jobs.models import Job
from skep_platform.telemetry.services import append_logs
from skep_platform.tenancy.models import Membership

UNAUTHENTICATED = ("not_authenticated", 4401)


class Team:
    """A user with a token, and a job that a colleague opened to the virtual cluster."""

    def __init__(self) -> None:
        self.user = make_user()
        self.vc = make_vc(members=[self.user])
        self.job = make_job(self.vc, make_user(), visibility="members")
        _, self.token = accounts.create_token(self.user)

    def page(self, port: int) -> Page:
        return Page(port, token=self.token)


class TestWho:
    def test_a_program_with_a_token(self, port):
        with Team().page(port) as page:
            page.subscribe("cluster")

    def test_a_browser_with_a_session(self, port):
        with Page(port, session=login(make_user())) as page:
            page.subscribe("jobs")

    @pytest.mark.parametrize("token", ["wrong", "skt_" + "0" * 60, "\xff"])
    def test_20_a_wrong_token_is_refused(self, port, token):
        with Page(port, token=token) as page:
            assert page.end() == UNAUTHENTICATED

    def test_20_no_one_is_refused(self, port):
        with Page(port, origin=f"http://127.0.0.1:{port}") as page:
            assert page.end() == UNAUTHENTICATED

    def test_20_an_unknown_session_is_refused(self, port):
        session = login(make_user())
        session.delete()
        with Page(port, session=session) as page:
            assert page.end() == UNAUTHENTICATED

    def test_20_a_wrong_token_is_not_made_good_by_a_session(self, port):
        with Page(port, token="wrong", session=login(make_user())) as page:
            assert page.end() == UNAUTHENTICATED

    @pytest.mark.parametrize(
        "origin",
        [
            "https://evil.example",
            "http://127.0.0.1:1",
            "http://127.0.0.1.evil.example:{port}",
            "null",
            "http://localhost:{port}",
        ],
    )
    @pytest.mark.parametrize("with_token", [True, False])
    def test_20_a_page_of_another_origin_is_not_even_accepted(self, port, origin, with_token):
        team = Team()
        origin = origin.format(port=port)
        known = {"token": team.token} if with_token else {"session": login(team.user)}
        with pytest.raises(InvalidStatus) as caught, Page(port, origin=origin, **known):
            pass
        assert caught.value.response.status_code == 403

    def test_20_a_cookie_without_an_origin_is_not_accepted(self, port):
        session = login(make_user())
        with pytest.raises(InvalidStatus), Page(port, session=session, origin=""):
            pass

    @pytest.mark.parametrize("scheme", ["https", "wss", "ftp", "file"])
    def test_finding_s21_a_page_of_another_scheme_is_another_origin(self, port, scheme):
        """Such as the same host's other service, or what someone in between made of it."""
        known = {"session": login(make_user())}
        with (
            pytest.raises(InvalidStatus) as caught,
            Page(port, origin=f"{scheme}://127.0.0.1:{port}", **known),
        ):
            pass
        assert caught.value.response.status_code == 403

    def test_the_public_url_is_an_allowed_origin(self, port, settings):
        settings.CSRF_TRUSTED_ORIGINS = ["https://skep.example"]
        with Page(port, session=login(make_user()), origin="https://skep.example") as page:
            page.subscribe("cluster")

    def test_31_one_user_cannot_open_sockets_without_end(self, port, monkeypatch):
        monkeypatch.setattr(people_limits, "of_user", 2)
        team = Team()
        with team.page(port) as first, team.page(port) as second:
            first.subscribe("cluster")
            second.subscribe("cluster")
            with team.page(port) as third:
                assert third.end() == ("too_many_connections", 4429)
            first.subscribe("jobs")


class TestNotifications:
    def test_a_change_of_the_job_rings(self, port):
        team = Team()
        with team.page(port) as page:
            page.subscribe("job", team.job.pk)
            notifications.notify_topic("job", team.job.pk)
            assert page.expect("changed") == ("job", str(team.job.pk))

    def test_new_log_bytes_ring(self, port):
        attempt = running_attempt()
        _, token = accounts.create_token(attempt.job.owner)
        with Page(port, token=token) as page:
            page.subscribe("job-logs", attempt.job_id)
            append_logs(attempt.node_id, [frame(attempt, 0, b"hello\n")])
            assert page.expect("changed") == ("job-logs", str(attempt.job_id))

    def test_a_change_of_the_cluster_rings(self, port):
        with Team().page(port) as page:
            page.subscribe("cluster")
            make_node()
            assert page.expect("changed") == ("cluster", "")

    def test_what_was_not_subscribed_or_no_longer_is_does_not_ring(self, port):
        team = Team()
        other = make_job(team.vc, team.user)
        with team.page(port) as page:
            page.subscribe("job", team.job.pk)
            page.subscribe("cluster")
            page.send(unsubscribe="job", id=str(team.job.pk))
            page.subscribe("jobs")  # so that the server has read the line before
            notifications.notify_topic("job", team.job.pk)
            notifications.notify_topic("job", other.pk)
            notifications.notify_topic("cluster")
            assert page.expect("changed") == ("cluster", "")

    def test_subscribing_twice_rings_once(self, port):
        team = Team()
        with team.page(port) as page:
            page.subscribe("cluster")
            page.subscribe("cluster")
            notifications.notify_topic("cluster")
            assert page.expect("changed") == ("cluster", "")
            with pytest.raises(TimeoutError):
                page.receive(3 * live.PAUSE_S)

    def test_31_a_burst_is_a_handful_of_rings_and_the_last_one_comes(self, port):
        team = Team()
        with team.page(port) as page:
            page.subscribe("job", team.job.pk)
            began = time.monotonic()
            for _ in range(500):
                notifications.publish(
                    {notifications.topic_group("job", team.job.pk): {"type": "topic.changed"}}
                )
            page.expect("changed")
            assert rings_of(page) <= 1 + (time.monotonic() - began) / live.PAUSE_S


def rings_of(page: Page) -> int:
    """How many rings come until there is silence."""
    rings = 0
    with suppress(TimeoutError):
        while page.receive(3 * live.PAUSE_S):
            rings += 1
    return rings


class TestWhat:
    def test_21_a_job_of_another_virtual_cluster_does_not_exist(self, port):
        mine, other = Team(), Team()
        with mine.page(port) as page:
            for topic in ("job", "job-logs"):
                page.send(subscribe=topic, id=str(other.job.pk))
                assert page.refusal() == "not_found"
                page.send(subscribe=topic, id=str(uuid4()))
                assert page.refusal() == "not_found"
            page.subscribe("cluster")
            notifications.notify_topic("job", other.job.pk)
            notifications.notify_topic("cluster")
            assert page.expect("changed") == ("cluster", "")

    def test_an_admin_receives_every_job(self, port):
        _, token = accounts.create_token(make_user(admin=True))
        with Page(port, token=token) as page:
            page.subscribe("job", Team().job.pk)

    @pytest.mark.parametrize(
        ("topic", "subject", "code"),
        [
            ("job", "", "not_found"),
            ("job", "*", "not_found"),
            ("job", "{JOB}", "not_found"),
            ("job", "urn:uuid:{job}", "not_found"),
            ("cluster", "{job}", "topic_unknown"),
            ("node", "{job}", "topic_unknown"),
            ("login", "x", "topic_unknown"),
            ("user", "1", "topic_unknown"),
            ("", "", "topic_unknown"),
        ],
    )
    def test_21_groups_cannot_be_named(self, port, topic, subject, code):
        team = Team()
        subject = subject.format(job=team.job.pk, JOB=str(team.job.pk).upper())
        with team.page(port) as page:
            page.send(subscribe=topic, id=subject)
            assert page.refusal() == code

    @pytest.mark.parametrize(
        "text", ["", "x", "[]", "{}", '{"subscribe": 1}', '{"subscribe": "job", "id": []}']
    )
    def test_26_what_is_no_command_is_reported_so(self, port, text):
        with Team().page(port) as page:
            page.write(text)
            assert page.refusal() == "message_invalid"
            page.subscribe("cluster")

    @pytest.mark.parametrize("data", [b"\x00", "x" * 5000])
    def test_26_large_and_binary_messages_end_the_connection(self, port, data):
        with Team().page(port) as page:
            page.write(data)
            assert page.end() == ("message_invalid", 4400)

    def test_31_subscriptions_are_bounded(self, port, monkeypatch):
        monkeypatch.setattr(live, "MAX_SUBSCRIPTIONS", 2)
        team = Team()
        with team.page(port) as page:
            page.subscribe("cluster")
            page.subscribe("jobs")
            page.subscribe("jobs")
            page.send(subscribe="job", id=str(team.job.pk))
            assert page.refusal() == "too_many_subscriptions"
            page.send(unsubscribe="jobs")
            page.subscribe("job", team.job.pk)


def deactivate(team: Team) -> None:
    team.user.is_active = False
    team.user.save()


@pytest.mark.parametrize(
    "end",
    [
        lambda team: ApiToken.objects.all().delete(),
        deactivate,
        lambda team: User.objects.get(pk=team.user.pk).auth_token_set.get().delete(),
    ],
    ids=["token revoked", "user deactivated", "one token deleted"],
)
def test_20_a_revoked_token_closes_the_stream_at_once(port, end: Callable[[Team], object]):
    team = Team()
    with team.page(port) as page:
        page.subscribe("job", team.job.pk)
        end(team)
        assert page.end() == UNAUTHENTICATED


def test_20_logging_out_closes_the_streams_of_that_session_only(port):
    user = make_user()
    here, there = Api(), login(user)
    here.client.force_login(user)
    session = here.client.session
    with Page(port, session=session) as page, Page(port, session=there) as other:
        page.subscribe("cluster")
        other.subscribe("cluster")
        assert here.post("/auth/logout").status_code < 300
        assert page.end() == UNAUTHENTICATED
        other.subscribe("jobs")


def test_20_a_changed_password_closes_the_streams_of_older_sessions(port):
    user = make_user()
    with Page(port, session=login(user)) as page:
        page.subscribe("cluster")
        user.set_password("another long password")
        user.save()
        assert page.end() == UNAUTHENTICATED


def test_20_a_token_that_expires_in_mid_stream_closes_it(port, monkeypatch):
    monkeypatch.setattr(live, "RECHECK_S", 0.05)
    team = Team()
    with team.page(port) as page:
        page.subscribe("cluster")
        ApiToken.objects.update(expiry=timezone.now() - timedelta(minutes=10))  # rings nothing
        assert page.end() == UNAUTHENTICATED


def test_20_who_leaves_the_team_stops_hearing_its_jobs(port):
    team = Team()
    with team.page(port) as page:
        page.subscribe("job", team.job.pk)
        page.subscribe("cluster")
        Membership.objects.filter(user=team.user).delete()
        assert page.refusal() == "not_found"
        notifications.notify_topic("job", team.job.pk)
        notifications.notify_topic("cluster")
        assert page.expect("changed") == ("cluster", "")


def test_20_a_job_that_moved_out_of_sight_is_noticed_by_the_recheck(port, monkeypatch):
    monkeypatch.setattr(live, "RECHECK_S", 0.05)
    team = Team()
    with team.page(port) as page:
        page.subscribe("job", team.job.pk)
        Job.objects.update(vc=make_vc())
        assert page.refusal() == "not_found"


def test_a_page_that_leaves_is_forgotten(port, web):
    team = Team()
    with team.page(port) as page:
        page.subscribe("job", team.job.pk)
    wait_until(lambda: not web.server.server_state.tasks, "the connection ended")
    assert not people_limits._connected


def test_31_followers_of_a_log_take_no_thread_and_no_database_connection_each(transactional_db):
    """Whoever follows waits for a ring and then reads by REST: no request waits for new lines."""
    team, followers = Team(), 40
    with ProcessServer() as server, ExitStack() as pages:

        def follow() -> None:
            page = pages.enter_context(team.page(server.port))
            page.subscribe("job-logs", team.job.pk)

        follow()
        threads_of_one, connections_of_one = _threads(server.pid), _connections()
        for _ in range(followers):
            follow()
        assert _threads(server.pid) < threads_of_one + followers / 4
        assert _connections() < connections_of_one + followers / 4


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def _connections() -> int:
    """To this test's database, whoever holds them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])
