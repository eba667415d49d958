"""An undo log: what-if runs on the state itself and is taken back, so nothing is ever copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Undo = tuple[Callable[..., object], tuple[Any, ...]]


class Journal:
    """Records how to take back each change while a trial or a transaction is open."""

    def __init__(self) -> None:
        self._undos: list[Undo] = []
        self._open = 0

    def note(self, undo: Callable[..., object], *args: Any) -> None:
        if self._open:
            self._undos.append((undo, args))

    def set(self, thing: object, name: str, value: object) -> None:
        """Set an attribute and note how to undo it."""
        if self._open:
            self._undos.append((setattr, (thing, name, getattr(thing, name))))
        setattr(thing, name, value)

    def mark(self) -> int:
        """Return the moment to which `rollback` takes back all that is noted later. It is for use
        within a trial."""
        return len(self._undos)

    def rollback(self, mark: int) -> None:
        """Take back the changes since a moment."""
        while len(self._undos) > mark:
            undo, args = self._undos.pop()
            undo(*args)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever happens inside is taken back."""
        mark = len(self._undos)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self.rollback(mark)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside stays, unless it ends in an exception."""
        mark = len(self._undos)
        self._open += 1
        try:
            yield
        except BaseException:
            self.rollback(mark)
            raise
        finally:
            self._open -= 1
            if not self._open:
                self._undos.clear()
