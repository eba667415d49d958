"""What a process remembers of the database for a moment, for paths that run for every job."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from django.db import connection, models, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.dispatch import Signal

V = TypeVar("V")
M = TypeVar("M", bound=models.Model)

rows_written = Signal()  # by a statement for which Django sends no signal; the sender is the model


class Remembered(Generic[V]):
    """Values by key that are read again after `fresh_s` seconds, or at once after this process has
    changed a row of one of the `models`. What another process changes holds after `fresh_s`."""

    def __init__(self, fresh_s: float, most: int = 1_000) -> None:
        self._fresh_s = fresh_s
        self._most = most
        self._known: dict[Hashable, tuple[float, V]] = {}
        self._changes = 0

    def get(
        self, key: Hashable, read: Callable[[], V], keep: Callable[[V], bool] = lambda _: True
    ) -> V:
        """Return the value of a key, and remember it where `keep` says so. An open transaction
        reads it each time: what it reads may be rolled back."""
        if connection.in_atomic_block:
            return read()
        now, known = time.monotonic(), self._known.get(key)
        if known is not None and now - known[0] < self._fresh_s:
            return known[1]
        changes, found = self._changes, read()
        if changes == self._changes and keep(found):  # else it may be from before the change
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = (now, found)
        return found

    def forget(self) -> None:
        """Have each value read again when it is asked for next."""
        self._changes += 1
        self._known.clear()

    def forget_at_changes_of(self, *changing: type[models.Model]) -> None:
        """Forget everything whenever this process changes a row of these models. Models that are
        written in bulk have `NotedQuerySet`."""
        for model in changing:
            for signal in (post_save, post_delete, m2m_changed, rows_written):
                signal.connect(self._forget_at_change, sender=model)

    def _forget_at_change(self, **_: object) -> None:
        self.forget()
        transaction.on_commit(self.forget)  # another thread may read the old row until then


class NotedQuerySet(models.QuerySet[M]):
    """Sends `rows_written` for the changes in bulk, for which Django sends no signal."""

    def update(self, **values: Any) -> int:
        changed = super().update(**values)
        rows_written.send(self.model)
        return changed

    def bulk_create(self, *args: Any, **kwargs: Any) -> list[M]:
        made = super().bulk_create(*args, **kwargs)
        rows_written.send(self.model)
        return made
