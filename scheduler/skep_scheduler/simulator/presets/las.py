"""The lists of Tiresias' published simulator, which the artifacts of Muri and ElasticFlow share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """A job with the number of its queue."""

    queue: int
    running: bool


J = TypeVar("J", bound=Queued)


class LasQueues(Generic[J]):
    """One list for each queue. Arrivals go to the end of the first, demotions to the end of the
    next one. After each decision the jobs that do not run are moved behind those that do."""

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = limits
        self.lists: list[list[J]] = [[] for _ in range(len(limits) + 1)]

    def add(self, job: J) -> None:
        job.queue = 0
        self.lists[0].append(job)

    def remove(self, job: J) -> None:
        self.lists[job.queue].remove(job)

    def demote(self, job: J, service: float) -> bool:
        """Move a job on by at most one queue, if it was served for the limit of its own."""
        queue = job.queue
        if queue >= len(self.limits) or service < self.limits[queue]:
            return False
        self.lists[queue].remove(job)
        job.queue = queue + 1
        self.lists[job.queue].append(job)
        return True

    def in_order(self) -> Iterator[J]:
        for queue in self.lists:
            yield from queue

    def settle(self) -> None:
        for number, queue in enumerate(self.lists):
            waiting = [job for job in queue if not job.running]
            if waiting:
                self.lists[number] = [job for job in queue if job.running] + waiting
