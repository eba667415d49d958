"""Logs: one JSON object per line on stderr, from structlog and from every library alike.

What a line says about a request (`request_id`, `user`) comes from context variables. Values under
names that hold secrets are masked before anything is written.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MASK = "***"
SECRET_NAME = re.compile(
    r"token|password|passwd|secret|credential|authorization|cookie|api_?key|session_?key", re.I
)
# Secrets of ours by their look, wherever they stand: API tokens, join tokens, node credentials.
SECRET_TEXT = re.compile(
    r"\bsk[tjn]_[A-Za-z0-9_-]{8,}|(?<=Bearer )\S+|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
)
# What it matches has one of these. It is slow, and nearly no text has any.
MARKS_OF_SECRETS = ("skt_", "skj_", "skn_", "Bearer ", "://")


def configure(level: str | None = None, celery_level: int | None = None) -> None:
    """Send all logging of this process through structlog.

    `level` is SKEP_LOG_LEVEL by default, and INFO without that. `celery_level` holds back what
    Celery itself says below that level (its option `-l`): a line for each task at INFO.
    """
    level = (level or os.environ.get("SKEP_LOG_LEVEL", "INFO")).upper()
    # No line says which file and line of code it comes from: without this, `logging` walks the
    # stack for each.
    logging._srcfile = None
    handler = _CurrentStderr()
    handler.setFormatter(
        _Formatter(
            foreign_pre_chain=_shared(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                mask_secrets,
                JSON,
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    _quiet_libraries()
    if celery_level:
        own = logging.getLogger("celery")
        own.setLevel(max(celery_level, logging.getLogger().level))
    structlog.configure(
        processors=[*_shared(), _Writer(handler)],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def rarely(logger: Any, about: str, event: str, **fields: Any) -> None:
    """Log a warning, at most once a minute for each event and what it is `about`; the next one says
    how many were left out."""
    key, now = (event, about), time.monotonic()
    with _rare:
        last, left_out = _logged.get(key, (-RARELY_S, 0))
        if now - last < RARELY_S:
            _logged[key] = last, left_out + 1
            return
        if len(_logged) >= MOST_RARE:
            _logged.clear()
        _logged[key] = now, 0
    if left_out:
        fields["left_out"] = left_out
    logger.warning(event, **fields)


RARELY_S = 60.0
MOST_RARE = 1000  # kinds of events remembered
_rare = threading.Lock()
_logged: dict[tuple[str, str], tuple[float, int]] = {}


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Formats our own lines without the two copies of the record that structlog's formatter makes
    for further handlers: there is one handler."""

    def format(self, record: logging.LogRecord) -> str:
        if type(record.msg) is not dict or not hasattr(record, "_logger"):
            return super().format(record)
        return JSON(None, "", mask_secrets(None, "", record.msg))  # type: ignore[return-value]


class _Writer:
    """Writes a line of ours at once, where nothing but our handler wants it: a record of `logging`
    takes longer to make and to pass on than the line to write."""

    def __init__(self, handler: _CurrentStderr) -> None:
        self._handler = handler
        self._root = logging.getLogger()

    def __call__(self, logger: Any, method: str, line: EventDict) -> Any:
        if self._root.handlers != [self._handler] or logger.handlers:
            return structlog.stdlib.ProcessorFormatter.wrap_for_formatter(logger, method, line)
        if logger.isEnabledFor(structlog.stdlib.NAME_TO_LEVEL[method]):
            self._handler.write(str(JSON(None, "", mask_secrets(None, "", line))))
        raise structlog.DropEvent


JSON = structlog.processors.JSONRenderer(default=str)


def mask_secrets(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    return {name: _masked(name, value) for name, value in line.items()}


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,  # plain text: never the values of local variables
    ]


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if _is_secret(name):
            return MASK
        marked = any(mark in value for mark in MARKS_OF_SECRETS)
        return SECRET_TEXT.sub(MASK, value) if marked else value
    if isinstance(value, Mapping):
        return {key: _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(name, inner) for inner in value]
    return value


@lru_cache(maxsize=1000)
def _is_secret(name: str) -> bool:
    return SECRET_NAME.search(name) is not None


def _quiet_libraries() -> None:
    """Quiet libraries that bring handlers of their own, or log too much."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "celery", "django", "django.server"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Requests are logged once, by `core.middleware`, without their query strings.
    for name in ("uvicorn.access", "django.request", "httpx", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # A wrong Host header is the caller's error, not a defect with a traceback.
    logging.getLogger("django.security.DisallowedHost").setLevel(logging.CRITICAL)


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is now, also after something replaced it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    def write(self, line: str) -> None:
        """Write a line of ours, one at a time."""
        with self.lock or nullcontext():
            self.stream.write(f"{line}\n")
            self.flush()

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
