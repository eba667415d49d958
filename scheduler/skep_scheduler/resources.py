"""Amounts of GPUs, CPU and memory, and how often one amount goes into another."""

from __future__ import annotations

from typing import NamedTuple


class Resources(NamedTuple):
    """What a task needs or a node has: GPUs of one model, millicores, MiB.

    Ordered by GPUs first, so that the least of several amounts is the tightest fit.
    """

    gpus: int
    cpu_millis: int
    memory_mb: int

    def times(self, n: int) -> Resources:
        return Resources(self.gpus * n, self.cpu_millis * n, self.memory_mb * n)

    def plus(self, other: Resources) -> Resources:
        return Resources(
            self.gpus + other.gpus,
            self.cpu_millis + other.cpu_millis,
            self.memory_mb + other.memory_mb,
        )

    def covers(self, need: Resources) -> bool:
        """A need of nothing is covered even where less than nothing is left."""
        return (
            (not need.gpus or self.gpus >= need.gpus)
            and (not need.cpu_millis or self.cpu_millis >= need.cpu_millis)
            and (not need.memory_mb or self.memory_mb >= need.memory_mb)
        )

    def copies(self, need: Resources, at_most: int) -> int:
        """How many times `need` goes into this, at most `at_most`."""
        n = at_most
        if need.gpus:
            n = min(n, self.gpus // need.gpus)
        if need.cpu_millis:
            n = min(n, self.cpu_millis // need.cpu_millis)
        if need.memory_mb:
            n = min(n, self.memory_mb // need.memory_mb)
        return max(n, 0)


NOTHING = Resources(0, 0, 0)
