"""When the pool of database connections asks whether one still works."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from psycopg_pool import ConnectionPool

from skep_platform.core.database import base


class Connection:
    """Counts how often it is checked; `server` is the other end of its socket."""

    def __init__(self) -> None:
        self.checks = 0
        self.server, self.client = socket.socketpair()

    def fileno(self) -> int:
        return self.client.fileno()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    def check(asked: Connection) -> None:
        asked.checks += 1

    monkeypatch.setattr(ConnectionPool, "check_connection", staticmethod(check))
    made = Connection()
    yield made
    made.server.close()
    made.client.close()


def test_finding_c4_a_connection_is_checked_once_a_second_however_often_it_is_taken(connection):
    for _ in range(50):
        base.check_when_due(connection, now=100.0)
    assert connection.checks == 1
    base.check_when_due(connection, now=100.0 + base.CHECK_AFTER_S)
    assert connection.checks == 2


@pytest.mark.parametrize("end", ["says why", "just closes"])
def test_finding_c4_a_connection_that_the_server_ended_is_checked_at_once(connection, end):
    base.check_when_due(connection, now=100.0)
    if end == "says why":
        connection.server.send(b"E")
    else:
        connection.server.close()
    base.check_when_due(connection, now=100.0)
    assert connection.checks == 2
