"""What the doctor reads of dead rows and of transactions that last, in PostgreSQL's own numbers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from skep_platform.operations import doctor
from skep_platform.operations.doctor import stores

pytestmark = pytest.mark.django_db


@pytest.fixture
def other() -> Iterator[psycopg.Connection]:
    """Yield a connection of another program to the same database."""
    params = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    known = {name: params[name] for name in names if name in params}
    with psycopg.connect(**known, autocommit=True) as opened:
        yield opened


def found(check: str) -> dict[str, doctor.Finding]:
    """Return the findings of a check by code, from the numbers of this moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
    (examined,) = doctor.run(frozenset({check}))
    return {one.code: one for one in examined.findings}


def test_dead_rows_that_vacuum_leaves_are_found_until_it_has_run(other, monkeypatch):
    monkeypatch.setattr(stores, "DEAD_ROWS", 1000)
    other.execute("CREATE TABLE dirty (id int) WITH (autovacuum_enabled = off)")
    try:
        other.execute("INSERT INTO dirty SELECT generate_series(1, 5000)")
        other.execute("DELETE FROM dirty WHERE id > 1000")
        other.execute("SELECT pg_stat_force_next_flush()")
        late = found("tables")["vacuum_late"]
        assert late.severity == "warning"
        assert "dirty (4,000 dead of 5,000)" in late.message
        other.execute("VACUUM dirty")
        other.execute("SELECT pg_stat_force_next_flush()")
        assert "vacuum_late" not in found("tables")
    finally:
        other.execute("DROP TABLE dirty")


def test_a_transaction_that_stays_open_is_found_until_it_ends(other, monkeypatch):
    monkeypatch.setattr(stores, "LONG_TRANSACTION_S", 0.0)
    with other.transaction():
        other.execute("SELECT 1")
        assert found("database")["transaction_long"].severity == "warning"
    assert "transaction_long" not in found("database")
