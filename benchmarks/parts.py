"""What each part of a running Skep uses: CPU time by part, statements sent to PostgreSQL, and bytes
between the parts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from signal import SIGINT

import psycopg
import redis
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


def bytes_so_far(skep: Stack) -> dict[str, int]:
    """Return how many bytes went each way so far: from and to the agents that are connected, into
    and out of Valkey, and into PostgreSQL's write-ahead log. Without `ss` those of agents are left
    out."""
    found = _bytes_of_agents(int(skep.gateway_url.rsplit(":", 1)[1]))
    broker = redis.Redis.from_url(json.loads(skep.home.environment.read_text())["SKEP_REDIS_URL"])
    with broker:
        stats = broker.info("stats")
    found["to_valkey"] = int(stats["total_net_input_bytes"])
    found["from_valkey"] = int(stats["total_net_output_bytes"])
    [(found["to_wal"],)] = skep.query("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
    return found


def _bytes_of_agents(port: int) -> dict[str, int]:
    if not shutil.which("ss"):
        return {}
    command = ["ss", "-tinH", "state", "established", f"sport = :{port}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        way: sum(int(count) for count in re.findall(rf"{counter}:(\d+)", said))
        for way, counter in (("from_agents", "bytes_received"), ("to_agents", "bytes_sent"))
    }
