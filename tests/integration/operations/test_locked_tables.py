"""What looks at the sizes of tables while one of them is rewritten, as by VACUUM FULL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection
from tests.support.platform_api import Api
from tests.support.platform_factories import make_user

from skep_platform.operations import doctor, readings

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(readings, "LOCK_TIMEOUT", "1ms")
    params = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    with psycopg.connect(**{n: params[n] for n in names if n in params}) as other:
        other.execute("LOCK TABLE simulations_simulation IN ACCESS EXCLUSIVE MODE")
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '20s'")  # else it would wait for ever
        yield
        other.rollback()
        connection.close()


def test_the_doctor_does_not_wait_for_it():
    (tables,) = doctor.run(frozenset({"tables"}))
    assert [(one.severity, one.code) for one in tables.findings] == [("note", "tables_locked")]


def test_the_page_shows_the_rest():
    found = Api(make_user("root", admin=True)).get("/health/platform").json()
    assert found["tables"] == []
    assert found["database"]["version"]
