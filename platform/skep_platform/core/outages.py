"""Is it the database that is away, or is it us? What PostgreSQL says decides, by its SQLSTATE.

Away are: no connection, a server that starts or stops, a connection that an administrator or a
failover ended, too many connections, a full disk, and a server that takes no writes because it is
(or became) a replica. The same request may be sent again then.
"""

from __future__ import annotations

import threading
import time

import structlog
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection

from skep_platform.core.errors import SkepError, Unavailable

log = structlog.get_logger(__name__)

# What to catch; `is_away` tells which of them it is.
DATABASE_ERRORS = (OperationalError, InterfaceError, InternalError)
READ_ONLY = "25006"
CLASSES = frozenset(
    {
        "08",  # connection exceptions
        "40",  # a deadlock, or a serialization failure: nothing was done
        "53",  # too many connections, no memory, a full disk
        "58",  # its files cannot be read or written
    }
)
STATES = frozenset(
    {
        READ_ONLY,
        "55P03",  # a lock was not to be had in time
        "57014",  # cancelled: it took too long
        "57P01",  # shut down by an administrator
        "57P02",  # it crashed
        "57P03",  # it starts, or stops
        "57P05",  # the session was idle for too long
    }
)
TOO_LARGE = "54"  # a limit of PostgreSQL, such as the size of a value
RETRY_AFTER_S = 1
DRAIN_EVERY_S = 2.0

_drain = threading.Lock()
_drained_at = 0.0


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's code of an error of Django or psycopg; "" where the server said nothing."""
    seen: BaseException | None = error
    while seen is not None:
        if state := getattr(seen, "sqlstate", None):
            return str(state)
        seen = seen.__cause__
    return ""


def is_away(error: BaseException) -> bool:
    """Whether this error means that the database is away for a moment."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    state = sqlstate(error)
    if not state:
        return isinstance(error, OperationalError | InterfaceError)
    return state in STATES or state[:2] in CLASSES


def told(error: BaseException) -> SkepError | None:
    """What a client is told of an error of the database; None: it is a defect of ours. Leaves the
    connections of a server that became read-only: a new one may lead to its successor."""
    state = sqlstate(error)
    if is_away(error):
        if state != READ_ONLY:
            text = "The database is away for a moment; try again."
            return Unavailable(text, retry_after_s=RETRY_AFTER_S)
        leave_read_only()
        text = "The database takes no writes for a moment, as in a failover; try again."
        return Unavailable(text, retry_after_s=RETRY_AFTER_S, read_only=True)
    if isinstance(error, OperationalError) and state.startswith(TOO_LARGE):
        too_large = SkepError("The request is too large.", code="request_too_large")
        too_large.status = 413
        return too_large
    return None


def leave_read_only() -> None:
    """Replace the connections of this process's pool, at most every few seconds. The one in use
    goes when it is given back."""
    global _drained_at
    with _drain:
        if time.monotonic() - _drained_at < DRAIN_EVERY_S:
            return
        _drained_at = time.monotonic()
    pool = getattr(connection, "pool", None)
    if pool is not None:
        log.warning("database_read_only")
        pool.drain()
