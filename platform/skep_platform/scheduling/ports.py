"""Which ports the tasks of a gang get: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice

from skep_platform.jobs.containers.environment import own_ports, ports_wanted
from skep_platform.jobs.models import Job
from skep_scheduler.queue import TaskPlacement

# Networks of a gang's tasks, see docs/network.md.
ISOLATED, JOB, GANG, HOST = "isolated", "job", "gang", "host"


class PortsExhausted(Exception):
    """A node has not enough free ports for the gang."""


class PortRange:
    """A node's ports for tasks, both ends included; those in `held` are taken. Where the search
    begins differs by `seed`, so that a port that was just given back rests a while."""

    def __init__(self, first: int, last: int, seed: int = 0) -> None:
        self.held: set[int] = set()
        size = max(last - first + 1, 0)
        start = seed % size if size else 0
        self._candidates = chain(range(first + start, last + 1), range(first, first + start))

    def take(self, count: int) -> list[int]:
        """Raises PortsExhausted."""
        free = (port for port in self._candidates if port not in self.held)
        found = list(islice(free, count))
        if len(found) < count:
            raise PortsExhausted("A node has not enough free ports for the gang.")
        return found


def network_of(job: Job, tasks: Iterable[TaskPlacement]) -> str:
    """The nodes' own where its owner wants it. Else: a task that starts alone needs nobody, tasks
    on one node get a bridge, and over nodes a network of the gang."""
    if job.network_mode == "host":
        return HOST
    if job.tasks_total == 1 or job.incremental:
        return ISOLATED
    return JOB if len({task.node for task in tasks}) == 1 else GANG


def choose(
    network: str, wanted: Mapping[str, int], rank: int, node: PortRange
) -> dict[str, list[int]]:
    """The ports of one task by label. Raises PortsExhausted."""
    labels = ports_wanted(wanted, rank)
    if network != HOST:
        return own_ports(labels)
    return {label: node.take(count) for label, count in labels.items()}
