"""Trouble of the log store, told by the process that meets it to those that show it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import cast

import redis
import structlog

from skep_platform.core.doorbells import valkey

log = structlog.get_logger(__name__)

STORE_KEY = "skep:alert:log-store"
KEPT_S = 90  # after the last time that it failed
NOTE_EVERY_S = 5.0

_noted_at = -NOTE_EVERY_S


@dataclass(frozen=True, slots=True)
class StoreAway:
    """The log store does not take or give chunks. Times are seconds since the epoch."""

    since: float
    last: float
    error: str


def note_store_away(error: str) -> None:
    """Remember for KEPT_S that the store failed; at most every few seconds, and never raises."""
    global _noted_at
    if time.monotonic() - _noted_at < NOTE_EVERY_S:
        return
    _noted_at = time.monotonic()
    try:
        before, now = store_away(), time.time()
        since = before.since if before else now
        text = json.dumps({"since": since, "last": now, "error": error[:300]})
        valkey().set(STORE_KEY, text, ex=KEPT_S)
    except redis.RedisError:
        pass  # it is in the log of this process


def store_away() -> StoreAway | None:
    """None while the store works, or when nobody used it of late. Raises RedisError."""
    text = cast("bytes | None", valkey().get(STORE_KEY))
    return StoreAway(**json.loads(text)) if text else None
