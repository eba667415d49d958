"""A database that takes no writes for a while, as after a failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection, connections
from psycopg import sql

END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def _witness() -> psycopg.Connection:
    """A connection of our own, in which writes are always allowed."""
    given = connections["default"].get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    witness = psycopg.connect(**{n: given[n] for n in names if n in given}, autocommit=True)
    witness.execute("SET default_transaction_read_only = off")
    return witness


@contextmanager
def read_only() -> Iterator[None]:
    """All others are thrown out, and find a replica when they come back."""
    name = sql.Identifier(connection.settings_dict["NAME"])
    with _witness() as witness:
        setting = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name)
        witness.execute(setting)
        witness.execute(END_OTHERS)
        try:
            yield
        finally:
            reset = sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name)
            witness.execute(reset)
            # As a demoted server that is left running: no one is thrown out again.
    connection.close()
    connection.close_pool()
