"""Writing events: one call, inside the transaction of the change it tells of."""

from __future__ import annotations

from typing import Any

from skep_jobfile.plain import plain, plain_data
from skep_platform.core.models import Event


def event(
    subject_type: str, subject_id: object, kind: str, message: str, *, actor: str = "", **data: Any
) -> Event:
    """An unsaved event, for `Event.objects.bulk_create` in code that handles many at once."""
    return Event(
        subject_type=subject_type,
        subject_id=str(subject_id),
        kind=kind,
        message=plain(message),
        actor=actor,
        data=plain_data(data),
    )


def record(
    subject_type: str, subject_id: object, kind: str, message: str, *, actor: str = "", **data: Any
) -> None:
    event(subject_type, subject_id, kind, message, actor=actor, **data).save()
