"""Waiting out a database or a log store that is away for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import structlog

from skep_platform.core import outages
from skep_platform.core.errors import Unavailable
from skep_platform.core.logs import rarely
from skep_platform.gateway.threads import Threads

log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
PAUSE_S = 1.0


async def steadily(pool: Threads, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of `work`, tried until the database and the store answer. Closing the socket
    instead would make every agent of the cluster reconnect at once. Other errors are raised."""
    while True:
        try:
            return await pool.run(work, *args, **kwargs)
        except (*outages.DATABASE_ERRORS, Unavailable) as error:
            if not isinstance(error, Unavailable):
                raise_unless_away(error)
            rarely(log, type(error).__name__, "database_or_store_away", error=str(error)[:200])
            await asyncio.sleep(PAUSE_S)


def raise_unless_away(error: Exception) -> None:
    """Raises the error, unless it means that the database is away."""
    if outages.told(error) is None or not outages.is_away(error):
        raise error
