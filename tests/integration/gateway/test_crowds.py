"""Crowds of connections that ask for nothing, or do not take what they asked for."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import psycopg
import pytest
from django.conf import settings
from django.db import connection
from tests.support.gateway_agent import Joined
from tests.support.gateway_live import Page, login
from tests.support.gateway_rows import frames, running_attempt
from tests.support.gateway_server import ThreadServer, wait_until
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user

from skep_platform.accounts.models import User
from skep_platform.core import serving
from skep_platform.gateway import agent_http
from skep_platform.gateway.asgi import application as gateway_application
from skep_platform.gateway.socket import CLOSE_TOO_MANY, people_limits
from skep_platform.telemetry.services import append_logs

CROWD = 480  # sockets, which once kept everybody else out of PostgreSQL
POOL = 16  # connections of a process to the database
UPGRADE = """\
GET /ws/live HTTP/1.1\r
Host: 127.0.0.1:{port}\r
Origin: http://127.0.0.1:{port}\r
{more}Connection: Upgrade\r
Upgrade: websocket\r
Sec-WebSocket-Version: 13\r
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
\r
"""


def open_socket(port: int, text: str) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    opened.sendall(text.replace("{port}", str(port)).encode())
    return opened


def upgrade(port: int, user: User | None) -> socket.socket:
    """A live socket; a stranger's without a user."""
    session = f"{settings.SESSION_COOKIE_NAME}={login(user).session_key}" if user else ""
    more = f"Cookie: {session}\r\n" if session else ""
    return open_socket(port, UPGRADE.replace("{more}", more))


def read(opened: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := opened.recv(size - len(data))):
        data += piece
    return data


def database_connections() -> int:
    """Of all processes to the test's database, as a new client counts them."""
    given = connection.settings_dict
    with psycopg.connect(
        host=given["HOST"],
        port=given["PORT"],
        user=given["USER"],
        password=given["PASSWORD"],
        dbname=given["NAME"],
    ) as client:
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        [row] = client.execute(count).fetchall()
        return int(row[0])


def assert_served(port: int) -> None:
    api = Api(make_user())
    headers = {"Authorization": f"Bearer {api.token}"}
    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/me", headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def test_finding_s14_a_crowd_of_idle_pages_holds_no_database_connection(port):
    with ExitStack() as crowd:
        for _ in range(CROWD // 60):
            user = make_user()
            for _ in range(60):
                page = crowd.enter_context(upgrade(port, user))
                assert read(page, 12) == b"HTTP/1.1 101"
        assert database_connections() <= 2 * POOL
        assert_served(port)
        with Page(port, session=login(make_user())) as page:
            page.subscribe("cluster")


def test_finding_s14_a_crowd_of_authenticating_is_sent_away_and_no_one_waits(port):
    with ExitStack() as crowd:
        strangers = [crowd.enter_context(upgrade(port, None)) for _ in range(CROWD)]
        for stranger in strangers:
            assert b"not_authenticated" in read(stranger, 4096)
        assert database_connections() <= 2 * POOL
        assert_served(port)


@pytest.mark.parametrize("begun", ["", "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Half:"])
def test_finding_s14_connections_that_ask_for_nothing_are_ended(port, monkeypatch, begun):
    monkeypatch.setattr(serving, "HEAD_S", 2.0)  # of the request that is served, too
    with ExitStack() as crowd:
        silent = [crowd.enter_context(open_socket(port, begun)) for _ in range(CROWD)]
        assert_served(port)
        for opened in silent:
            with suppress(ConnectionResetError):
                assert opened.recv(1) == b""


def test_a_connection_that_asks_again_is_kept(port):
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        assert [client.get("/healthz").status_code for _ in range(3)] == [200] * 3


def test_31_finding_s14_who_does_not_read_an_answer_holds_no_database_connection(port):
    attempt = running_attempt()
    size = 12_000_000  # more than the kernel takes on the way
    append_logs(attempt.node_id, frames(attempt, b"x" * size, range(0, size, 250_000)))
    ask = (
        f"GET /api/v1/attempts/{attempt.pk}/logs/stdout?raw=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {Api(attempt.job.owner).token}\r\n\r\n"
    )
    with ExitStack() as crowd:
        for _ in range(POOL + 8):
            reader = crowd.enter_context(open_socket(port, ask))
            assert read(reader, 12) == b"HTTP/1.1 200"
        assert_served(port)


def test_31_finding_s14_sockets_of_a_user_and_an_address_are_bounded(port, monkeypatch):
    monkeypatch.setattr(people_limits, "of_address", 2)
    with (
        Page(port, session=login(make_user())) as first,
        Page(port, session=login(make_user())) as second,
    ):
        first.subscribe("cluster")
        second.subscribe("cluster")
        with Page(port, session=login(make_user())) as third:
            assert third.end() == ("too_many_connections", CLOSE_TOO_MANY)
    wait_until(lambda: not people_limits._connected, "the seats are free again")


def test_finding_s14_authenticating_are_bounded_while_they_are_looked_up(port, monkeypatch):
    """By a database that does not answer; who waits too long is refused with the reason."""
    monkeypatch.setattr(people_limits, "unauthenticated", 2)
    monkeypatch.setattr("skep_platform.gateway.socket.AUTHENTICATED_S", 5.0)
    user = make_user()
    session = login(user)
    with connection.cursor() as lock:
        lock.execute("BEGIN; LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
        try:
            with Page(port, session=session) as first, Page(port, session=session) as second:
                wait_until(
                    lambda: people_limits._authenticating.total() == 2,
                    "both are looked up",
                )
                with Page(port, session=session) as third:
                    assert third.end() == ("too_many_connections", CLOSE_TOO_MANY)
                late = ("not_authenticated_in_time", CLOSE_TOO_MANY)
                assert (first.end(), second.end()) == (late, late)
        finally:
            lock.execute("ROLLBACK")
    wait_until(lambda: not people_limits._authenticating, "no one is looked up")
    with Page(port, session=session) as page:
        page.subscribe("cluster")


def test_finding_s14_probes_of_the_gateway_cost_no_one_a_database_connection(
    transactional_db, monkeypatch
):
    looks: list[int] = []
    ready = agent_http.middleware.ready
    monkeypatch.setattr(agent_http.middleware, "ready", lambda: looks.append(1) or ready())
    monkeypatch.setattr(agent_http, "READY_S", 60.0)
    with ThreadServer(gateway_application) as gateway, ThreadPoolExecutor(16) as crowd:
        url = f"http://127.0.0.1:{gateway.port}/readyz"
        answers = list(crowd.map(lambda _: httpx.get(url, timeout=60), range(100)))
        assert {answer.status_code for answer in answers} == {200}
        assert answers[0].json() == {"database": True, "valkey": True}
        assert len(looks) <= 1


def test_finding_s14_slow_joins_keep_no_agent_waiting(transactional_db, monkeypatch):
    """Of requests that anybody may send to the gateway."""
    head = (
        "POST /api/v1/nodes/join HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    monkeypatch.setattr(agent_http, "BODY_S", 2.0)
    joined = Joined()
    with ThreadServer(gateway_application) as gateway, ExitStack() as crowd:
        slow = [crowd.enter_context(open_socket(gateway.port, head)) for _ in range(CROWD)]
        with joined.connect(gateway.port) as agent:
            agent.enter(joined.hello)
            assert agent.beat().seq == 1
        url = f"http://127.0.0.1:{gateway.port}/api/v1/nodes/join"
        answer = httpx.post(url, json={}, timeout=60)
        assert answer.status_code == 400
        for opened in slow:
            assert b"request_slow" in read(opened, 4096)
