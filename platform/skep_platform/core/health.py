"""Is this process ready to serve? It is when the database and Valkey answer."""

from __future__ import annotations

import redis
import structlog
from django.db import DatabaseError, connection
from django.http import JsonResponse

from skep_platform.core.doorbells import valkey

log = structlog.get_logger(__name__)


def ready() -> JsonResponse:
    """{"database": bool, "valkey": bool}, with status 503 unless both answer."""
    answers = {"database": _database(), "valkey": _valkey()}
    return JsonResponse(answers, status=200 if all(answers.values()) else 503)


def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True
    except (DatabaseError, OSError) as error:
        log.warning("not_ready", part="database", error=type(error).__name__)
        return False


def _valkey() -> bool:
    try:
        return bool(valkey().ping())
    except (redis.RedisError, OSError) as error:
        log.warning("not_ready", part="valkey", error=type(error).__name__)
        return False
