"""How many bytes of each stream are stored: asked from the database once, then remembered.

A remembered size may be stale when another process took over the stream after a reconnect. It is
then still the border of a chunk, so the insert collides with the chunk that begins there, and the
size is asked again: stale memory costs one round, never a byte.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

REMEMBERED = 20_000  # attempts


@dataclass(slots=True)
class Stored:
    """What is stored of an attempt's output: bytes per stream."""

    node_id: UUID
    job_id: UUID
    sizes: dict[str, int]


class Sizes:
    """Safe for threads; the rows of one attempt are only ever asked for by its own node."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, Stored] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, node_id: UUID, attempts: Collection[UUID]) -> dict[UUID, Stored]:
        """The attempts that are on this node, at most one query for those not remembered."""
        with self._lock:
            found = {a: self._known[a] for a in attempts if a in self._known}
            for attempt in found:
                self._known.move_to_end(attempt)
        missing = [a for a in attempts if a not in found]
        if missing:
            found |= self.read(node_id, missing)
        return {a: stored for a, stored in found.items() if stored.node_id == node_id}

    def read(self, node_id: UUID, attempts: Collection[UUID]) -> dict[UUID, Stored]:
        """The same from the database, remembered."""
        found = _read(node_id, attempts)
        with self._lock:
            for attempt, stored in found.items():
                self._known[attempt] = stored
                self._known.move_to_end(attempt)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def forget(self, attempts: Iterable[UUID]) -> None:
        with self._lock:
            for attempt in attempts:
                self._known.pop(attempt, None)


READ = """
SELECT a.id, a.job_id, s.stream, coalesce((
         SELECT c."offset" + c.size FROM telemetry_logchunk c
          WHERE c.attempt_id = a.id AND c.stream = s.stream
          ORDER BY c."offset" DESC LIMIT 1), 0)
  FROM jobs_taskattempt a CROSS JOIN (VALUES ('stdout'), ('stderr')) s (stream)
 WHERE a.node_id = %s AND a.id = ANY(%s)
"""


def _read(node_id: UUID, attempts: Collection[UUID]) -> dict[UUID, Stored]:
    found: dict[UUID, Stored] = {}
    with connection.cursor() as cursor:
        cursor.execute(READ, [node_id, list(attempts)])
        for attempt, job, stream, size in cursor.fetchall():
            found.setdefault(attempt, Stored(node_id, job, {})).sizes[stream] = size
    return found
