"""A real web server for each module, quiet between the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from tests.support.gateway_server import ThreadServer, wait_until

from skep_platform.gateway import concurrency, listener, session


@pytest.fixture(autouse=True)
def _patient_with_agents(settings: Any) -> None:
    """Agents of tests send heartbeats only where a test is about them, and a test may take longer
    than the half minute after which the gateway ends a silent session."""
    settings.SKEP_LEASE_S = 600.0


@pytest.fixture(scope="module")
def web() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.fixture
def port(
    web: ThreadServer, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Of a server without connections; those of the test are over before the rows are. A broker
    that is slow to confirm is waited for: later it would ring in the middle of a test."""
    monkeypatch.setattr(listener, "JOIN_S", 60.0)
    yield web.port
    wait_until(lambda: not web.server.server_state.tasks, "every connection ended")


class Queries:
    """SQL that the sockets' threads sent to the database."""

    def __init__(self) -> None:
        self.sql: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.sql.append(sql)
        return execute(sql, params, many, context)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    """All but those of what a session looks at every few seconds, whatever its agent sends."""
    counted, at_database = Queries(), concurrency.at_database
    monkeypatch.setattr(session, "FRESH_S", 3600.0)

    def watched(work: Any, *args: Any, **kwargs: Any) -> Any:
        with connection.execute_wrapper(counted):
            return at_database(work, *args, **kwargs)

    monkeypatch.setattr(concurrency, "at_database", watched)
    return counted
