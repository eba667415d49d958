"""Named deadlines: set, move, cancel, and ask which are due."""

from __future__ import annotations

import heapq


class Deadlines:
    """At most one deadline per name, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # may hold entries that were moved or cancelled

    def __contains__(self, name: str) -> bool:
        return name in self._when

    def set(self, name: str, when: float) -> None:
        self._when[name] = when
        heapq.heappush(self._heap, (when, name))

    def cancel(self, name: str) -> None:
        self._when.pop(name, None)

    def next(self) -> float | None:
        while self._heap and self._when.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[str]:
        """Names whose time has come, earliest first; they are no longer set."""
        due = []
        while (when := self.next()) is not None and when <= now:
            name = heapq.heappop(self._heap)[1]
            del self._when[name]
            due.append(name)
        return due
