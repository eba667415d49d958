"""The tasks of a job that run together, as placed: what their environments and files tell of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

MAX_LISTED = 1500  # variables of a task that name all tasks
MASTER = "master"  # label of the port under which rank 0 is found


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    instances: int
    gpus: int
    cpu_millis: int
    memory_mb: int
    shm_mb: int
    min_failed: int
    min_succeeded: int


@dataclass(frozen=True, slots=True)
class Member:
    """One task of the gang, as placed. `host` is where the others reach it."""

    attempt_id: str
    role: str
    index: int
    rank: int
    node: str
    host: str
    ports: Mapping[str, Sequence[int]]

    def port(self, label: str) -> int | None:
        """The first one with this label."""
        numbers = self.ports.get(label)
        return numbers[0] if numbers else None


@dataclass(frozen=True, slots=True)
class Block:
    """A gang's addresses: those of tasks first, by rank, and then those of its nodes' bridges."""

    start: int
    size: int
    tasks: int

    @property
    def subnet(self) -> str:
        return f"{IPv4Address(self.start)}/{32 - (self.size - 1).bit_length()}"

    def task(self, rank: int) -> str:
        return str(IPv4Address(self.start + 1 + rank))

    def gateway(self, number: int) -> str:
        """Of the gang's node of this number."""
        return str(IPv4Address(self.start + 1 + self.tasks + number))


@dataclass(frozen=True, slots=True)
class Gang:
    job_id: str
    name: str
    owner: str
    vc: str
    roles: Sequence[Role]
    members: Sequence[Member]  # by rank
    attempt: int = 1  # of the job
    network: str = "isolated"
    work_dir: str = ""  # "": where the image says
    # What its owner asks for; nothing in it says where tasks lie, submitting refuses that.
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        return len(self.members) == 1

    @property
    def is_listed(self) -> bool:
        """Whether each task is told of every other one by itself: each in each is quadratic."""
        return sum(1 + 2 * len(m.ports) for m in self.members) <= MAX_LISTED
