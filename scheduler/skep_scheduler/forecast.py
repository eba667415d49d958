"""The queue of a virtual cluster as a time line: which gang comes first, and who starts when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skep_scheduler.explain.needs import shape_of
from skep_scheduler.model import DEFAULTS, Gang, Options
from skep_scheduler.scope import Scope
from skep_scheduler.state import ClusterState
from skep_scheduler.tick import Tick

FORECASTS = 20  # gangs per VC whose start is forecast, beside those that are reserved one
MOST = 100  # gangs of a VC in its time line


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """A waiting gang in the order of its virtual cluster.

    needs: what it asks for, in words
    expected_start: when it starts, as things are (seconds since the epoch); None: unknown
    reserved_start: when it starts at the latest; None: no start is reserved for it
    nodes: where that would be, as things are
    """

    gang: str
    needs: str
    expected_start: float | None
    reserved_start: float | None = None
    nodes: tuple[str, ...] = ()


def timeline(
    state: ClusterState,
    vc: str,
    now: float,
    options: Options = DEFAULTS,
    waiting: Iterable[Gang] | None = None,
) -> tuple[ExpectedStart, ...]:
    """Return the first guaranteed gangs that wait in `vc`, those with a nomination before all
    others. It costs a plan for at most `MOST` gangs with `FORECASTS` reservations. `waiting`: the
    guaranteed gangs of `vc` that wait for a place, where the caller has them at hand."""
    if waiting is None:
        waiting = (g for g in state.queued() if g.vc == vc and not g.opportunistic)
    with state.trial():
        tick = Tick(state, now, options, Scope(vc, tuple(waiting), MOST, FORECASTS))
        plan = tick.run()
    starts = {known.gang.id: known for known in tick.reservations_of(vc)[: options.reservations]}
    found = []
    for gang in [*_nominated(state, vc), *tick.queue][:MOST]:
        reason, reserved = plan.reasons.get(gang.id), starts.get(gang.id)
        start = now if reason is None else reason.details["expected_start"]
        known = ExpectedStart(gang.id, shape_of(state, gang), start)
        if reserved is not None:
            known = ExpectedStart(
                known.gang, known.needs, known.expected_start, reserved.start, reserved.nodes
            )
        found.append(known)
    return tuple(found)


def _nominated(state: ClusterState, vc: str) -> list[Gang]:
    nominated = (known.gang for _, known in sorted(state.nominated.items()))
    return [gang for gang in nominated if gang.vc == vc]
