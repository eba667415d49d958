"""Who answers here, and is it ready."""

from __future__ import annotations

import pytest
import redis
from django.test import Client
from tests.support.platform_api import Api

from skep_platform import __version__


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


@pytest.mark.django_db
def test_not_ready_without_valkey(monkeypatch):
    dead = redis.Redis(port=1, socket_connect_timeout=0.1)
    monkeypatch.setattr("skep_platform.core.middleware.valkey", lambda: dead)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"database": True, "valkey": False})
