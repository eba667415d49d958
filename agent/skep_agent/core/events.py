"""What can happen to an agent: the inputs of `NodeMachine.handle`.

An event about an attempt carries its epoch: what an older life of the attempt set off may still
report, and is then ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from skep_agent.containers import Container, Exit
from skep_agent.core.records import Remembered
from skep_agent.protocol import AttemptSpec, Gpu

Operation = Literal["pull", "create", "start", "signal", "stop", "remove"]


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event happened: `mono` (seconds, never jumps) to decide, `wall` (seconds since the
    epoch) to report."""

    mono: float
    wall: float


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """What a new agent process finds: its journal, its containers, its GPUs."""

    remembered: tuple[Remembered, ...]
    containers: tuple[Container, ...]
    gpus: tuple[Gpu, ...]
    lease_until: float | None  # of the process before, by this machine's monotonic clock


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The server accepted the connection; `sent_at` is when Hello was sent, `received_at` when
    Welcome was received, if that is not now."""

    lease_s: float
    sent_at: float
    received_at: float | None = None


@dataclass(frozen=True, slots=True)
class Disconnected:
    pass


@dataclass(frozen=True, slots=True)
class HeartbeatAcked:
    sent_at: float


@dataclass(frozen=True, slots=True)
class LeaseExtended:
    """The server announced a planned absence, and waits that much longer for this node."""

    for_s: float


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """The lease is known to run at least so long: what renewed it is received later."""

    until: float  # monotonic


@dataclass(frozen=True, slots=True)
class DesiredArrived:
    revision: int
    attempts: tuple[AttemptSpec, ...]
    keep: frozenset[str] = frozenset()  # attempts that go on as they are


@dataclass(frozen=True, slots=True)
class FactsAcked:
    seq: int


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    attempt_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class PullProgressed(AttemptEvent):
    percent: int
    done: int = 0  # bytes, as the next
    total: int = 0  # 0: not known


@dataclass(frozen=True, slots=True)
class Pulled(AttemptEvent):
    pass


@dataclass(frozen=True, slots=True)
class Created(AttemptEvent):
    container_id: str


@dataclass(frozen=True, slots=True)
class Started(AttemptEvent):
    pass


@dataclass(frozen=True, slots=True)
class Signalled(AttemptEvent):
    """The checkpoint signal went out; `handled`: to at least one process."""

    handled: bool


@dataclass(frozen=True, slots=True)
class Exited(AttemptEvent):
    exit: Exit


@dataclass(frozen=True, slots=True)
class Vanished(AttemptEvent):
    """Someone else removed the container."""


@dataclass(frozen=True, slots=True)
class Removed(AttemptEvent):
    pass


@dataclass(frozen=True, slots=True)
class OperationFailed(AttemptEvent):
    operation: Operation
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LogsDrained(AttemptEvent):
    """The server has every byte of both streams and knows their sizes."""


@dataclass(frozen=True, slots=True)
class GpusClean(AttemptEvent):
    pass


@dataclass(frozen=True, slots=True)
class GpusBusy(AttemptEvent):
    pids: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpusSeen:
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class XidsSeen:
    """Errors of GPUs: UUID ("" where it is not known) and NVIDIA's number."""

    xids: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ContainersSeen:
    """All containers of this node, read some moments ago."""

    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: something is due."""


Event = (
    AgentStarted
    | Welcomed
    | Disconnected
    | HeartbeatAcked
    | LeaseExtended
    | LeaseSeen
    | DesiredArrived
    | FactsAcked
    | PullProgressed
    | Pulled
    | Created
    | Started
    | Signalled
    | Exited
    | Vanished
    | Removed
    | OperationFailed
    | LogsDrained
    | GpusClean
    | GpusBusy
    | GpusSeen
    | XidsSeen
    | ContainersSeen
    | Tick
)
