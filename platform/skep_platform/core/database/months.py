"""Tables that are partitioned by months (UTC), so that what is old is dropped at once.

Each has a default partition for rows outside of all months: after a clock was wrong, or when the
task that makes the next months did not run for long. A partition's name ends with its month, or
with `_until_` and the first month that it does not have, if it has all before.

Making and dropping a partition locks the whole table. That takes milliseconds, but waits for who
reads it, and all others wait behind: so it gives up soon, and the next run does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog
from django.db import OperationalError, connection, transaction

from skep_platform.core.bulk import fetch

log = structlog.get_logger(__name__)
MONTHS_AHEAD = 2
LOCK_TIMEOUT = "400ms"
MONTHS = 0x30E5  # of advisory locks, with the hash of the table
ADD = "SELECT add_month(%(table)s, %(at)s)"
NAME = re.compile(r"(?P<until>_until)?_(?P<year>\d{4})_(?P<month>\d\d)$")
PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = to_regclass(%s)
"""


class MonthPartition(NamedTuple):
    """A partition with the rows of a month, or all rows before `until` where `since` is None."""

    name: str
    since: datetime | None
    until: datetime


def parts(table: str) -> list[MonthPartition]:
    """Return the partitions of a table, oldest first, without the default one."""
    found = []
    for (name,) in fetch(PARTITIONS, [table]):
        if match := NAME.search(name):
            first = datetime(int(match["year"]), int(match["month"]), 1, tzinfo=UTC)
            if match["until"]:
                found.append(MonthPartition(name, None, first))
            else:
                found.append(MonthPartition(name, first, month_after(first)))
    return sorted(found, key=lambda part: part.until)


def month_after(at: datetime, months: int = 1) -> datetime:
    """Return the beginning of the month that is so many after that of a time; 0: of its own."""
    at = at.astimezone(UTC)
    number = at.year * 12 + at.month - 1 + months
    return datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)


def add(table: str, at: datetime, ahead: int = 0, sql: str = ADD) -> int:
    """Make the partition of the month of a time, and of so many after it, by the statement `sql`.
    Returns how many were made: a month of which the default partition has rows already is not.
    Raises OperationalError where the table stays locked. One query where none is missing."""
    known = parts(table)
    made = {part.since for part in known}
    before = max((part.until for part in known if part.since is None), default=None)
    months = [month_after(at, number) for number in range(ahead + 1)]
    missing = [m for m in months if m not in made and (before is None or m >= before)]
    if not missing:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        # Of two at once one makes them, and the other one then sees that they are there.
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [MONTHS, table])
        return sum(_added(cursor, sql, {"table": table, "at": month}) for month in missing)


def _added(cursor: Any, sql: str, params: Mapping[str, Any]) -> bool:
    cursor.execute(sql, params)
    return bool(cursor.fetchone()[0])


def drop(
    table: str,
    name: str,
    is_over: Callable[[str], bool] = lambda _: True,
    then: Callable[[], object] = tuple,
) -> bool:
    """Drop a partition, and call `then` in the same transaction. Returns whether it was dropped:
    one that is in use for longer than LOCK_TIMEOUT is left to the next run. `is_over` says of its
    name whether it still may be: asked before the table is locked, and again once none can write,
    so it looks at little. Another run may have dropped it meanwhile, and made it anew."""
    try:
        if not is_there(name) or not is_over(name):
            return False
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            cursor.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
            if not is_there(name) or not is_over(name):
                return False
            cursor.execute(f"DROP TABLE {name}")
            then()
    except OperationalError as error:
        log.warning("month_not_dropped", partition=name, error=str(error)[:200])
        return False
    log.info("month_dropped", partition=name)
    return True


def is_there(name: str) -> bool:
    return fetch("SELECT to_regclass(%s) IS NOT NULL", [name]) == [(True,)]


def is_empty(order: str, name: str) -> bool:
    """`order`: columns with an index by which that is looked up. Where rows were deleted a moment
    ago, a look at all of it would take long."""
    return not fetch(f"SELECT 1 FROM {name} ORDER BY {order} LIMIT 1")  # noqa: S608 no values
