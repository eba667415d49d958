"""What each part of a running Skep uses: CPU time by part, and statements sent to PostgreSQL."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from signal import SIGINT

import psycopg
from benchmarks.usage import cpu_seconds
from tests.support.stack import Stack, descendants, eventually

RESTARTED_WITHIN_S = 60.0
CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")  # of transactions
FOREIGN_KEY = "SELECT $2 FROM ONLY "  # of what PostgreSQL itself runs, for each key of a new row


def cpu_by_part(skep: Stack) -> dict[str, float]:
    """Return the CPU seconds used so far by each part of the server with its children."""
    return {part: cpu_seconds({pid, *descendants(pid)}) for part, pid in skep.pids().items()}


def cores_by_part(skep: Stack, seconds: float) -> dict[str, float]:
    """Return the cores that each part uses on average for so long from now."""
    before, start = cpu_by_part(skep), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - start
    return {part: (cpu - before[part]) / passed for part, cpu in cpu_by_part(skep).items()}


def count_statements(skep: Stack) -> None:
    """Restart the PostgreSQL of this Skep so that it counts the statements it is sent."""
    with psycopg.connect(skep.database_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    os.kill(skep.pids()["postgres"], SIGINT)

    def counts() -> bool:
        with suppress(psycopg.Error):
            return bool(statements(skep))
        return False

    eventually(counts, RESTARTED_WITHIN_S)


def statements(skep: Stack) -> dict[str, int]:
    """Return how often PostgreSQL ran each statement so far: those that it was sent, CONTROL
    included, and FOREIGN_KEY, which it runs at the end of a transaction."""
    sent = skep.query("SELECT query, sum(calls) FROM pg_stat_statements GROUP BY query")
    return {query: int(calls) for query, calls in sent}
