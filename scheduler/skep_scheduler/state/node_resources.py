"""CPU and memory of every node: what it has, and who uses how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from skep_scheduler.cells.journal import Journal


class Resources(NamedTuple):
    cpu_millis: int
    memory_mb: int
    gpus: int = 0

    def plus(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis + other.cpu_millis,
            self.memory_mb + other.memory_mb,
            self.gpus + other.gpus,
        )

    def minus(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis - other.cpu_millis,
            self.memory_mb - other.memory_mb,
            self.gpus - other.gpus,
        )

    def covers(self, need: Resources) -> bool:
        """CPU and memory; a need of nothing is covered even where less than nothing is left."""
        return self.has_cpu(need) and self.has_memory(need)

    def has_cpu(self, need: Resources) -> bool:
        return not need.cpu_millis or self.cpu_millis >= need.cpu_millis

    def has_memory(self, need: Resources) -> bool:
        return not need.memory_mb or self.memory_mb >= need.memory_mb


NOTHING = Resources(0, 0, 0)


@dataclass(slots=True)
class NodeResources:
    """`total.gpus` are all GPUs of the node, bad ones too; `users` have what each gang uses."""

    total: Resources = NOTHING
    used: Resources = NOTHING
    open: bool = False
    users: dict[str, Resources] = field(default_factory=dict)

    @property
    def free(self) -> Resources:
        return self.total.minus(self.used)

    def fair_share(self, gpus: int) -> Resources:
        """Return the CPU and memory that come with so many GPUs of the node."""
        count = max(self.total.gpus, 1)
        return Resources(
            self.total.cpu_millis * gpus // count, self.total.memory_mb * gpus // count, gpus
        )

    def overcommit(self, gang: str) -> Resources:
        """Return what a gang uses beyond the shares of its GPUs here."""
        use = self.users.get(gang, NOTHING)
        share = self.fair_share(use.gpus)
        return Resources(
            max(use.cpu_millis - share.cpu_millis, 0), max(use.memory_mb - share.memory_mb, 0)
        )


class ClusterResources:
    """The resources of all nodes by name. Users of unknown (also: removed) nodes are counted
    too."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.nodes: dict[str, NodeResources] = {}

    def resize(self, node: str, total: Resources, is_open: bool) -> None:
        resources = self._node(node)
        resources.total, resources.open = total, is_open

    def remove(self, node: str) -> None:
        resources = self.nodes.get(node)
        if resources is not None and not resources.users:
            del self.nodes[node]
        elif resources is not None:
            resources.total, resources.open = NOTHING, False

    def take(self, node: str, gang: str, amount: Resources) -> None:
        resources = self._node(node)
        self._set(resources, gang, resources.users.get(gang, NOTHING).plus(amount))

    def give(self, node: str, gang: str, amount: Resources) -> None:
        resources = self._node(node)
        self._set(resources, gang, resources.users.get(gang, NOTHING).minus(amount))

    def open_nodes(self) -> Iterator[tuple[str, NodeResources]]:
        return ((name, resources) for name, resources in self.nodes.items() if resources.open)

    def _node(self, node: str) -> NodeResources:
        resources = self.nodes.get(node)
        if resources is None:
            resources = self.nodes[node] = NodeResources()
        return resources

    def _set(self, resources: NodeResources, gang: str, amount: Resources) -> None:
        before = resources.users.get(gang)
        self.journal.note(_put_back, resources, gang, before, resources.used)
        resources.used = resources.used.plus(amount.minus(before or NOTHING))
        if amount == NOTHING:
            resources.users.pop(gang, None)
        else:
            resources.users[gang] = amount


def _put_back(
    resources: NodeResources, gang: str, before: Resources | None, used: Resources
) -> None:
    resources.used = used
    if before is None:
        resources.users.pop(gang, None)
    else:
        resources.users[gang] = before
