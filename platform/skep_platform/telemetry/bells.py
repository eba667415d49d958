"""The doorbell of a job's logs: at most five rings a second for each job and process.

The first chunk after a silence rings at once, the last of a burst always rings, and however many
jobs write, one thread tells the broker of all of them in one round trip.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from uuid import UUID

from skep_platform.core import doorbells

TOPIC = "job-logs"
PAUSE_S = 0.2


class Ringer:
    def __init__(self) -> None:
        self._due: set[UUID] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def ring(self, jobs: Iterable[UUID]) -> None:
        with self._lock:
            self._due.update(jobs)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="log-bells", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                due, self._due = self._due, set()
            doorbells.publish(
                {
                    doorbells.topic_group(TOPIC, job): doorbells.topic_changed(TOPIC, job)
                    for job in due
                }
            )
            time.sleep(PAUSE_S)


_ringer = Ringer()


def ring_logs(jobs: Iterable[UUID]) -> None:
    """Tell live pages, soon, that these jobs have more log bytes or reached the end of some."""
    _ringer.ring(jobs)
