"""One tick of the scheduler: snapshot, plan, commit. At most one runs in the whole cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from django.db import connection

from skep_platform.core import doorbells
from skep_platform.jobs import queries
from skep_platform.scheduling import commit
from skep_platform.scheduling.snapshot import SnapshotSource
from skep_platform.scheduling.waiting import Reasons
from skep_scheduler import engine

log = structlog.get_logger(__name__)

LOCK = 0x5CED  # of PostgreSQL's advisory locks, for the whole database
ROUNDS_S = 5.0  # after which a tick ends although more hints came: its message would come again
# A tick is followed by a pause of some times its own length, so that planning never takes more than
# a share of a core however fast the hints come.
PAUSE_FACTOR = 2.0
LEAST_PAUSE_S = 0.02
MOST_PAUSE_S = 0.5


@dataclass(slots=True)
class Scheduler:
    """What a process keeps between its ticks. None of it is truth."""

    source: SnapshotSource = field(default_factory=SnapshotSource)
    reasons: Reasons = field(default_factory=Reasons)


def tick(scheduler: Scheduler) -> int:
    """Run rounds until no hint is left; returns their number, 0 when another process ticks."""
    with _alone() as alone:
        rounds = 0
        end = time.monotonic() + ROUNDS_S
        while alone and (rounds == 0 or (doorbells.tick_hinted() and time.monotonic() < end)):
            started = time.monotonic()
            run_once(scheduler)
            rounds += 1
            _pause(time.monotonic() - started)
        return rounds


def run_once(scheduler: Scheduler) -> set[str]:
    """One round; returns the ids of the gangs that were placed."""
    # 1. From here on a hint means news that this round may not have seen.
    doorbells.take_tick_hint()
    # 2. Look.
    if not queries.queue().exists():
        return set()
    snapshot = scheduler.source.take()
    # 3. Decide.
    plan = engine.plan(snapshot, time.time())
    # 4. Act: each gang whole or not at all.
    placed = commit.commit(plan.placements)
    # 5. Tell those left why.
    scheduler.reasons.store(plan.reasons)
    if len(placed) < len(plan.placements):
        doorbells.ring_scheduler()  # someone was faster: plan again with what is true now
    return placed


@contextmanager
def _alone() -> Iterator[bool]:
    """A lock of the session: it ends with this process's connection, however that ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        (mine,) = cursor.fetchone()
    try:
        yield mine
    finally:
        if mine and connection.connection is not None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def _pause(seconds: float) -> None:
    time.sleep(min(max(seconds * PAUSE_FACTOR, LEAST_PAUSE_S), MOST_PAUSE_S))
