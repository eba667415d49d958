"""Sums of the usage that is there: a day, a month or some thousand jobs in each transaction.

Each sum is computed anew, so that a migration that was stopped can be run again, and that servers
of the version before may count meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import migrations, transaction

LOCK = 0x5CEE  # that of the count of leases: it waits
JOBS = 5000


def sum_old_days(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection

    def run(sql: str, *values: Any) -> list[Any]:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            cursor.execute(sql, values)
            return [row[0] for row in cursor.fetchall()]

    days = run(DAYS)
    for day in days:
        run("SELECT usage_sum_day(%s)", day)
    for month in sorted({day.replace(day=1) for day in days}):
        run("SELECT usage_sum_month(%s)", month)
    jobs = run(NEXT, UUID(int=0), JOBS)
    while jobs:
        run("SELECT usage_sum_jobs(%s)", jobs)
        jobs = run(NEXT, jobs[-1], JOBS)


# A distinct over an index of all rows would read each of them.
DAYS = """
WITH RECURSIVE days AS (
    SELECT min(day) AS day FROM usage_usageday
     UNION ALL
    SELECT (SELECT min(u.day) FROM usage_usageday u WHERE u.day > d.day) FROM days d
     WHERE d.day IS NOT NULL
)
SELECT day FROM days WHERE day IS NOT NULL
"""
NEXT = """
SELECT DISTINCT job_id FROM usage_usageday WHERE job_id > %s ORDER BY job_id LIMIT %s
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("usage", "0004_triggers")]

    operations = [migrations.RunPython(sum_old_days, migrations.RunPython.noop)]
