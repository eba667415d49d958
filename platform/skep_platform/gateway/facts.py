"""Facts on their way from an agent to the database."""

from __future__ import annotations

import math
import time
from uuid import UUID

from skep_agent.protocol import AttemptFact

MAX_INT = 2**31 - 1
MAX_TEXT = 4000


def clean(fact: AttemptFact) -> AttemptFact | None:
    """The fact with values that fit the database: an engine's message may hold anything, and one
    fact that cannot be stored must not hold up the others. None when it names no attempt."""
    try:
        UUID(fact.attempt_id)
    except ValueError:
        return None
    if not 0 <= fact.epoch < 2**63:
        return None
    return fact.model_copy(
        update={
            "at": fact.at if math.isfinite(fact.at) and 0 < fact.at < 4e9 else time.time(),
            "container_id": _text(fact.container_id, 80),
            "error_code": _text(fact.error_code, 64),
            "message": _text(fact.message, MAX_TEXT),
            "exit_code": _within(fact.exit_code, -MAX_INT, MAX_INT),
            "signal": _within(fact.signal, 0, 32767),
            "pull_percent": _within(fact.pull_percent, 0, 100),
            "memory_peak_mb": _within(fact.memory_peak_mb, 0, MAX_INT),
        }
    )


def _text(text: str, most: int) -> str:
    """Without what PostgreSQL cannot store: NUL and half surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:most]


def _within(value: int | None, least: int, most: int) -> int | None:
    return None if value is None else min(max(value, least), most)
