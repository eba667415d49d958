"""What a backup is made of while the database changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection
from tests.support.platform_factories import make_user

from skep_platform.onebox import backups
from skep_platform.onebox.home import Home

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_manifest_has_the_migrations_of_the_dump_and_no_later_ones(tmp_path, monkeypatch):
    """Else an older version would refuse a dump that it can read."""
    make_user("alice")
    known = connection.get_connection_params()
    host, port = known.get("host") or "", known.get("port") or ""
    parts = {"user": known["user"], "password": known.get("password"), "host": host, "port": port}
    query = "&".join(f"{name}={value}" for name, value in parts.items() if value)
    environment = {"SKEP_DATABASE_URL": f"postgresql:///{known['dbname']}?{query}"}
    run = backups._run

    def migrate_meanwhile(command: list[str], environment: dict[str, str]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO django_migrations (app, name, applied) "
                           "VALUES ('jobs', '9999_later', now())")  # fmt: skip
        run(command, environment)

    monkeypatch.setattr(backups, "_run", migrate_meanwhile)
    try:
        backups._fill(Home(tmp_path / "home"), environment, tmp_path)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_migrations WHERE name = '9999_later'")
    made = json.loads((tmp_path / backups.MANIFEST).read_text())
    assert ["jobs", "0001_initial"] in made["migrations"]
    assert ["jobs", "9999_later"] not in made["migrations"]
    assert Path(tmp_path / backups.DUMP).stat().st_size > 0
    shown = tmp_path / "shown.sql"
    program = backups._program("pg_restore")
    table = ["--data-only", "--table=django_migrations", f"--file={shown}"]
    run([program, *table, str(tmp_path / backups.DUMP)], {})
    assert "9999_later" not in shown.read_text()
