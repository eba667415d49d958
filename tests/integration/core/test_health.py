"""Who answers here, and is it ready."""

from __future__ import annotations

import socket
import threading

import pytest
import redis
from django.test import Client
from tests.support.platform_api import Api

from skep_platform import __version__
from skep_platform.core import middleware
from skep_platform.core.notifications import valkey


def test_info_needs_no_login():
    assert Api().get("/info").json() == {
        "name": "Skep",
        "version": __version__,
        "sso_name": "",
        "password_login": True,
        "password_recovery": False,
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "10.9.8.7", "evil.example.org"])
def test_liveness_needs_no_database_and_no_known_host(host):
    answer = Client().get("/healthz", HTTP_HOST=host)
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_ready_when_database_and_valkey_answer():
    answer = Client().get("/readyz", HTTP_HOST="10.9.8.7")
    assert (answer.status_code, answer.json()) == (200, {"database": True, "valkey": True})


@pytest.fixture
def anew(monkeypatch):
    """Return what a process that has just begun answers, by the client that asks Valkey."""
    monkeypatch.setattr(middleware, "_valkey_answered", threading.Event())

    def look(client: redis.Redis) -> tuple[int, dict[str, bool]]:
        monkeypatch.setattr(middleware, "_probed_valkey", lambda: client)
        answer = Client().get("/readyz")
        return answer.status_code, answer.json()

    return look


DEAD = redis.Redis(port=1, socket_connect_timeout=0.1)


@pytest.mark.django_db
def test_a_process_that_never_valkey_answered_is_not_ready(anew):
    assert anew(DEAD) == (503, {"database": True, "valkey": False})


@pytest.mark.django_db
def test_one_that_lost_valkey_stays_in_service(anew):
    """All have lost it: without any of them in service, agents could not connect."""
    assert anew(valkey()) == (200, {"database": True, "valkey": True})
    assert anew(DEAD) == (200, {"database": True, "valkey": False})


@pytest.mark.django_db
def test_one_without_the_database_does_not(anew, monkeypatch):
    assert anew(valkey())[0] == 200
    monkeypatch.setattr(middleware, "_database", lambda: False)
    assert anew(valkey()) == (503, {"database": False, "valkey": True})


@pytest.mark.django_db
def test_a_valkey_that_hangs_is_given_up(anew, settings):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.SKEP_REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        assert anew(middleware._probed_valkey.__wrapped__())[1]["valkey"] is False
