"""The connections to apps that a proxy keeps."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from skep_platform.core.errors import Unavailable
from skep_platform.interactive import http
from skep_platform.interactive.http import HttpPools
from skep_platform.interactive.tunnel import Target


class Busy:
    """A connection with a request in it."""

    def is_idle(self) -> bool:
        return False


def target() -> Target:
    return Target(uuid4(), uuid4(), uuid4(), 8888)


def test_of_too_many_idle_apps_the_one_used_longest_ago_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(http, "POOLS", 2)

    async def opened() -> None:
        pools, (first, second, third) = HttpPools(), (target(), target(), target())
        oldest, kept = pools.of(first), pools.of(second)
        assert pools.of(first) is oldest  # used again: the second one is the oldest now
        pools.of(third)
        assert pools.of(first) is oldest
        assert pools.of(second) is not kept
        await pools.close()

    asyncio.run(opened())


def test_an_app_in_use_is_not_closed(monkeypatch) -> None:
    monkeypatch.setattr(http, "POOLS", 1)

    async def opened() -> None:
        pools = HttpPools()
        busy = pools.of(target())
        busy._connections.append(Busy())  # type: ignore[arg-type]
        with pytest.raises(Unavailable):
            pools.of(target())
        busy._connections.clear()
        await pools.close()

    asyncio.run(opened())
