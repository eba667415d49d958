"""What the state of the platform is read from: database, Redis, queues of tasks, stores.

Facts without a judgement: the doctor judges them, and the page *Health* shows them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from skep_platform.core.bulk import fetch
from skep_platform.core.metrics import SENT
from skep_platform.core.notifications import LAST_TICK, valkey
from skep_platform.env_settings import KEY_PREFIX, QUEUES


@dataclass(frozen=True, slots=True)
class Database:
    """`oldest_transaction_s`: of one that is open. `wraparound`: part of the transaction ids that
    are used up since the oldest freeze; at 1 PostgreSQL takes no more writes. `archive_failed_at`:
    when write-ahead log could not be archived the last time, and has not been since."""

    version: str
    bytes: int
    connections: int
    max_connections: int
    oldest_transaction_s: float
    wraparound: float
    autovacuum: bool
    archived_at: datetime | None
    archive_failed_at: datetime | None
    retained_wal_bytes: int
    clock_ahead_s: float


DATABASE = """
SELECT current_setting('server_version'), pg_database_size(current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::int,
       (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)
          FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
           AND datname = current_database()),
       (SELECT age(datfrozenxid) / 2147483648.0 FROM pg_database
         WHERE datname = current_database()),
       current_setting('autovacuum') = 'on',
       (SELECT last_archived_time FROM pg_stat_archiver),
       (SELECT last_failed_time FROM pg_stat_archiver
         WHERE last_failed_time > coalesce(last_archived_time, '-infinity')),
       (SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)
          FROM pg_replication_slots WHERE NOT active),
       extract(epoch FROM clock_timestamp()) - %s
"""


def database() -> Database:
    """Read it by one query. Raises DatabaseError."""
    (row,) = fetch(DATABASE, [time.time()])
    text, size, used, most, oldest, wraparound, vacuum, archived, failed, wal, ahead = row
    return Database(
        text.split()[0],
        size,
        used,
        most,
        float(oldest),
        float(wraparound),
        vacuum,
        archived,
        failed,
        int(wal),
        float(ahead),
    )


MOST_TABLES = 10  # shown


@dataclass(frozen=True, slots=True)
class TableFacts:
    name: str
    bytes: int  # with indexes
    rows: int  # about
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


# Of a partitioned table itself nothing is counted but by its partitions.
TABLES = """
SELECT {name}, sum(pg_total_relation_size(s.relid))::bigint, sum(s.n_live_tup)::bigint,
       sum(s.n_dead_tup)::bigint, max(greatest(s.last_vacuum, s.last_autovacuum)),
       max(greatest(s.last_analyze, s.last_autoanalyze))
  FROM pg_stat_user_tables s
  LEFT JOIN pg_class whole ON whole.oid = pg_partition_root(s.relid)
 GROUP BY 1 ORDER BY 2 DESC
"""
WHOLE = TABLES.format(name="coalesce(whole.relname, s.relname)")
PARTITIONS = TABLES.format(name="s.relname")


LOCK_TIMEOUT = "2s"


def _of_sizes(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query that reads sizes: each table and index is locked for it, which has
    to wait for whoever rewrites one, as VACUUM FULL does. Raises OperationalError soon."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute(sql, params)
        return cursor.fetchall()


def tables() -> list[TableFacts]:
    """Return the tables, the largest first; partitions are summed up. Raises DatabaseError."""
    return [TableFacts(*row) for row in _of_sizes(WHOLE)]


def vacuumed_tables() -> list[TableFacts]:
    """Return what is vacuumed by itself: tables and partitions, the largest first. Raises
    DatabaseError."""
    return [TableFacts(*row) for row in _of_sizes(PARTITIONS)]


INVALID_INDEXES = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE NOT (i.indisvalid AND i.indisready) AND n.nspname = current_schema()
 ORDER BY 1
"""


def invalid_indexes() -> list[str]:
    """Return the indexes that a statement which failed left behind, and no query uses."""
    return [name for (name,) in fetch(INVALID_INDEXES)]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    name: str
    table: str
    bytes: int


# Not those that keep rows unique, or apart: they are needed without being read. Only where
# PostgreSQL has counted for long enough; what a replica reads is counted there. One of a
# partitioned table is used if that of any month is: old and new ones may not be read for long.
UNUSED_INDEXES = """
SELECT coalesce(whole.relname, s.indexrelname),
       coalesce((SELECT t.relname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
                  WHERE i.indexrelid = whole.oid), min(s.relname)),
       sum(pg_relation_size(s.indexrelid))::bigint
  FROM pg_stat_user_indexes s
  JOIN pg_index i ON i.indexrelid = s.indexrelid
  JOIN pg_stat_database d ON d.datname = current_database()
  LEFT JOIN pg_class whole ON whole.oid = pg_partition_root(s.indexrelid)
 WHERE i.indisvalid AND NOT (i.indisunique OR i.indisexclusion)
   AND coalesce(d.stats_reset, pg_postmaster_start_time()) < now() - %s
 GROUP BY 1, whole.oid
HAVING sum(s.idx_scan) = 0 AND sum(pg_relation_size(s.indexrelid)) >= %s
 ORDER BY 3 DESC
"""


def unused_indexes(least_bytes: int, counted_for: timedelta) -> list[IndexFacts]:
    """Return the indexes of at least that size that no query has read for so long, the largest
    first."""
    return [IndexFacts(*row) for row in _of_sizes(UNUSED_INDEXES, [counted_for, least_bytes])]


# A page of a B-tree holds entries of 8 bytes, a pointer of 4 and the key, whose width ANALYZE
# knows, to nine tenths; deduplication only makes an index smaller. What is beyond that is empty, or
# points to rows that are gone. Not those of months: they are emptied, and then dropped.
BLOATED_INDEXES = """
SELECT name, owner, bytes, bytes - needed FROM (
  SELECT c.relname AS name, t.relname AS owner, pg_relation_size(c.oid) AS bytes,
         (8192 + c.reltuples / 0.9 * (12 + 8 * ceil((
           SELECT sum(coalesce(s.avg_width, 16)) / 8.0
             FROM pg_attribute a
             LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.attname = a.attname
                                 AND s.tablename IN (t.relname, c.relname)
            WHERE a.attrelid = c.oid))))::bigint AS needed
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_am m ON m.oid = c.relam
   WHERE m.amname = 'btree' AND c.reltuples >= 0 AND i.indisvalid AND NOT c.relispartition
     AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'
     AND pg_relation_size(c.oid) >= %s
) estimated WHERE bytes - needed > %s * bytes ORDER BY 4 DESC
"""


@dataclass(frozen=True, slots=True)
class Bloat:
    """`empty_bytes`: what of an index holds nothing, by estimate."""

    name: str
    table: str
    bytes: int
    empty_bytes: int


def bloated_indexes(least_bytes: int, share: float) -> list[Bloat]:
    """Return the indexes of at least that size of which more than a share is empty, the one that
    wastes most first. Those of tables that were never analyzed are left out."""
    return [Bloat(*row) for row in _of_sizes(BLOATED_INDEXES, [least_bytes, share])]


def missing_migrations() -> list[str]:
    """Return the migrations of this version that were not applied."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


@dataclass(frozen=True, slots=True)
class Redis:
    """`max_bytes`: 0 without a limit. `policy`: what goes when it is full."""

    version: str
    bytes: int
    max_bytes: int
    policy: str
    clients: int
    clock_ahead_s: float  # of this machine's clock


def redis_server() -> Redis:
    """Raises redis.RedisError."""
    broker = valkey()
    info: Any = broker.info()
    before = time.time()
    seconds, microseconds = broker.time()
    ahead = (before + time.time()) / 2 - (float(seconds) + float(microseconds) / 1e6)
    version = info.get("valkey_version") or info.get("redis_version", "")
    return Redis(
        str(version),
        int(info.get("used_memory", 0)),
        int(info.get("maxmemory", 0)),
        str(info.get("maxmemory_policy", "")),
        int(info.get("connected_clients", 0)),
        ahead,
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of tasks. `lag_s`: since the oldest message was sent, that no worker has taken; null
    without one."""

    name: str
    messages: int
    lag_s: float | None


def queues() -> list[Queue]:
    """Raises redis.RedisError."""
    broker = valkey()
    found = []
    for name in QUEUES:
        key = f"{KEY_PREFIX}{name}"
        # Messages are pushed at the left and taken at the right.
        length: Any = broker.llen(key)
        oldest: Any = broker.lindex(key, -1)
        sent = _sent_at(oldest) if oldest else None
        lag = max(time.time() - sent, 0.0) if isinstance(sent, int | float) else None
        found.append(Queue(name, length, lag))
    return found


def _sent_at(message: str | bytes) -> object:
    """Return when a message was sent; None where it does not say so, as one of another program."""
    try:
        return json.loads(message)["headers"].get(SENT)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class Store:
    """Where logs and working files lie: `place` is "local" or the address of an object store,
    which has no size."""

    place: str
    free_bytes: int | None
    total_bytes: int | None


def store() -> Store:
    """A local disk that cannot be read has no size either."""
    if address := os.environ.get("SKEP_LOG_STORE", ""):
        return Store(address, None, None)
    try:
        disk = shutil.disk_usage(settings.SKEP_DATA_DIR)
    except OSError:
        return Store("local", None, None)
    return Store("local", disk.free, disk.total)


def last_tick() -> float | None:
    """Return when the scheduler planned last, in seconds since the epoch. Raises
    redis.RedisError."""
    found: Any = valkey().get(LAST_TICK)
    return float(found) if found else None
