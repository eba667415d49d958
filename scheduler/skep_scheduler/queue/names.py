"""What a gang is called in what the owner of another one reads."""

from __future__ import annotations

from collections.abc import Iterable

from skep_scheduler.facts import Gang
from skep_scheduler.world import World

ELSEWHERE = "a job of another team"


def name_for(world: World, reader: Gang, gang_id: str) -> str:
    """Names stay within a virtual cluster."""
    known = world.running.get(gang_id) or world.reserved.get(gang_id)
    gang = known.gang if known is not None else world.waiting.get(gang_id)
    return gang.name if gang is not None and gang.vc == reader.vc else ELSEWHERE


def names_for(world: World, reader: Gang, gang_ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name_for(world, reader, gang_id) for gang_id in gang_ids))
