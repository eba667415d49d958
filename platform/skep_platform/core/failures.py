"""Errors that no view foresaw. Is the database away, or is it a defect of ours? What PostgreSQL
says decides, by its SQLSTATE.

Away are: no connection, a server that starts or stops, a connection that an administrator or a
failover ended, too many connections, a full disk, and a server that takes no writes because it is
(or became) a replica. The same request may be sent again then.

Errors that Django answers itself, outside any API view, look like others under /api/.
"""

from __future__ import annotations

import sys
import threading
import time

import structlog
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    close_old_connections,
    connection,
)
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from skep_platform.core.errors import Conflict, SkepError, Unavailable

log = structlog.get_logger(__name__)

# What to catch; `is_away` decides which of them it is.
DATABASE_ERRORS = (OperationalError, InterfaceError, InternalError)
READ_ONLY = "25006"
IDLE_IN_TRANSACTION = "25P03"  # for too long, as of a process that was stopped meanwhile
UNDONE = "40"  # a deadlock, or a serialization failure: nothing was done
AWAY_CLASSES = frozenset(
    {
        "08",  # connection exceptions
        UNDONE,
        "53",  # too many connections, no memory, a full disk
        "58",  # its files cannot be read or written
    }
)
AWAY_STATES = frozenset(
    {
        READ_ONLY,
        IDLE_IN_TRANSACTION,
        "55P03",  # a lock was not to be had in time
        "57014",  # cancelled: it took too long
        "57P01",  # shut down by an administrator
        "57P02",  # it crashed
        "57P03",  # it starts, or stops
        "57P05",  # the session was idle for too long
    }
)
TOO_LARGE = "54"  # a limit of PostgreSQL, such as the size of a value
# A name that is not there or not allowed, or a plan that a migration made stale.
OF_TABLES = frozenset({"42", "0A"})
REFERS_TO_NOTHING = "23503"  # a foreign key
RETRY_AFTER_S = 1
DRAIN_EVERY_S = 2.0

_drain = threading.Lock()
_drained_at = 0.0


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's code of an error of Django or psycopg; "" where the server said
    nothing."""
    seen: BaseException | None = error
    while seen is not None:
        if state := getattr(seen, "sqlstate", None):
            return str(state)
        seen = seen.__cause__
    return ""


def is_undone(error: BaseException) -> bool:
    """Whether another transaction was in the way: the same may be tried again at once."""
    return sqlstate(error).startswith(UNDONE)


def is_cut_off(error: BaseException) -> bool:
    """Whether the connection ended, or leads to a server that takes no writes any more, as in a
    failover. What was under way is to blame for nothing, and may be done or not."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    state = sqlstate(error)
    if not state:
        return isinstance(error, OperationalError | InterfaceError)
    return state in (READ_ONLY, IDLE_IN_TRANSACTION) or state.startswith(("08", "57P"))


def is_database_away(error: BaseException) -> bool:
    """Whether this error means that the database is away for a moment."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    state = sqlstate(error)
    if not state:
        return isinstance(error, OperationalError | InterfaceError)
    return state in AWAY_STATES or state[:2] in AWAY_CLASSES


def is_of_all(error: BaseException) -> bool:
    """Whether no row is to blame for this error, and others would fail, too: the database is away,
    or its tables are those of another version of ours, as while it is upgraded."""
    if is_database_away(error):
        return True
    return isinstance(error, DatabaseError) and sqlstate(error)[:2] in OF_TABLES


def as_refusal(error: BaseException) -> SkepError | None:
    """Return what a client is sent for an error of the database; None: it is a defect of ours.
    Leaves the connections of a server that became read-only: a new one may lead to its
    successor."""
    state = sqlstate(error)
    if is_database_away(error):
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
    return changed_meanwhile() if state == REFERS_TO_NOTHING else None


def refusal_of_one(error: Exception, **about: object) -> SkepError:
    """Return what is said of one of several things that a request asks for, so that the others are
    done all the same. A defect of ours is logged, with `about`. Raises the error when the database
    is away, which the others would find, too."""
    if isinstance(error, SkepError):
        return error
    if is_database_away(error):
        raise error
    if (known := as_refusal(error)) is not None:
        return known
    log.error("one_of_several_failed", exc_info=error, **about)
    return SkepError("The server failed; its log has the reason.", code="internal_error")


def changed_meanwhile() -> Conflict:
    """Return what a client is sent where a row is gone that was found a moment before."""
    message = "Something that this needs was deleted, or came to be used, at the same moment."
    return Conflict(f"{message} Look again.")


def leave_if_read_only(error: BaseException) -> None:
    """Leave a server that became read-only, where this error says so: what is no request, as a task
    or a thread of ours, would be given the same connection again and again."""
    if sqlstate(error) == READ_ONLY:
        leave_read_only()


def leave_broken(error: BaseException) -> None:
    """Leave a connection that broke, or whose server became read-only, by this error, outside of
    any transaction: what is done next gets another one."""
    leave_if_read_only(error)
    if not connection.in_atomic_block:
        close_old_connections()


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


API = "/api/"


def error(status: int, code: str, message: str, **details: object) -> JsonResponse:
    return JsonResponse({"code": code, "message": message, "details": details}, status=status)


def unknown_route(request: HttpRequest, **_: object) -> JsonResponse:
    message = (
        f"There is nothing at {request.path[:200]}; the REST API is described at /api/v1/docs."
    )
    return error(404, "unknown_route", message)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return error(413, "request_too_large", "The request is too large.")
    if isinstance(exception, DisallowedHost):
        # Whatever the path: this server does not know itself by that name.
        return error(400, "host_not_allowed", "Set SKEP_PUBLIC_URL or SKEP_ALLOWED_HOSTS.")
    if request.path.startswith(API):
        return error(400, "malformed_request", "The request cannot be understood.")
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(API):
        return error(403, "forbidden", "You may not do this.")
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(API):
        return unknown_route(request)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """What no view foresaw, as before the view is reached: a session is read from the database."""
    known = as_refusal(sys.exc_info()[1] or Exception())
    if known is not None:
        answer = error(known.status, known.code, known.message, **known.details)
        if wait := known.details.get("retry_after_s"):
            answer.headers["Retry-After"] = str(wait)
        return answer
    if not request.path.startswith(API):
        return defaults.server_error(request)
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    message = "The server failed; its log has the reason under this request id."
    return error(500, "internal_error", message, request_id=request_id)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    message = "Send the cookie skep_csrf's value as the header X-CSRFToken; GET /api/v1/auth/csrf."
    return error(403, "csrf_failed", message, reason=reason)
