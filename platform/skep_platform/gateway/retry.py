"""Waiting out a database that is away for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError

log = structlog.get_logger(__name__)

R = TypeVar("R")
PAUSE_S = 1.0


async def steadily(work: Callable[[], Awaitable[R]]) -> R:
    """The result of `work`, tried until the database answers. Closing the socket instead would
    make every agent of the cluster reconnect at once. Other errors are raised."""
    while True:
        try:
            return await work()
        except (OperationalError, InterfaceError) as error:
            log.warning("database_away", error=str(error)[:200])
            await asyncio.sleep(PAUSE_S)
