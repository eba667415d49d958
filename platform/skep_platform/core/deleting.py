"""Deleting what is old: a bounded number of rows at a time, and for a bounded time."""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

ROWS = 2000  # deleted in one transaction
BUDGET_S = 30.0  # of one call; the next run of the task goes on


def delete_in_batches(old: QuerySet[Any], rows: int = ROWS, budget_s: float = BUDGET_S) -> int:
    """Delete the rows of a query with what belongs to them, in the order of the query; return how
    many there were of it. A row that is locked is left to the next run, so that two runs at once do
    no harm."""
    until, deleted = time.monotonic() + budget_s, 0
    while True:
        with transaction.atomic():
            some = old.only("pk").select_for_update(skip_locked=True, of=("self",))[:rows]
            ids = [row.pk for row in some]
            if ids:
                old.model._default_manager.filter(pk__in=ids).delete()
        deleted += len(ids)
        if len(ids) < rows or time.monotonic() > until:
            return deleted
