"""Whether the scheduler's world, caught up by news for days, is still what the database says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.db import connection, transaction

from skep_platform.scheduling.source import WorldSource

log = structlog.get_logger(__name__)

MOST_TOLD = 20


def verify(source: WorldSource) -> list[str]:
    """The differences, in short; empty when there is none. The world that was read anew takes the
    place of one that differs."""
    fresh = WorldSource(lasting=False)
    with _one_moment():
        source.catch_up()
        fresh.catch_up()
    found = differences(source.world.digest(), fresh.world.digest())
    if found:
        log.error("world_diverged", differences=found)
        source.become(fresh)
    return found


def differences(ours: Any, rebuilt: Any) -> list[str]:
    """Of two digests, by their parts."""
    found: list[str] = []
    for number, (mine, right) in enumerate(zip(ours, rebuilt, strict=True)):
        if mine != right:
            found += _of_part(number, mine, right)
    return found[:MOST_TOLD]


def _of_part(number: int, mine: Any, right: Any) -> Iterator[str]:
    both = set(mine), set(right)
    for sign, some in (("-", both[1] - both[0]), ("+", both[0] - both[1])):
        yield from (f"{number}{sign} {str(value)[:200]}" for value in _few(some))


def _few(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=str)[: MOST_TOLD // 2]


@contextmanager
def _one_moment() -> Iterator[None]:
    """All that is read inside is of one moment. (Inside a transaction that is up to its owner.)"""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
