"""Why and how long a gang waits: one sentence, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skep_scheduler.answer import Reason
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.facts import Gang
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World


@dataclass(frozen=True, slots=True)
class Blocked:
    """A gang that goes on waiting, and what stood in its way."""

    gang: Gang
    refusal: Refusal
    start: float | None = None


class Explainer:
    def __init__(self, world: World, now: float, settings: Settings) -> None:
        self._world, self._now, self._settings = world, now, settings
        self._ahead: Counter[str] = Counter()

    def reasons(self, blocked: Sequence[Blocked]) -> dict[str, Reason]:
        return {b.gang.id: self._reason(b) for b in blocked}

    def _reason(self, blocked: Blocked) -> Reason:
        vc = blocked.gang.vc
        details = {**blocked.refusal.details, "ahead": self._ahead[vc]}
        self._ahead[vc] += 1
        return Reason(blocked.refusal.code, blocked.refusal.message, details)
