"""Who goes first: starving gangs, then priority with a little for waiting, then who came first;
opportunistic gangs after all guaranteed ones."""

from __future__ import annotations

from collections.abc import Iterable

from skep_scheduler.facts import Gang
from skep_scheduler.queue.settings import Settings

Rank = tuple[bool, bool, int, float, str]


def ordered(gangs: Iterable[Gang], now: float, settings: Settings) -> list[Gang]:
    return sorted(gangs, key=lambda gang: rank(gang, now, settings))


def rank(gang: Gang, now: float, settings: Settings) -> Rank:
    """The least goes first."""
    if gang.priority < 0:
        return True, True, 0, gang.submitted_at, gang.id
    # By submission and not by its return to the queue: a gang that was drained, preempted or
    # retried keeps its place before those of its priority that came after it.
    age = now - gang.submitted_at
    aged = max(min(int(age // settings.ageing_s), settings.ageing_limit), 0)
    starving = is_starving(gang, now, settings)
    return False, not starving, -gang.priority - aged, gang.submitted_at, gang.id


def waits_since(gang: Gang) -> float:
    """Return when the gang could have started for the first time since it was queued (seconds since
    the epoch). Starvation counts from here: a gang that ran until a moment ago does not starve."""
    since = gang.submitted_at if gang.waits_since is None else gang.waits_since
    return max(since, gang.not_before)


def is_starving(gang: Gang, now: float, settings: Settings) -> bool:
    return not gang.opportunistic and now - waits_since(gang) > settings.starvation_s
