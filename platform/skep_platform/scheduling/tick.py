"""One tick of the scheduler: catch up, plan, commit. At most one runs in the whole cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from skep_platform.core import doorbells, garbage
from skep_platform.jobs.life import preempting
from skep_platform.scheduling import placing, reserving
from skep_platform.scheduling.source import WorldSource
from skep_platform.scheduling.waiting import Reasons, plain
from skep_scheduler import queue
from skep_scheduler.world import World

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

    source: WorldSource = field(default_factory=WorldSource)
    reasons: Reasons = field(default_factory=Reasons)
    idle: bool = False  # the last plan had nothing to say


def tick(scheduler: Scheduler) -> int:
    """Run rounds until no hint is left; returns their number, 0 when another process ticks."""
    with _alone() as mine:
        rounds = 0
        end = time.monotonic() + ROUNDS_S
        while mine and (rounds == 0 or (doorbells.tick_hinted() and time.monotonic() < end)):
            started = time.monotonic()
            run_once(scheduler)
            rounds += 1
            _pause(time.monotonic() - started)
        return rounds


def run_once(scheduler: Scheduler) -> set[str]:
    """One round; returns the ids of the gangs that were placed."""
    # 1. From here on a hint means news that this round may not have seen.
    doorbells.take_tick_hint()
    # 2. Catch up. What an earlier round wrote is in the log, too.
    world = scheduler.source.catch_up()
    if scheduler.idle and not scheduler.source.news:
        return set()
    # 3. Decide.
    with garbage.paused():
        plan = queue.plan(world, time.time(), limits())
    scheduler.idle = False  # also when what follows fails
    # 4. Act, those first who make room for others; each gang whole or not at all.
    _change_ranks(plan)
    _cancel(world, {*plan.cancels, *scheduler.source.left_reserved})
    reserved = reserving.reserve(plan.preemptions)
    placed = placing.place(plan.placements)
    # 5. Tell those left why.
    scheduler.reasons.store(plan.reasons)
    scheduler.idle = not _says_something(plan)
    if len(placed) < len(plan.placements) or len(reserved) < len(plan.preemptions):
        doorbells.ring_scheduler()  # someone was faster: plan again with what is true now
    return placed


def limits() -> queue.Settings:
    """As the operator wants them."""
    return queue.Settings(**settings.SKEP_SCHEDULING)


def _change_ranks(plan: queue.Plan) -> None:
    if not plan.downgrades and not plan.restored:
        return
    now = timezone.now()
    reasons = {UUID(gang): plain(why) for gang, why in plan.downgrades.items()}
    with transaction.atomic():
        preempting.downgrade(reasons, now)
        preempting.restore([UUID(gang) for gang in plan.restored], now)


def _cancel(world: World, gangs: set[str]) -> None:
    reserving.cancel(gangs)
    now = time.time()
    for gang in gangs & world.waiting.keys():
        world.note_cancelled(gang, now)


def _says_something(plan: queue.Plan) -> bool:
    told: tuple[Mapping[str, object] | tuple[object, ...], ...] = (
        *(plan.placements, plan.preemptions, plan.downgrades),
        *(plan.restored, plan.cancels, plan.reasons),
    )
    return any(told)


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
