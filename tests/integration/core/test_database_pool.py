"""The pool of database connections after the server was away."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, transaction
from django.db import connection as default
from psycopg_pool.base import AttemptWithBackoff
from tests.support.gateway_server import wait_until
from tests.support.platform_factories import make_user
from tests.support.ports import free_port
from tests.support.slow_proxy import slow_proxy

from skep_platform import engine_urls
from skep_platform.accounts.models import User
from skep_platform.core import failures
from skep_platform.core.bulk import fetch
from skep_platform.core.database.base import DatabaseWrapper
from skep_platform.engine_urls import database_settings

pytestmark = pytest.mark.django_db
LONGEST_PAUSE_S = 2.0


def wrapper(alias: str, **pool: Any) -> DatabaseWrapper:
    """A database of the settings with a pool of its own, as a process has it."""
    known = {**default.settings_dict, "NAME": default.settings_dict["NAME"]}
    options = settings.DATABASES["default"]["OPTIONS"]
    known["OPTIONS"] = {**options, "pool": {**options["pool"], **pool}}
    return DatabaseWrapper(known, alias)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseWrapper]:
    made = wrapper(request.node.name[:40])
    made.pool.open()
    yield made
    made.close_pool()


def test_the_url_may_name_several_hosts_and_what_libpq_takes():
    """As of a primary and its standby, of which the first one is away."""
    url, known = os.environ["SKEP_DATABASE_URL"], default.settings_dict
    base, _, folder = url.partition("?host=")
    assert folder.startswith("/"), "the engine of the tests listens on a unix socket"
    more = "target_session_attrs=read-write&application_name=skep-of-two"
    found = database_settings(f"{base}?host=/nonexistent,{folder}&{more}")
    options = settings.DATABASES["default"]["OPTIONS"] | found["OPTIONS"]
    named = {**known, **found, "NAME": known["NAME"], "OPTIONS": options}
    made = DatabaseWrapper(named, "two-hosts")
    made.pool.open()
    try:
        with made.pool.connection() as connection:
            assert connection.execute("SHOW application_name").fetchone() == ("skep-of-two",)
    finally:
        made.close_pool()


@pytest.mark.parametrize(
    ("url", "hosts", "ports", "options"),
    [
        ("postgresql://u:p%40@db/skep", "db", "5432", {}),
        ("postgresql://u:p%40@a,b:6432/skep", "a,b", "5432,6432", {}),
        ("postgresql://u:p%40@/skep?host=/run/pg", "/run/pg", "5432", {}),
        ("postgresql://u:p%40@db:1/skep?sslmode=require", "db", "1", {"sslmode": "require"}),
    ],
)
def test_nothing_of_the_url_is_left_out(url, hosts, ports, options):
    found = database_settings(url)
    assert (found["HOST"], found["PORT"], found["OPTIONS"]) == (hosts, ports, options)
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("u", "p@", "skep")


def living(backends: list[int]) -> list[tuple[Any, ...]]:
    fetch("SELECT pg_stat_clear_snapshot()")  # else it is that of the begin of the transaction
    return fetch("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [backends])


def test_after_a_restart_of_the_server_one_broken_connection_is_met_not_each_of_them(database):
    pool = database.pool
    taken = [pool.getconn() for _ in range(5)]
    for each in taken:
        pool.putconn(each)
    wait_until(lambda: pool.get_stats()["pool_available"] == 5, "all are back")
    backends = [each.info.backend_pid for each in taken]
    fetch("SELECT pg_terminate_backend(pid) FROM unnest(%s) pid", [backends])
    wait_until(lambda: not living(backends), "the server ended them")
    for _ in range(5):
        with pool.connection() as again:
            assert again.execute("SELECT 1").fetchone() == (1,)
    assert pool.get_stats()["connections_lost"] == 1


def test_pauses_between_attempts_to_connect_stay_short_however_long_the_server_is_away(database):
    attempt, now, pauses = AttemptWithBackoff(timeout=database.pool.reconnect_timeout), 0.0, []
    while not attempt.time_to_give_up(now):
        attempt.update_delay(now)
        pauses.append(attempt.delay)
        now += attempt.delay
    assert max(pauses) <= LONGEST_PAUSE_S * 1.1  # with its jitter
    assert database.pool._reconnect_failed is not None


def test_who_waits_gets_a_connection_although_the_pool_gave_up_once():
    made = wrapper("comes-later", reconnect_timeout=0.2, timeout=60)
    pool = made.pool
    right, pool.kwargs = pool.kwargs, {**pool.kwargs, "host": "127.0.0.1", "port": free_port()}
    pool.open()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(pool.getconn()))
    waiting.start()
    try:
        wait_until(lambda: pool.get_stats().get("connections_errors", 0) > 5, "it gave up")
        pool.kwargs = right
        waiting.join(60)
        [connection] = found
        assert connection.execute("SELECT 1").fetchone() == (1,)
        pool.putconn(connection)
    finally:
        pool.close()


def test_a_server_that_is_lost_with_its_machine_is_noticed_within_seconds(database):
    with database.pool.connection() as connection:
        known = connection.info.get_parameters()
    idle, interval, count = (
        int(known[f"keepalives_{name}"]) for name in ("idle", "interval", "count")
    )
    assert idle + interval * count < 10
    assert int(known["tcp_user_timeout"]) < 10_000
    assert int(known["connect_timeout"]) < 10


def test_the_server_notices_a_client_that_is_lost_with_its_machine_as_fast(database):
    def sources(pool: Any) -> dict[str, str]:
        with pool.connection() as connection:
            return dict(connection.execute(KEEPALIVES_NOW).fetchall())

    assert set(sources(database.pool).values()) == {"default"}, "a unix socket"
    known = default.settings_dict
    socket = f"{known['HOST']}/.s.PGSQL.{known['PORT'] or 5432}"
    with slow_proxy(socket, None) as address:
        made = wrapper("over-tcp")
        host, port = address.split(":")
        made.pool.kwargs |= {"host": host, "port": port}
        made.pool.open()
        try:
            found = sources(made.pool)
        finally:
            made.pool.close()
    assert set(found.values()) == {"session"}
    assert len(found) == 4


@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_stopped_in_a_transaction_loses_its_locks(monkeypatch):
    monkeypatch.setitem(engine_urls.IDLE_IN_TRANSACTION, "idle_in_transaction_session_timeout", "1")
    user = make_user()
    made = wrapper("stopped")
    made.pool.open()
    try:
        with made.pool.connection() as stopped:
            # One message: it is not idle before it has the lock.
            stopped.execute(f"BEGIN; SELECT FROM accounts_user WHERE id = {user.pk:d} FOR UPDATE")
            with transaction.atomic():
                fetch("SELECT set_config('lock_timeout', '30s', true)")
                assert User.objects.select_for_update().get(pk=user.pk) == user
            with pytest.raises(psycopg.Error) as caught:
                stopped.execute("SELECT 1")
            error = OperationalError()
            error.__cause__ = caught.value
            assert failures.is_database_away(error)
            assert failures.is_cut_off(error)
    finally:
        made.pool.close()


# What PostgreSQL shows of these is the socket's, which is a unix socket behind the proxy.
KEEPALIVES_NOW = """
SELECT name, source FROM pg_settings
 WHERE name LIKE 'tcp_keepalives%' OR name = 'tcp_user_timeout'
"""
