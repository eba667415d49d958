"""Group commit: what several threads want to store at the same time is stored at once. A statement
for the rows of ten requests costs the database a third of ten statements."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST = 32  # items that are worked on at once
PATIENCE_S = 0.05  # for work that others began; after that, the next work begins beside it
LINGER_S = 0.012  # for those who are about to come: what a few threads need for a submit
# So long a thread is expected after it was announced: one that takes longer waits for something, as
# for a registry of images, and holds up no other.
EXPECTED_S = 0.1


class Expected:
    """The threads that are about to bring an item to one of the groups that share this. A group
    waits for them for a moment: which of the groups they come to is not known before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[int, float] = {}  # by its id: when it was announced
        self._lingering: dict[int, _Call[Any]] = {}  # by its id: the next of a group that waits

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Announce that this thread is about to call `run` of a group inside."""
        with self._lock:
            self._threads[threading.get_ident()] = time.monotonic()
        try:
            yield
        finally:
            self.arrived()

    def arrived(self) -> None:
        """Expect this thread no longer. Groups that waited for the last one go on."""
        with self._lock:
            self._threads.pop(threading.get_ident(), None)
            ready = list(self._lingering.values()) if not self._any_is_near() else []
        for call in ready:
            call.woken.put(None)

    def lingers(self, call: _Call[Any]) -> bool:
        """Return whether threads are expected; the call is then woken once all of them came."""
        with self._lock:
            if near := self._any_is_near():
                self._lingering[id(call)] = call
            return near

    def goes_on(self, call: _Call[Any]) -> None:
        with self._lock:
            self._lingering.pop(id(call), None)

    def _any_is_near(self) -> bool:
        since = time.monotonic() - EXPECTED_S
        return any(announced_at > since for announced_at in self._threads.values())


class GroupCommit(Generic[T]):
    """Calls `work` with the items of all threads that wait. A thread that comes while no other one
    works begins at once, for all that wait then; one that comes meanwhile waits for the next turn.
    So the more there is to do, the more is done at once, and a thread that is alone never waits.
    Before that it waits at most `LINGER_S` for threads that are `expected`.

    When `work` raises one of `retry_singly`, it has done nothing, and is called for each item by
    itself: an error is that of one item. Any other error is that of all items."""

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        retry_singly: tuple[type[Exception], ...],
        most: int = MOST,
        expected: Expected | None = None,
    ) -> None:
        self._work, self._retry_singly, self._most = work, retry_singly, most
        self._expected = expected or Expected()
        self._lock = threading.Lock()
        self._waiting: list[_Call[T]] = []
        self._began: float | None = None  # None: no thread works

    def run(self, item: T) -> None:
        """Have the item worked on; returns once that is done. Raises what `work` raises for it."""
        call = _Call(item)
        with self._lock:
            self._waiting.append(call)
        self._expected.arrived()
        while not call.done:
            with self._lock:
                batch, wait_s = self._taken(call)
            if batch:
                self._work_on(batch)
            elif not call.done:
                call.wait(wait_s)
        self._expected.goes_on(call)
        if call.error is not None:
            raise call.error

    def _taken(self, call: _Call[T]) -> tuple[list[_Call[T]], float]:
        """Return what the thread of a call works on now; nothing, and how long to wait, where
        another thread works, or some are about to come."""
        now = time.monotonic()
        if self._began is not None and (left := self._began + PATIENCE_S - now) > 0:
            return [], left
        if not self._waiting or call not in self._waiting:
            return [], PATIENCE_S
        left = self._waiting[0].came + LINGER_S - now
        if left > 0 and len(self._waiting) < self._most and self._expected.lingers(call):
            return [], left
        batch = self._waiting[: self._most]
        del self._waiting[: self._most]
        self._began = now
        return batch, 0.0

    def _work_on(self, batch: list[_Call[T]]) -> None:
        began = self._began
        try:
            try:
                self._work([call.item for call in batch])
            except self._retry_singly:
                if len(batch) == 1:
                    raise
                for call in batch:
                    call.error = self._error_of(call.item)
        except Exception as error:
            for call in batch:
                call.error = _copied(error)
        with self._lock:
            if self._began == began:
                self._began = None
            first = self._waiting[0] if self._waiting else None
        for call in batch:
            call.done = True
            call.woken.put(None)
        if first is not None:
            first.woken.put(None)

    def _error_of(self, item: T) -> Exception | None:
        try:
            self._work([item])
        except Exception as error:
            return error
        return None


class _Call(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.came = time.monotonic()
        self.woken: SimpleQueue[None] = SimpleQueue()
        self.done = False
        self.error: Exception | None = None

    def wait(self, most_s: float) -> None:
        try:
            self.woken.get(timeout=most_s)
        except Empty:
            return


def _copied(error: Exception) -> Exception:
    """Return the error for another thread, which adds a traceback of its own."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    return found
