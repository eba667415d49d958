"""Container engines of simulated nodes, apart from the agents: what they run survives their death.

`NodeEngine` is the engine of one node. It is reached at two Unix sockets, as a real one would be
at one: `calls` speaks the calls of a `Runtime` (see `chaos.runtime`), and `docker` the three
requests of Docker's API that the watchdog of a node sends. All engines share one `Ledger`, which
knows what runs where and objects when two containers have one GPU or one task at a time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skep_agent.containers import RuntimeFailure
from skep_agent.protocol import AttemptSpec, ImageSpec, Stream
from skep_agent.runtimes.mock import MockContainer, MockRuntime, output

KILLED = 137
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@dataclass(slots=True)
class Run:
    """One container that was started, on one node."""

    node: str
    container_id: str
    attempt_id: str
    job_id: str
    task: tuple[str, str, int]
    gpus: tuple[str, ...]
    started: float  # by time.monotonic()
    ended: float | None = None
    exit_code: int | None = None
    lines: dict[Stream, int] = field(default_factory=dict)  # written, once it has ended

    def output(self, stream: Stream) -> bytes:
        """Return all that it wrote. Known once it has ended."""
        return output(stream, 0, self.lines[stream])


class Ledger:
    """Everything that ever ran on the nodes, kept apart from the agents' and the server's word."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.violations: list[str] = []
        self._running: dict[str, Run] = {}  # by container
        self._by_gpu: dict[str, Run] = {}
        self._by_task: dict[tuple[str, str, int], Run] = {}

    def running(self) -> dict[str, Run]:
        """Return what runs now, by the id of the attempt."""
        return {run.attempt_id: run for run in list(self._running.values())}

    def begin(self, run: Run) -> None:
        for gpu in run.gpus:
            if other := self._by_gpu.get(gpu):
                self._object(f"GPU {gpu} is used twice", other, run)
            self._by_gpu[gpu] = run
        if other := self._by_task.get(run.task):
            self._object(f"task {run.task} runs twice", other, run)
        self._by_task[run.task] = run
        self._running[run.container_id] = run
        self.runs.append(run)

    def end(self, container_id: str, exit_code: int, lines: dict[Stream, int]) -> None:
        run = self._running.pop(container_id, None)
        if run is None:
            return
        run.ended, run.exit_code, run.lines = time.monotonic(), exit_code, dict(lines)
        for gpu in run.gpus:
            if self._by_gpu.get(gpu) is run:
                del self._by_gpu[gpu]
        if self._by_task.get(run.task) is run:
            del self._by_task[run.task]

    def _object(self, problem: str, first: Run, second: Run) -> None:
        self.violations.append(
            f"{problem}: attempt {first.attempt_id} on {first.node} still runs when "
            f"{second.attempt_id} begins on {second.node}"
        )


class NodeEngine(MockRuntime):
    """The containers of one node. One more word than `MockRuntime` has: `fails=N` ends with exit
    code 1 in the first N attempts of the job."""

    def __init__(self, node: str, ledger: Ledger) -> None:
        super().__init__()
        self.node = node
        self.ledger = ledger
        self.available = asyncio.Event()  # cleared: the engine hangs
        self.available.set()

    def container_id(self, spec: AttemptSpec) -> str:
        """Return an id in the form of Docker's, which the watchdog insists on."""
        return hashlib.sha256(f"{self.node} {spec.attempt_id} {spec.epoch}".encode()).hexdigest()

    def words(self, spec: AttemptSpec) -> dict[str, str]:
        words = super().words(spec)
        if int(spec.env.get("SKEP_JOB_ATTEMPT", "1")) <= int(words.get("fails", 0)):
            words = {**words, "exit_code": "1"}
        return words

    async def start(self, container_id: str, ports: Any = ()) -> None:
        container = self.containers.get(container_id)
        fresh = container is not None and container.status == "created"
        await super().start(container_id, ports)
        if fresh and container is not None:
            spec = container.spec
            task = (spec.job_id, spec.task_role, spec.task_index)
            run = Run(
                self.node,
                container_id,
                spec.attempt_id,
                spec.job_id,
                task,
                tuple(spec.gpu_uuids),
                time.monotonic(),
            )
            self.ledger.begin(run)

    async def remove(self, container_id: str) -> None:
        self.end(container_id, KILLED)  # as `docker rm --force`
        await super().remove(container_id)

    def _end(self, container: MockContainer, exit_code: int | None) -> None:
        super()._end(container, exit_code)
        assert container.lines is not None
        code = container.ended.result().exit_code
        self.ledger.end(container.container_id, code, container.lines)


Reply = Callable[[Any], Awaitable[None]]


class EngineServer:
    """Serves one engine at its two sockets, on the loop that calls `start`."""

    def __init__(self, engine: NodeEngine, folder: Path) -> None:
        self.engine = engine
        self.calls = folder / f"{engine.node}.calls"
        self.docker = folder / f"{engine.node}.docker"
        self._servers: list[asyncio.AbstractServer] = []
        self._work: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Containers of more than one life of an agent write long logs: lines have no limit."""
        limit = 64 * 1024 * 1024
        calls = await asyncio.start_unix_server(self._call, self.calls, limit=limit)
        docker = await asyncio.start_unix_server(self._docker, self.docker)
        self._servers = [calls, docker]

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._work:
            task.cancel()

    # --- the calls of a runtime

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one call. What it began goes on when the caller dies, as on a real engine."""
        line = await reader.readline()
        if not line:
            writer.close()
            return
        given = json.loads(line)

        async def reply(value: Any) -> None:
            writer.write(json.dumps(value).encode() + b"\n")
            await writer.drain()

        task = asyncio.create_task(self._serve(given["call"], given["arguments"], reply))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        if given["call"] in ("wait", "logs"):  # no one waits for these any more
            gone = asyncio.create_task(reader.read(1))
            await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            gone.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()

    async def _serve(self, call: str, arguments: dict[str, Any], reply: Reply) -> None:
        with suppress(ConnectionError):
            try:
                await self.engine.available.wait()
                await reply({"value": await self._do(call, arguments, reply)})
            except RuntimeFailure as failure:
                await reply({"code": failure.code, "message": failure.message})

    async def _do(self, call: str, given: dict[str, Any], reply: Reply) -> Any:
        engine = self.engine
        match call:
            case "pull":
                image = ImageSpec.model_validate(given["image"])
                return await engine.pull(image, lambda progress: None)
            case "create":
                return await engine.create(AttemptSpec.model_validate(given["spec"]))
            case "start":
                return await engine.start(given["container_id"])
            case "signal":
                return await engine.signal(given["container_id"], given["signal"])
            case "stop":
                return await engine.stop(given["container_id"], given["grace_s"])
            case "wait":
                return asdict(await engine.wait(given["container_id"]))
            case "remove":
                return await engine.remove(given["container_id"])
            case "list":
                return [asdict(container) for container in await engine.list()]
            case "sample":
                samples = await engine.sample(given["containers"])
                return [sample.model_dump() for sample in samples]
            case "images":
                return [image.model_dump() for image in await engine.images()]
            case "logs":
                async for stream, data, _ in engine.logs(given["container_id"]):
                    await reply({"piece": [stream, base64.b64encode(data).decode()]})
                return None
        raise RuntimeFailure("unknown_call", call)

    # --- what the watchdog asks of Docker

    async def _docker(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await self.engine.available.wait()
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
            body = json.dumps(self._answer(method, target)).encode()
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    def _answer(self, method: str, target: str) -> Any:
        url = urlsplit(target)
        if method == "POST":
            container_id = url.path.split("/")[2]
            self.engine.end(container_id, KILLED)
            return None
        filters = json.loads(parse_qs(url.query)["filters"][0])
        containers = self.engine.containers.values()
        return [{"Id": c.container_id} for c in containers if c.status in filters["status"]]
