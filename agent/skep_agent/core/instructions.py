"""What the core wants done: the outputs of `NodeMachine.handle`, carried out in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from skep_agent.core.records import Remembered
from skep_agent.protocol import AttemptSpec, ImageSpec, S3Mount, WorkingFiles


@dataclass(frozen=True, slots=True)
class AttemptInstruction:
    attempt_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Pull(AttemptInstruction):
    """The image, the archive of working files if there is one, and copies of what lies in object
    stores."""

    image: ImageSpec
    working_files: WorkingFiles | None
    s3: tuple[S3Mount, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Create(AttemptInstruction):
    spec: AttemptSpec


@dataclass(frozen=True, slots=True)
class Start(AttemptInstruction):
    container_id: str
    ports: tuple[int, ...]  # of the node itself, which must be free


@dataclass(frozen=True, slots=True)
class Cancel(AttemptInstruction):
    """Give up the pull, create or start under way; its result no longer matters."""


@dataclass(frozen=True, slots=True)
class Watch(AttemptInstruction):
    """Report `Exited` or `Vanished`."""

    container_id: str


@dataclass(frozen=True, slots=True)
class Signal(AttemptInstruction):
    """Sent once; the watch reports what comes of it."""

    container_id: str
    signal: str


@dataclass(frozen=True, slots=True)
class Stop(AttemptInstruction):
    container_id: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class Remove(AttemptInstruction):
    container_id: str


@dataclass(frozen=True, slots=True)
class ShipLogs(AttemptInstruction):
    """Send the container's output from where the server has it; without a container there is no
    output, and only its end is sent."""

    container_id: str


@dataclass(frozen=True, slots=True)
class EndLogs(AttemptInstruction):
    """The process is dead: the log ends where it is read to. `readable`: the container is there
    and may still be read."""

    readable: bool


@dataclass(frozen=True, slots=True)
class DropLogs(AttemptInstruction):
    """Stop shipping this log: the rest of it is not wanted."""


@dataclass(frozen=True, slots=True)
class VerifyGpus(AttemptInstruction):
    """Report `GpusClean` or `GpusBusy`."""

    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SendFacts:
    """The outbox has something to send."""


@dataclass(frozen=True, slots=True)
class SendInventory:
    """A GPU came, went, failed or recovered."""


@dataclass(frozen=True, slots=True)
class Remember:
    record: Remembered


@dataclass(frozen=True, slots=True)
class Forget:
    attempt_id: str


@dataclass(frozen=True, slots=True)
class RememberLease:
    until: float


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Leave this connection and make a new one: the lease ran out on it."""


@dataclass(frozen=True, slots=True)
class Warn:
    """For the agent's own log: something that people should look at."""

    code: str
    message: str


Instruction = (
    Pull
    | Create
    | Start
    | Cancel
    | Watch
    | Signal
    | Stop
    | Remove
    | ShipLogs
    | EndLogs
    | DropLogs
    | VerifyGpus
    | SendFacts
    | SendInventory
    | Remember
    | Forget
    | RememberLease
    | Reconnect
    | Warn
)
