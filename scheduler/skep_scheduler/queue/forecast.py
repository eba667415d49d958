"""The queue of a virtual cluster as a time line: who runs until when, who starts when."""

from __future__ import annotations

from dataclasses import dataclass

from skep_scheduler.answer import Reason
from skep_scheduler.facts import Gang
from skep_scheduler.queue.needs import shape_of
from skep_scheduler.queue.numbers import Numbers
from skep_scheduler.queue.settings import DEFAULTS, Settings
from skep_scheduler.queue.tick import Scope, Tick
from skep_scheduler.world import World

FORECASTS = 20  # gangs per VC whose start is forecast, beside those that are promised one


@dataclass(frozen=True, slots=True)
class Running:
    """`opportunistic`: as it counts now. `since`, `expected_end`: seconds since the epoch."""

    gang: str
    gpus: int
    since: float
    expected_end: float | None
    opportunistic: bool
    preemptible: bool
    leaving: bool
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A promised start, and where it would be as things are."""

    start: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """`position` counts from 1 in the VC; `needs` is in words. A gang without a reason starts, or
    preempts others, in the next tick."""

    gang: str
    position: int
    needs: str
    reservation: Reservation | None
    expected_start: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class VcQueue:
    """`more`: gangs that wait after those told."""

    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]
    more: int


def queue(
    world: World,
    vc: str,
    now: float,
    limit: int = 100,
    settings: Settings = DEFAULTS,
    after: int = 0,
) -> VcQueue:
    """`limit` gangs that wait in `vc`, after the first `after` ones; and all that run in it."""
    with world.trial():
        tick = Tick(world, now, settings, Scope(vc, after + limit, FORECASTS))
        plan = tick.run()
    waits = [*_reserved(world, vc), *tick.queue]
    told = waits[after : after + limit]
    waiting = [
        _waiting(world, gang, position, plan.reasons.get(gang.id), tick, settings)
        for position, gang in enumerate(told, after + 1)
    ]
    more = max(len(waits) - after - limit, 0)
    return VcQueue(_running(world, vc, now, settings), tuple(waiting), more)


def _reserved(world: World, vc: str) -> list[Gang]:
    """Those for whom others make room come first."""
    reserved = (known.gang for _, known in sorted(world.reserved.items()))
    return [gang for gang in reserved if gang.vc == vc]


def _waiting(
    world: World, gang: Gang, position: int, reason: Reason | None, tick: Tick, settings: Settings
) -> Waiting:
    promises = tick.promises_of(gang.vc)
    start = tick.now if reason is None else reason.details["expected_start"]
    held = next((p for p in promises[: settings.promises] if p.gang.id == gang.id), None)
    reservation = Reservation(held.start, held.nodes) if held is not None else None
    return Waiting(gang.id, position, shape_of(world, gang), reservation, start, reason)


def _running(world: World, vc: str, now: float, settings: Settings) -> tuple[Running, ...]:
    numbers = Numbers(world, now, settings)
    mine = [holding for holding in world.running.values() if holding.gang.vc == vc]
    return tuple(
        Running(
            holding.gang.id,
            sum(len(task.gpu_uuids) for task in holding.tasks),
            holding.placed_at,
            numbers.end_of(holding.gang.id),
            not world.is_guaranteed(holding.gang.id),
            holding.gang.preemptible,
            holding.leaving,
            tuple(sorted({task.node for task in holding.tasks})),
        )
        for holding in sorted(mine, key=lambda holding: (holding.placed_at, holding.gang.id))
    )
