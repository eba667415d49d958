"""Database work of the sockets, off the event loop.

Channels' `database_sync_to_async` runs everything of all connections in one thread, one call after
another. Each kind of work has its own few threads here, so that a slow log store never delays a
heartbeat; together they take no more database connections than the pool has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from skep_platform.core.threads import at_database

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    def __init__(self, name: str, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=f"gateway-{name}")

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of `work`. A caller that is cancelled does not stop it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: at_database(work, *args, **kwargs))


beats = Threads("beats", 2)
credentials = Threads("credentials", 2)  # of those who are not known yet: anybody can ask
control = Threads("control", 3)  # sessions, desired states, who may see what
facts = Threads("facts", 2)
logs = Threads("logs", 3)
