"""What a scheduler sees: a snapshot of the cluster, as plain data.

Nothing here knows a database or a clock. GPUs are named by UUID, quantities are whole numbers
(millicores, MiB, GPUs), times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Node:
    """A node as a place to run: its healthy GPUs and its size, used or not."""

    id: str
    name: str
    cpu_millis: int
    memory_mb: int
    gpus: dict[str, tuple[str, ...]]  # GPU model -> UUIDs of its healthy GPUs
    schedulable: bool = True  # online and not cordoned
    # Levels between pairs of GPU UUIDs (`nvidia-smi topo -m` words); may be empty.
    topology: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    name: str
    quota: dict[str, int]  # GPU model -> GPUs the VC owns


@dataclass(frozen=True, slots=True)
class Member:
    """One task role of a gang: `count` equal tasks. `gpu_model` None means any one model."""

    role: str
    count: int
    gpus: int
    cpu_millis: int
    memory_mb: int
    gpu_model: str | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """A job that waits: all of its tasks start, or none."""

    id: str
    name: str
    vc: str
    priority: int
    submitted_at: float
    members: tuple[Member, ...]
    not_before: float = 0.0  # retry backoff: not placed earlier

    @property
    def opportunistic(self) -> bool:
        """Needs no quota and uses none: it may have what is idle after the guaranteed gangs."""
        return self.priority < 0

    @property
    def gpus(self) -> int:
        return sum(m.count * m.gpus for m in self.members)

    @property
    def tasks(self) -> int:
        return sum(m.count for m in self.members)


@dataclass(frozen=True, slots=True)
class Running:
    """One task that holds resources on a node until it is released."""

    gang_id: str
    vc: str
    node_id: str
    gpu_uuids: tuple[str, ...]
    gpu_model: str | None  # None if, and only if, it holds no GPU
    cpu_millis: int
    memory_mb: int
    priority: int = 0  # of its gang; negative: opportunistic, uses none of its VC's quota
    gang_name: str = ""  # for people: reasons name who uses a quota

    @property
    def opportunistic(self) -> bool:
        return self.priority < 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state at one moment. `waiting` is in no particular order: policies rank it."""

    nodes: tuple[Node, ...]
    virtual_clusters: tuple[VirtualCluster, ...]
    waiting: tuple[Gang, ...]
    running: tuple[Running, ...]
