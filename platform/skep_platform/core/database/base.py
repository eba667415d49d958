"""Django's backend for PostgreSQL, with a pool that checks each connection once a second at most,
and comes back within seconds after the server was away, however long that was.

Every heartbeat and every request takes a connection out of the pool. Django's check costs a round
trip, which for a heartbeat is half of all its work. Here the server is asked only when the last
check is a second old, or when the socket has something to read: a server that ends a connection
says so there.

One connection that is broken means that the server was away, and that its siblings are broken, too.
The pool would find out one by one, with a pause before each that doubles: with five of them a
request fails after ten seconds. Here they are replaced together. A pool that cannot connect doubles
its pauses, too, for up to five minutes; `reconnect_timeout` (see the settings) ends that after
seconds, and who waits for a connection begins anew.

A server whose machine is lost ends no connection. The client side of that is in the settings; here
each new connection over TCP asks PostgreSQL to notice lost clients as fast, and each one not to
wait for ever for a client that is there and was stopped in the middle of a transaction.
"""

from __future__ import annotations

import select
import time
from functools import partial
from typing import Any

from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool

from skep_platform import engine_urls

CHECK_AFTER_S = 1.0
CHECKED_AT = "skep_checked_at"
CONFIGURE = (
    "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) s (name, value)"
)


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def pool(self) -> Any:
        """Return the pool of this database's settings, with our check in the place of Django's."""
        pool = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            # Django passes `check` itself, so the options of the pool cannot name another one.
            pool._check = partial(check, pool)
            pool._reconnect_failed = connect_for_waiting
        return pool

    def _configure_connection(self, connection: Any) -> bool:
        # Not in the stubs; the pool and the backend call it.
        commit = super()._configure_connection(connection)  # type: ignore[misc]
        wanted = dict(engine_urls.IDLE_IN_TRANSACTION)
        if not connection.info.host.startswith("/"):  # a unix socket ends with its other side
            wanted |= engine_urls.DATABASE_KEEPALIVES
        with connection.cursor() as cursor:
            cursor.execute(CONFIGURE, [list(wanted), list(wanted.values())])
        if not connection.autocommit:
            connection.commit()
        return bool(commit)


def check(pool: Any, connection: Any) -> None:
    """Check a connection of the pool when that is due. Raises OperationalError when it does not
    work; then all connections that are as old are replaced."""
    try:
        check_when_due(connection)
    except Exception:
        if connection._created_at > pool._drained_at:
            pool.drain()
        raise


def connect_for_waiting(pool: Any) -> None:
    """Begin again to connect, where a thread waits for a connection. Called by the pool when it
    gave up one of its connections."""
    with pool._lock:
        if pool._waiting:
            pool._maybe_grow_pool()


def check_when_due(connection: Any, now: float | None = None) -> None:
    """Ask the server whether a connection works, unless it did within CHECK_AFTER_S seconds and
    has said nothing since. `now` is in seconds of the monotonic clock. Raises OperationalError when
    the connection does not work."""
    now = time.monotonic() if now is None else now
    due = now - getattr(connection, CHECKED_AT, -CHECK_AFTER_S) >= CHECK_AFTER_S
    if due or _has_input(connection):
        ConnectionPool.check_connection(connection)
        setattr(connection, CHECKED_AT, now)


def _has_input(connection: Any) -> bool:
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
