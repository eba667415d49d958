"""How the admin wants the cells laid out, and the revision that every change of it, or of what
virtual clusters own, raises: an editor says which one it began with."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from skep_platform.cluster.models import CellLayout
from skep_platform.core import doorbells

ROW = 1


def current() -> CellLayout:
    return CellLayout.objects.filter(pk=ROW).first() or CellLayout(pk=ROW)


def lock() -> CellLayout:
    """The row until the end of the transaction: one change at a time."""
    CellLayout.objects.get_or_create(pk=ROW)
    return CellLayout.objects.select_for_update(no_key=True).get(pk=ROW)


def changed(**columns: str) -> int:
    """Counts a change, and stores `text` if that is what changed; returns the new revision."""
    row = lock()
    CellLayout.objects.filter(pk=ROW).update(
        revision=F("revision") + 1, updated_at=Now(), **columns
    )
    doorbells.ring_scheduler()
    doorbells.ring_topic("cluster")
    return row.revision + 1
