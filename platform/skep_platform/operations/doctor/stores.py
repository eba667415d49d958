"""The doctor on what Skep keeps its data in: PostgreSQL, Redis, the stores, and the backups."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import OperationalError
from django.utils import timezone
from psycopg.errors import LockNotAvailable

from skep_platform.core.models import uuid7
from skep_platform.core.serving import give_connection_back
from skep_platform.operations import backups, readings
from skep_platform.operations.doctor.findings import Finding, error, names, note, ok, warning
from skep_platform.operations.readings import TableFacts

GIB = 1024**3
LONG_TRANSACTION_S = 600.0
CONNECTIONS_SHARE = 0.85
WRAPAROUND_WARNING, WRAPAROUND_ERROR = 0.25, 0.6
RETAINED_WAL = 10 * GIB
UNUSED_BYTES, UNUSED_FOR = 256 * 1024**2, timedelta(days=30)
BLOATED_BYTES, BLOATED_SHARE = 256 * 1024**2, 0.6
DEAD_ROWS, DEAD_SHARE = 50_000, 0.3  # both, of a table that was not vacuumed for a day
QUEUE_LAG_S, QUEUE_MESSAGES = 30.0, 500
TICK_S = 60.0
BACKUP_AGE = timedelta(hours=26)  # one a day, and some patience
DISK_SHARE = 0.1


def check_database() -> Iterator[Finding]:
    found = readings.database()
    size = f"{found.bytes / GIB:.1f} GiB" if found.bytes >= GIB else f"{found.bytes >> 20} MiB"
    used = f"{found.connections} of {found.max_connections} connections"
    yield ok(f"PostgreSQL {found.version}, {size}, {used}.")
    if found.connections > CONNECTIONS_SHARE * found.max_connections:
        action = "Raise max_connections, lower SKEP_DATABASE_POOL, or use a pooler."
        yield warning("connections_few", f"{used} are in use.", action)
    if found.oldest_transaction_s > LONG_TRANSACTION_S:
        minutes = found.oldest_transaction_s / 60
        message = f"A transaction is open for {minutes:.0f} minutes: vacuum removes nothing newer."
        action = (
            "Find it: select pid, xact_start, state, query from pg_stat_activity order by "
            "xact_start; end it with pg_terminate_backend(pid)."
        )
        yield warning("transaction_long", message, action)
    if not found.autovacuum:
        message = "autovacuum is off: tables grow without end."
        yield error("autovacuum_off", message, "Set autovacuum = on, and reload PostgreSQL.")
    if found.wraparound > WRAPAROUND_WARNING:
        say = error if found.wraparound > WRAPAROUND_ERROR else warning
        message = (
            f"{found.wraparound:.0%} of the transaction ids are used up since the last freeze."
        )
        action = "VACUUM (FREEZE, VERBOSE) the tables with the largest age(relfrozenxid)."
        yield say("wraparound_near", message, action)
    if found.retained_wal_bytes > RETAINED_WAL:
        message = f"An inactive replication slot keeps {found.retained_wal_bytes / GIB:.0f} GiB."
        action = "Start its replica, or drop it: select * from pg_replication_slots."
        yield warning("replication_slot_inactive", message, action)
    if found.archive_failed_at is not None:
        message = f"PostgreSQL cannot archive its log since {found.archive_failed_at:%d %b %H:%M}."
        action = "See archive_command and PostgreSQL's own log: its disk fills until it can."
        yield error("archive_failed", message, action)


def check_migrations() -> Iterator[Finding]:
    missing = readings.missing_migrations()
    yield ok("All migrations were applied.")
    if missing:
        message = f"{len(missing)} migrations were not applied: {names(missing)}."
        action = "Run `django-admin migrate` (`skep manage migrate`) with this version."
        yield error("migrations_missing", message, action, migrations=missing)


def check_tables() -> Iterator[Finding]:
    """Whether vacuum keeps up, and indexes can be used and are no larger than they need to be."""
    try:
        yield from _tables()
    except OperationalError as failure:
        if not isinstance(failure.__cause__, LockNotAvailable):
            raise
        message = "Sizes of tables cannot be read while one of them is rewritten."
        yield note("tables_locked", message, "Ask again when VACUUM FULL or the like is over.")


def _tables() -> Iterator[Finding]:
    tables = readings.tables()
    largest = ", ".join(f"{t.name} {t.bytes >> 20} MiB" for t in tables[:3])
    yield ok(f"{len(tables)} tables; the largest: {largest}.")
    late = [table for table in readings.vacuumed_tables() if _vacuum_is_late(table)]
    if late:
        named = names(f"{t.name} ({t.dead_rows:,} dead of {t.rows + t.dead_rows:,})" for t in late)
        action = (
            "VACUUM (ANALYZE) them now. If it comes back, lower autovacuum_vacuum_scale_factor "
            "of these tables, and look for a transaction that stays open."
        )
        yield warning("vacuum_late", f"Many dead rows, not vacuumed for a day: {named}.", action)
    if invalid := readings.invalid_indexes():
        message = f"Indexes that no query uses, as making them failed: {names(invalid)}."
        action = f"REINDEX INDEX CONCURRENTLY {invalid[0]};"
        yield warning("index_invalid", message, action, indexes=invalid)
    if bloated := readings.bloated_indexes(BLOATED_BYTES, BLOATED_SHARE):
        named = names(
            f"{i.name} of {i.table} ({i.bytes >> 20} MiB, {i.empty_bytes / i.bytes:.0%} empty)"
            for i in bloated
        )
        message = f"Indexes that are mostly empty, by estimate: {named}."
        action = f"REINDEX INDEX CONCURRENTLY {bloated[0].name}; it needs space for a second copy."
        yield warning("index_bloated", message, action, indexes=[i.name for i in bloated])
    if unused := readings.unused_indexes(UNUSED_BYTES, UNUSED_FOR):
        named = names(f"{i.name} of {i.table} ({i.bytes >> 20} MiB)" for i in unused)
        message = f"Large indexes that no query has read for {UNUSED_FOR.days} days: {named}."
        action = (
            "Nothing is broken: each costs space and time at every write. Where replicas answer "
            "queries look there, too. Migrations expect all indexes: report it, do not drop them."
        )
        yield note("index_unused", message, action, indexes=[i.name for i in unused])


def _vacuum_is_late(table: TableFacts) -> bool:
    many = table.dead_rows > max(DEAD_ROWS, DEAD_SHARE * table.rows)
    day_ago = timezone.now() - timedelta(days=1)
    return many and (table.vacuumed_at is None or table.vacuumed_at < day_ago)


def check_redis() -> Iterator[Finding]:
    found = readings.redis_server()
    yield ok(f"Redis or Valkey {found.version}, {found.bytes >> 20} MiB, {found.clients} clients.")
    if found.max_bytes and found.policy not in ("noeviction", ""):
        message = f"When it is full it drops what it likes ({found.policy}), messages included."
        yield warning("redis_evicts", message, "Set maxmemory-policy noeviction.")
    if found.max_bytes and found.bytes > 0.9 * found.max_bytes:
        message = f"{found.bytes >> 20} of {found.max_bytes >> 20} MiB are used."
        yield error("redis_full", message, "Raise maxmemory.")


def check_queues() -> Iterator[Finding]:
    """Whether Celery keeps up, and the scheduler plans."""
    queues = readings.queues()
    waiting = ", ".join(f"{q.name} {q.messages}" for q in queues)
    yield ok(f"Messages that wait: {waiting}.")
    for queue in queues:
        lag = queue.lag_s or 0.0
        if lag > QUEUE_LAG_S or queue.messages > QUEUE_MESSAGES:
            waiting = f"{queue.messages} tasks wait in the queue {queue.name}"
            message = f"{waiting}, the oldest for {lag:.0f} s."
            action = (
                "See whether its workers run, and which task takes long: the series "
                "skep_task_seconds, or the workers' log."
            )
            yield error("queue_late", message, action, queue=queue.name)
    planned = readings.last_tick()
    if planned is None or time.time() - planned > TICK_S:
        since = "" if planned is None else f" for {time.time() - planned:.0f} s"
        message = f"The scheduler has not planned{since}: no job starts."
        action = "Look at the log of the worker of the queue scheduler."
        yield error("scheduler_stopped", message, action)


def check_stores() -> Iterator[Finding]:
    """Write, read and delete an object of the log store and of the store of working files."""
    where = os.environ.get("SKEP_LOG_STORE") or str(settings.SKEP_DATA_DIR)
    yield ok(f"Logs and working files are in {where}; an object was written, read and deleted.")
    for name in ("logs", "files"):
        try:
            _try_store(name)
        except Exception as failure:
            message = f"The store of {name} does not work: {failure}"[:400]
            action = "Check its address, credentials and space; agents keep logs meanwhile."
            yield error("store_away", message, action, store=name)
    found = readings.store()
    if found.total_bytes and found.free_bytes and found.free_bytes < DISK_SHARE * found.total_bytes:
        message = (
            f"{found.free_bytes / GIB:.1f} of {found.total_bytes / GIB:.1f} GiB are free there."
        )
        action = "Enlarge the disk, or lower SKEP_LOG_RETENTION_DAYS."
        yield warning("store_nearly_full", message, action)


def _try_store(name: str) -> None:
    store, text = storages[name], b"skep admin doctor"
    key = f"doctor/{uuid7()}"
    give_connection_back()
    saved = store.save(key, ContentFile(text))
    try:
        with store.open(saved) as file:
            read = file.read()
        if read != text:
            raise OSError("what was read is not what was written")
    finally:
        store.delete(saved)


def check_backup() -> Iterator[Finding]:
    last, archived = backups.last(), readings.database().archived_at
    action = (
        "One box: `skep backup create --to FOLDER` each night. Else back up PostgreSQL, and record "
        "it with `skep admin backup-made PLACE`."
    )
    if last is None and archived is None:
        yield warning("backup_none", "No backup was ever recorded.", action)
        return
    if last is None:
        assert archived is not None
        yield ok(f"PostgreSQL archived its log last at {archived:%d %b %H:%M} UTC.")
        message = "PostgreSQL archives its log; no whole backup was recorded."
        yield note("backup_unrecorded", message, action)
        return
    age = timezone.now() - last.at
    text = f"The last backup is {age.total_seconds() / 3600:.0f} h old ({last.place})."
    yield ok(text)
    fresh = archived is not None and timezone.now() - archived < BACKUP_AGE
    if age > BACKUP_AGE and not fresh:
        yield warning("backup_old", text, action)
