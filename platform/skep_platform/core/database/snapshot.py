"""The schema that all migrations together make, as SQL, for databases that are still empty.

Between two migrations Django builds the models of the whole platform anew. For an empty database
that is most of the time of `migrate`: 17 s of a processor, where the statements take one. So an
empty database gets `schema.sql`, which `make schema` writes from a database that was migrated step
by step. It records the migrations that it holds as applied; newer ones are applied as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import DatabaseError, transaction

SCHEMA = Path(__file__).with_name("schema.sql")
LOCK = 0x534B4550  # "SKEP": of several `migrate` on an empty database one loads the schema
EMPTY = """
SELECT current_schema() = 'public' AND NOT EXISTS (
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
)
"""
# The months of the audit log are those of today, not those of the day on which the file was made.
AFTER = """
SELECT audit_add_month(date_trunc('month', now(), 'UTC') + make_interval(months => n, days => 9))
  FROM generate_series(0, 2) n
"""


def load(connection: Any) -> bool:
    """Create the tables in a database that has none. Returns whether it did: a database that has
    tables, or whose server does not take the file, is left as it was, to be migrated step by
    step."""
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            cursor.execute(EMPTY)
            if not cursor.fetchone()[0]:
                return False
            cursor.execute("SET LOCAL check_function_bodies = false")  # they precede the tables
            cursor.execute(SCHEMA.read_text(encoding="utf-8"))
            cursor.execute(AFTER)
    except DatabaseError:
        return False
    return True
