"""Why and how long each gang waits: one sentence, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from skep_scheduler.answer import Reason
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.facts import Gang
from skep_scheduler.queue import sentences
from skep_scheduler.queue.codes import Code
from skep_scheduler.queue.find import Found, find
from skep_scheduler.queue.needs import needs_of
from skep_scheduler.queue.numbers import Numbers
from skep_scheduler.queue.preemption import cools_until
from skep_scheduler.queue.promises import Promise
from skep_scheduler.queue.settings import Settings
from skep_scheduler.usage import CAUSES
from skep_scheduler.world import World
from skep_scheduler.world.request import Kind

OF_CELLS = {"chain", "leaf_type", "needs", "owns", "used", "free", "bad_in_chain"}
MOST_PROBES = 64  # per tick, of whether gangs could start as opportunistic ones


@dataclass(frozen=True, slots=True)
class Blocked:
    """A gang that goes on waiting, and what stood in its way."""

    gang: Gang
    kind: Kind
    refusal: Refusal
    promise: Promise | None = None


class Explainer:
    """To be asked when everything else is done: its numbers are those after all placements."""

    def __init__(self, world: World, now: float, settings: Settings) -> None:
        self._world, self._now, self._settings = world, now, settings
        self._numbers = Numbers(world, now, settings)
        self._ahead: Counter[str] = Counter()
        self._known: dict[tuple[Kind, str], dict[str, Any]] = {}
        self._probed: dict[object, bool] = {}

    def reasons(self, blocked: Sequence[Blocked]) -> dict[str, Reason]:
        """In the given order, which is that of the queue."""
        return {b.gang.id: self._reason(b) for b in blocked}

    def _reason(self, blocked: Blocked) -> Reason:
        gang, refusal = blocked.gang, blocked.refusal
        ahead = self._ahead[gang.vc]
        self._ahead[gang.vc] += 1
        details = {
            **{key: value for key, value in refusal.details.items() if key not in OF_CELLS},
            **self._of_kind(gang, blocked.kind, refusal),
            "ahead": ahead,
            "expected_start": self._start(blocked),
            "opportunistic_now": None,
            "told_at": self._now,
        }
        if gang.pin is not None:
            details["pin"] = gang.pin
        if ahead < self._settings.full_reasons:
            details["opportunistic_now"] = self._opportunistic_now(gang, blocked.kind, refusal)
        code = str(refusal.code)
        return Reason(code, sentences.sentence(code, details), details)

    def _of_kind(self, gang: Gang, kind: Kind, refusal: Refusal) -> dict[str, Any]:
        """What is the same for all gangs of a kind that wait for the same cause."""
        key = (kind, str(refusal.code))
        if key not in self._known:
            owned = self._numbers.owned(kind)
            used_by, more = self._numbers.used_by(kind)
            needs = needs_of(self._world, gang)
            self._known[key] = {
                "vc": gang.vc,
                "needs": needs,
                "owns": owned.gpus,
                "used": owned.used,
                "free": max(owned.gpus - owned.used - owned.unavailable.idle, 0),
                **{cause: owned.unavailable.gpus[cause] for cause in CAUSES},
                "nodes": {
                    "owns": owned.nodes,
                    "used": owned.used_nodes,
                    **{cause: owned.unavailable.nodes[cause] for cause in CAUSES},
                },
                "model": needs["gpu_model"] or owned.model,
                "used_by": used_by,
                "more": more,
            }
        return self._known[key]

    def _start(self, blocked: Blocked) -> float | None:
        details, leave = blocked.refusal.details, self._settings.leave_s
        if blocked.promise is not None:
            return blocked.promise.start
        if blocked.refusal.code == Code.PREEMPTING:
            return self._now + leave
        if blocked.refusal.code == Code.VICTIMS_TOO_YOUNG:
            return float(details["at"]) + leave
        if blocked.refusal.code == Code.AVOIDING:
            return float(details["until"])
        if blocked.refusal.code == Code.COOLING_DOWN:
            return cools_until(self._world, blocked.gang.id, self._settings) + leave
        return None

    def _opportunistic_now(self, gang: Gang, kind: Kind, refusal: Refusal) -> bool | None:
        """Whether it would start at once if it asked for nothing that it owns."""
        if gang.opportunistic or not kind.parts or refusal.code in NO_HELP or gang.vc == "":
            return None
        idle = replace(gang, id=f"{gang.id}?", priority=-1, pin=None)
        probe = self._world.kind_of(idle)
        key = (probe.members, probe.within)
        if key not in self._probed:
            if len(self._probed) >= MOST_PROBES:
                return None
            tasks = [(kind.parts[0].positions[0], 0)] if gang.incremental else None
            self._probed[key] = isinstance(find(self._world, idle, probe, 1, tasks), Found)
        return self._probed[key]


# What it would meet as an opportunistic gang, too.
NO_HELP = {
    Code.AVOIDING,
    Code.UNKNOWN_VC,
    Code.UNKNOWN_LEAF_TYPE,
    Code.UNKNOWN_CELL_TYPE,
    Code.BAD_SIZE,
    Code.BAD_PRIORITY,
    Code.EMPTY_GANG,
    Code.NEVER_FITS_NODE,
    Code.NEVER_FITS_CLUSTER,
}
