"""The interface of a container runtime, asynchronous and free of policy.

The core decides *what* shall happen to an attempt; a runtime does one thing to one container and
raises `RuntimeFailure` with a stable code when it cannot. Every operation may be repeated: creating
what exists returns it, stopping what is gone succeeds.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from skep_agent.containers import Container, Exit, Progress, SavedImage
from skep_agent.frames import Channel
from skep_agent.inventory import NodeWarning
from skep_agent.protocol import (
    AttemptSpec,
    CachedImage,
    ContainerSample,
    ImageSpec,
    NetworkPolicy,
    S3Mount,
    Stream,
)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run beside the task; a shell when `argv` is empty."""

    argv: tuple[str, ...] = ()
    tty: bool = False
    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True)
class SaveOrder:
    """A save of a container as an image: `target` with the credentials for its registry. What the
    task changed may have `max_bytes`, and no file of it any of `masks`. `pushed` gets percents of
    the push; `still_running` is asked before it begins."""

    target: ImageSpec
    max_bytes: int
    masks: Sequence[str]
    pushed: Callable[[int], None]
    still_running: Callable[[], bool]


class Process(Protocol):
    """It runs beside the task's own in its container, with the rights of that. A writer waits when
    the process does not read, and the process when its output is not read."""

    def output(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield output until the process closed it, each piece with Channel.OUTPUT or
        Channel.ERROR."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    async def resize(self, rows: int, columns: int) -> None: ...

    async def exit_code(self) -> int:
        """Once its output is over."""

    async def close(self) -> None:
        """What still runs of it is ended, as by a lost terminal. Always to be called."""


AttemptKey = tuple[str, int]  # its id and its epoch


class LogPiece(NamedTuple):
    """Output of one stream, and when the engine took the lines that begin in it (nanoseconds since
    the epoch; rising over all pieces of a log, and empty where the engine does not say)."""

    stream: Stream
    data: bytes
    times: Sequence[int] = ()


class Runtime(Protocol):
    name: str

    @property
    def gang_network(self) -> bool:
        """Whether tasks can be in the network of a gang over several nodes."""

    async def version(self) -> str: ...

    def disk_mb(self) -> tuple[int, int] | None:
        """Free and total MiB of the disk that holds the containers; None where it is not known.
        May hang with the disk."""

    async def components(self) -> dict[str, str]:
        """Versions of what it is made of, as `Inventory.components` has them."""

    async def warnings(self) -> builtins.list[NodeWarning]:
        """Return what an operator should see to. Answers soon, also while the engine hangs."""

    def use_network_policy(self, policy: NetworkPolicy) -> None:
        """From now on it holds for what containers reach."""

    async def ensure_network(self) -> None:
        """See that the rules of what containers reach are in force, and write them anew where they
        are not. Raises RuntimeFailure "network_unavailable"."""

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        """Bring the image onto the node; `progress` gets rising percents."""

    async def images(self) -> builtins.list[CachedImage]:
        """Return the images on the node by their names, the newest first and bounded."""

    async def fetch(
        self,
        key: AttemptKey,
        mounts: tuple[S3Mount, ...],
        progress: Callable[[Progress], None],
    ) -> None:
        """Copy what an attempt mounts of object stores onto the node.
        Raises RuntimeFailure "storage_unavailable"."""

    def learn(self, specs: Sequence[AttemptSpec]) -> None:
        """Take over the keys of object stores for the attempts that the server lists."""

    def forget(self, attempt_id: str) -> None:
        """Remove what is left of an attempt that is gone."""

    async def write_back(self, key: AttemptKey, may_go_on: Callable[[], bool]) -> None:
        """Copy what an attempt, which has ended, has written back into its object stores. Nothing
        more is begun once it may not go on. Raises RuntimeFailure "storage_not_synced"."""

    async def create(
        self,
        spec: AttemptSpec,
        archive: BinaryIO | None = None,
        created: Callable[[], None] = lambda: None,
    ) -> str:
        """Create (not start) the attempt's container with its files in it, and return its id.
        `archive` is that of its working files. `created` is called when the engine has done its
        part: what follows may wait for the servers of storages."""

    async def start(self, container_id: str, ports: Sequence[int] = ()) -> None:
        """Raises RuntimeFailure "port_conflict" when one of the node's own `ports` is taken."""

    async def signal(self, container_id: str, signal: str) -> bool:
        """Send one signal ("SIGUSR1") to the processes of a running container that catch it, and
        return whether there was any. True for a container that does not run: nothing is left
        that could be saved."""

    async def stop(self, container_id: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after `grace_s` seconds; returns when the container is dead."""

    async def wait(self, container_id: str) -> Exit: ...

    def logs(self, container_id: str) -> AsyncIterator[LogPiece]:
        """All output from its first byte, in the order in which the engine has it; ends after the
        container's end."""

    async def remove(self, container_id: str) -> None:
        """Remove the container with its anonymous volumes; and the job's network when unused."""

    async def list(self) -> builtins.list[Container]:
        """Every container that carries this node's labels."""

    async def sample(self, containers: dict[str, str]) -> builtins.list[ContainerSample]:
        """Use of running containers, given as {attempt_id: container_id}."""

    async def save(self, container_id: str, order: SaveOrder) -> SavedImage:
        """Push what the task changed in a running container, on top of its image, as a new image.
        Nothing that the platform put into the container goes with it. Raises RuntimeFailure."""

    async def exec(self, container_id: str, command: Command) -> Process:
        """Begin a process in a running container. Raises RuntimeFailure "exec_failed"."""

    async def address(self, container_id: str) -> str | None:
        """Where this node reaches the container; None when it has the node's own network."""

    async def scratch_jobs(self) -> set[str]:
        """The ids of the jobs that have scratch on this node."""

    async def remove_scratch(self, jobs: Collection[str]) -> None:
        """What a container still uses stays."""

    async def clean_images(self) -> None:
        """Remove images that are not used while the node's disk is too full. Raises nothing."""

    async def remove_leftovers(self) -> None:
        """Remove from the machine what agents that are gone left on it, as far as that is sure.
        Raises nothing."""

    async def close(self) -> None: ...
