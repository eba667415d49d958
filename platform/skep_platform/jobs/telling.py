"""The story of a job as one reader may know it: who took its place is named to those who may see
that job."""

from __future__ import annotations

from collections.abc import Sequence

from skep_platform.core.models import Event
from skep_platform.jobs import queries
from skep_platform.jobs.life import stories
from skep_platform.tenancy.queries import AnyUser


def for_reader(user: AnyUser, events: Sequence[Event]) -> list[Event]:
    """The events with the names that the reader may know; one query, and only where somebody of
    another virtual cluster took the place. Nothing is stored."""
    by = {e.data["by"] for e in events if e.kind in NAMING and "by" in e.data}
    names: dict[str, str] = {}
    if by:
        rows = queries.visible_to(user).filter(pk__in=by).values_list("pk", "name")
        names = {str(pk): name for pk, name in rows}
    for event in events:
        if event.kind in NAMING and "by" in event.data:
            _name(event, names.get(event.data["by"]))
    return list(events)


NAMING = ("job.preempted", "job.requeued")


def _name(event: Event, name: str | None) -> None:
    if name is None:
        event.data = {key: value for key, value in event.data.items() if key != "by"}
    else:
        event.message = stories.named(event.message, event.data, name)
        event.data = {**event.data, "name": name}
