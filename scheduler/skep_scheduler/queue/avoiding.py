"""Places elsewhere than where a gang failed: for a while it rather waits than goes there again,
unless there is no elsewhere for it."""

from __future__ import annotations

from collections.abc import Collection

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.facts import Gang
from skep_scheduler.queue.codes import Code
from skep_scheduler.queue.find import Answer, Found, Task, find
from skep_scheduler.queue.settings import Settings
from skep_scheduler.world import World
from skep_scheduler.world.request import Kind


class Elsewhere:
    """For the length of a tick."""

    def __init__(self, world: World, now: float, settings: Settings) -> None:
        self._world, self._now, self._settings = world, now, settings
        self._known: dict[object, bool] = {}

    def find(self, gang: Gang, kind: Kind, tasks: Collection[Task] | None = None) -> Answer:
        """As `find`. A refusal with code AVOIDING is this gang's alone; all others are true of any
        gang of its kind."""
        tries = self._settings.room_tries
        found = find(self._world, gang, kind, tries, tasks)
        avoids = gang.avoids(self._now)
        if isinstance(found, Refusal) or not (wanted := avoids.keys() & _nodes(found)):
            return found
        other = find(self._world, gang, kind, tries, tasks, avoids.keys())
        if isinstance(other, Found) and (_preempts(found) or not _preempts(other)):
            return other
        if not self._is_there(gang, kind, tasks, frozenset(avoids)):
            return found
        until = max(avoids[node] for node in wanted)
        return Refusal(Code.AVOIDING, "", {"avoids": sorted(wanted), "until": until})

    def _is_there(
        self, gang: Gang, kind: Kind, tasks: Collection[Task] | None, avoids: frozenset[str]
    ) -> bool:
        """Whether it would have a place elsewhere if nothing else ran."""
        key = (kind, avoids, None if tasks is None else tuple(tasks))
        if key not in self._known:
            holds = self._world.holds
            with holds.trial():
                for other in list(holds.tasks):
                    holds.release(other)
                found = find(self._world, gang, kind, 1, tasks, avoids)
            self._known[key] = isinstance(found, Found)
        return self._known[key]


def _nodes(found: Found) -> set[str]:
    return {task.node for _, task in found.tasks}


def _preempts(found: Found) -> bool:
    return bool(found.victims or found.borrowers)
