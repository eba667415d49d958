"""Containers that only exist in memory: thousands of them cost nothing, and each does exactly what
its command says.

A line of the attempt's command that begins with `mock` is read, for example
`mock run_for=0.2 exit_code=1 log_lines=100`:

    run_for=SECONDS       how long it runs, "forever" too; 1 without the word
    exit_code=N           0 without the word
    log_lines=N           lines on stdout, spread evenly over the run
    stderr_lines=N        the same on stderr
    pull_seconds=SECONDS  how long it takes to create (the pull itself knows only the image)
    mount_seconds=SECONDS the same, while it waits for a storage
    create_error=CODE, start_error=CODE    fail so
    stop_seconds=SECONDS  how long it takes to die of SIGTERM
    on_checkpoint=exit    it ends by itself after a checkpoint signal; else it goes on
    on_checkpoint=none    no process of it handles the signal
    checkpoint_seconds=SECONDS    how long that takes
    resumes=1             a later attempt goes on from the last checkpoint on this node
    oom=1                 end as killed for memory
    disk_full=1           the node's disk is full at the end
    save_error=CODE       a save of it as an image fails so
    save_for=forever      a save of it does not end

An image reference may end in `?pull_seconds=2&pull_error=image_not_found`. What runs beside a task
is described in `mock_exec`.
"""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import parse_qsl

from skep_agent.containers import Container, Exit, Progress, RuntimeFailure, SavedImage
from skep_agent.frames import Channel
from skep_agent.image_patterns import listed_name
from skep_agent.inventory import NodeWarning
from skep_agent.protocol import (
    MAX_CACHED_IMAGES,
    AttemptSpec,
    CachedImage,
    ContainerSample,
    ImageSpec,
    NetworkPolicy,
    S3Mount,
    Stream,
)
from skep_agent.runtimes.base import AttemptKey, Command, LogPiece, SaveOrder

LOG_STEP_S = 0.05
_PULL_STEPS = 10
_PULL_BYTES = 2 * 1024**3
_SAVED_BYTES = 64 * 1024**2
_SIGTERM, _SIGKILL = 143, 137
# Of output that was not read yet; its writer then waits.
PIECES = 16


class MockProcess:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.closed = False
        self._code = 0
        self._output: asyncio.Queue[bytes | None] = asyncio.Queue(PIECES)
        verb, *words = command.argv or ("sh",)
        self._prints_size = verb == "size"
        if verb == "echo":
            self._output.put_nowait(" ".join(words).encode() + b"\n")
            self._output.put_nowait(None)
        elif verb == "fail":
            self._code = int(words[0])
            self._output.put_nowait(None)
        elif verb == "size":
            self._output.put_nowait(_size(command.rows, command.columns))

    async def output(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        while (data := await self._output.get()) is not None:
            yield Channel.OUTPUT, data

    async def write(self, data: bytes) -> None:
        if data.startswith(b"exit "):
            self._code = int(data.split()[1])
            await self._output.put(None)
        else:
            await self._output.put(data)

    async def end_input(self) -> None:
        await self._output.put(None)

    async def resize(self, rows: int, columns: int) -> None:
        if self._prints_size:
            await self._output.put(_size(rows, columns))

    async def exit_code(self) -> int:
        return self._code

    async def close(self) -> None:
        self.closed = True


def _size(rows: int, columns: int) -> bytes:
    return f"{rows} {columns}\n".encode()


@dataclass(slots=True, eq=False)
class MockContainer:
    """`lines` is how many lines it has written per stream, known once it is over."""

    container_id: str
    spec: AttemptSpec
    words: dict[str, str]
    ended: asyncio.Future[Exit]
    status: str = "created"
    started_at: float = 0.0
    timer: asyncio.TimerHandle | None = None
    signals: list[str] = field(default_factory=list)
    lines: dict[Stream, int] | None = None

    def number(self, word: str, default: float = 0.0) -> float:
        return (
            math.inf if self.words.get(word) == "forever" else float(self.words.get(word, default))
        )

    def lines_at(self, stream: Stream, now: float) -> int:
        if self.lines is not None:
            return self.lines[stream]
        total = int(self.number("log_lines" if stream == "stdout" else "stderr_lines"))
        run_for = self.number("run_for", 1.0)
        share = (now - self.started_at) / run_for if run_for else 1.0
        return total if share >= 1 else int(total * share)


class MockRuntime:
    """Deterministic in asyncio's time. A test that shares one over two agents sees containers
    survive the first."""

    name = "mock"
    gang_network = True

    def __init__(self) -> None:
        self.containers: dict[str, MockContainer] = {}
        self.saved: dict[tuple[str, str, int], float] = {}  # seconds run, by job, role and index
        self.pulled: dict[str, None] = {}  # names of images, in the order of their pulls
        self.disk: tuple[int, int] | None = None  # free and total MiB

    def disk_mb(self) -> tuple[int, int] | None:
        return self.disk

    async def version(self) -> str:
        return "mock"

    async def components(self) -> dict[str, str]:
        return {}

    async def warnings(self) -> builtins.list[NodeWarning]:
        return []

    def use_network_policy(self, policy: NetworkPolicy) -> None:
        pass

    async def ensure_network(self) -> None:
        pass

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        words = dict(parse_qsl(image.reference.partition("?")[2]))
        seconds = float(words.get("pull_seconds", 0))
        for step in range(_PULL_STEPS if seconds else 0):
            done = _PULL_BYTES * step // _PULL_STEPS
            progress(Progress(100 * step // _PULL_STEPS, done, _PULL_BYTES))
            await asyncio.sleep(seconds / _PULL_STEPS)
        if code := words.get("pull_error"):
            raise RuntimeFailure(code, "as the image's name asks")
        self.pulled.setdefault(listed_name(image.reference))

    async def fetch(
        self,
        key: AttemptKey,
        mounts: tuple[S3Mount, ...],
        progress: Callable[[Progress], None],
    ) -> None:
        pass

    def learn(self, specs: Sequence[AttemptSpec]) -> None:
        pass

    def forget(self, attempt_id: str) -> None:
        pass

    async def write_back(self, key: AttemptKey, may_go_on: Callable[[], bool]) -> None:
        pass

    async def images(self) -> builtins.list[CachedImage]:
        names = list(self.pulled)[-MAX_CACHED_IMAGES:]
        return [CachedImage(reference=name, size=_PULL_BYTES) for name in names]

    async def create(
        self,
        spec: AttemptSpec,
        archive: BinaryIO | None = None,
        created: Callable[[], None] = lambda: None,
    ) -> str:
        container_id = self.container_id(spec)
        if container_id in self.containers:
            return container_id
        words = self.words(spec)
        if "pull_seconds" in words:
            await asyncio.sleep(float(words["pull_seconds"]))
        if code := words.get("create_error"):
            raise RuntimeFailure(code, "as the command asks")
        created()
        if "mount_seconds" in words:
            await asyncio.sleep(float(words["mount_seconds"]))
        ended = asyncio.get_running_loop().create_future()
        self.containers[container_id] = MockContainer(container_id, spec, words, ended)
        return container_id

    async def start(self, container_id: str, ports: Sequence[int] = ()) -> None:
        container = self._find(container_id)
        if container.status != "created":
            return
        if code := container.words.get("start_error"):
            raise RuntimeFailure(code, "as the command asks")
        loop = asyncio.get_running_loop()
        container.status, container.started_at = "running", loop.time()
        run_for = container.number("run_for", 1.0)
        if container.words.get("resumes"):
            run_for = max(run_for - self.saved.get(_task(container.spec), 0.0), 0.0)
        if run_for != math.inf:
            container.timer = loop.call_later(run_for, self._end, container, None)

    async def signal(self, container_id: str, signal: str) -> bool:
        container = self.containers.get(container_id)
        if container is None or container.status != "running":
            return True
        if container.words.get("on_checkpoint") == "none":
            return False
        container.signals.append(signal)
        task = _task(container.spec)
        ran = asyncio.get_running_loop().time() - container.started_at
        self.saved[task] = self.saved.get(task, 0.0) + ran
        if container.words.get("on_checkpoint") == "exit":
            if container.timer is not None:
                container.timer.cancel()
            seconds = container.number("checkpoint_seconds")
            loop = asyncio.get_running_loop()
            container.timer = loop.call_later(seconds, self.end, container_id, 0)
        return True

    async def stop(self, container_id: str, grace_s: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.status != "running":
            return
        needs = container.number("stop_seconds")
        await asyncio.sleep(min(needs, grace_s))
        self.end(container_id, _SIGTERM if needs <= grace_s else _SIGKILL)

    async def wait(self, container_id: str) -> Exit:
        return await asyncio.shield(self._find(container_id).ended)

    async def logs(self, container_id: str) -> AsyncIterator[LogPiece]:
        container = self._find(container_id)
        sent: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        while True:
            over = container.status == "exited"
            now = asyncio.get_running_loop().time()
            for stream, first in sent.items():
                sent[stream] = container.lines_at(stream, now)
                if sent[stream] > first:
                    yield LogPiece(stream, output(stream, first, sent[stream]))
            if over:
                return
            await asyncio.wait([container.ended], timeout=self._log_pause(container))

    async def remove(self, container_id: str) -> None:
        container = self.containers.pop(container_id, None)
        if container is None:
            return
        if container.timer is not None:
            container.timer.cancel()
        if not container.ended.done():
            container.ended.set_exception(RuntimeFailure("container_gone", "it was removed"))
            container.ended.exception()  # it may not be awaited

    async def list(self) -> builtins.list[Container]:
        return [
            Container(
                container_id=c.container_id,
                attempt_id=c.spec.attempt_id,
                epoch=c.spec.epoch,
                job_id=c.spec.job_id,
                gpu_uuids=tuple(c.spec.gpu_uuids),
                status=c.status,
                exit=c.ended.result() if c.status == "exited" else None,
            )
            for c in self.containers.values()
        ]

    async def sample(self, containers: dict[str, str]) -> builtins.list[ContainerSample]:
        now = asyncio.get_running_loop().time()
        found = ((a, self.containers.get(c)) for a, c in containers.items())
        return [_sample(a, c, now) for a, c in found if c is not None and c.status == "running"]

    async def save(self, container_id: str, order: SaveOrder) -> SavedImage:
        container = self._find(container_id)
        if code := container.words.get("save_error"):
            raise RuntimeFailure(code, f"mock {code}")
        if not order.still_running():
            raise RuntimeFailure("not_running", "The task does not run any more.")
        if container.words.get("save_for") == "forever":
            await asyncio.Event().wait()
        order.pushed(50)
        digest = hashlib.sha256(order.target.reference.encode()).hexdigest()
        return SavedImage(f"sha256:{digest}", _SAVED_BYTES)

    async def exec(self, container_id: str, command: Command) -> MockProcess:
        container = self._find(container_id)
        if container.status != "running":
            raise RuntimeFailure("exec_failed", "The task does not run.")
        return MockProcess(command)

    async def address(self, container_id: str) -> str | None:
        return None if self._find(container_id).spec.network == "host" else "127.0.0.1"

    async def scratch_jobs(self) -> set[str]:
        return set()

    async def remove_scratch(self, jobs: Collection[str]) -> None:
        pass

    async def clean_images(self) -> None:
        pass

    async def remove_leftovers(self) -> None:
        pass

    async def close(self) -> None:
        """Containers stay, as they do on a real engine."""

    def container_id(self, spec: AttemptSpec) -> str:
        return f"mock-{spec.attempt_id}-{spec.epoch}"

    def words(self, spec: AttemptSpec) -> dict[str, str]:
        """Return what the command asks for."""
        return _words(spec.command)

    def end(self, container_id: str, exit_code: int) -> None:
        """Let a running container die now."""
        container = self.containers.get(container_id)
        if container is not None and container.status == "running":
            self._end(container, exit_code)

    def _end(self, container: MockContainer, exit_code: int | None) -> None:
        """Without an exit code, of its own will."""
        now = math.inf if exit_code is None else asyncio.get_running_loop().time()
        container.lines = {s: container.lines_at(s, now) for s in ("stdout", "stderr")}
        oom = exit_code is None and bool(container.number("oom"))
        own = _SIGKILL if oom else int(container.number("exit_code"))
        if container.timer is not None:
            container.timer.cancel()
        container.status = "exited"
        peak = container.spec.memory_mb if oom else container.spec.memory_mb // 2
        full = bool(container.number("disk_full"))
        container.ended.set_result(Exit(own if exit_code is None else exit_code, oom, peak, full))

    def _find(self, container_id: str) -> MockContainer:
        try:
            return self.containers[container_id]
        except KeyError:
            raise RuntimeFailure("container_gone", f"no container {container_id}") from None

    def _log_pause(self, container: MockContainer) -> float | None:
        writes = container.number("log_lines") + container.number("stderr_lines")
        return LOG_STEP_S if writes else None


def _words(command: str) -> dict[str, str]:
    for line in command.splitlines():
        verb, *words = line.split()[:30] or [""]
        if verb == "mock":
            return dict(word.split("=", 1) for word in words if "=" in word)
    return {}


def output(stream: Stream, first: int, last: int) -> bytes:
    """Return the lines of a container from `first` to before `last`, counted from 0."""
    return "".join([f"{stream} line {number}\n" for number in range(first, last)]).encode()


def _sample(attempt_id: str, container: MockContainer, now: float) -> ContainerSample:
    wave = 0.5 + 0.4 * math.sin(now / 10 + len(attempt_id))
    return ContainerSample(
        attempt_id=attempt_id,
        cpu_percent=round(100 * container.spec.cpus * wave, 1),
        memory_mb=container.spec.memory_mb // 2,
    )


def _task(spec: AttemptSpec) -> tuple[str, str, int]:
    return spec.job_id, spec.task_role, spec.task_index
