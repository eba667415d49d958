"""Checks of this node before it is used: its disk, its GPUs, and the way to the server and to other
nodes (`peer_checks`).

The server asks for a round when no task is here, and repeats it until it is reported. A GPU passes
when its driver knows of no error, and when the command that the owner of the node named
(`--gpu-check`) ends with code 0 for it: such as `dcgmi diag` or gpu-burn, which try memory and
arithmetic.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import structlog

from skep_agent.accelerators.base import GpuProbe
from skep_agent.check_messages import CheckReport, CheckResult, NodeChecks
from skep_agent.config import AgentConfig, own_address
from skep_agent.inventory import Gpu
from skep_agent.join import trusted
from skep_agent.shell.peer_checks import MOST_PEERS, PeerListeners, check_peer
from skep_agent.shell.tasks import TaskSet

BLOCK = 4 * 1024 * 1024  # bytes
BLOCKS = 16
GPU_CHECK_S = 900.0
REQUESTS, REQUEST_S = 5, 10.0
MAX_OUTPUT = 300  # of a command's last line
Send = Callable[[CheckReport], Coroutine[Any, Any, None]]

log = structlog.get_logger(__name__)


class NodeCheckRuns:
    """`send` drops what it says while there is no session: the server asks again. `held` returns
    the ports that tasks have."""

    def __init__(
        self,
        probe: GpuProbe,
        config: AgentConfig,
        server: str,
        held: Callable[[], Collection[int]],
        send: Send,
    ) -> None:
        self._probe, self._folder, self._server = probe, config.state, server
        self._command = shlex.split(config.gpu_check)
        self._own = lambda: config.address or own_address(server)
        self._listeners = PeerListeners(self._own, config.port_range, held)
        self._send = send
        self._wanted = ""
        self._ended: CheckReport | None = None
        self._tasks = TaskSet()

    def want(self, message: NodeChecks) -> None:
        """Run this round, unless it runs already; report it again where it has ended. Listen for
        the rounds of others."""
        self._listeners.want(message.listens)
        if message.check_id != self._wanted:
            self._tasks.cancel(self._wanted)
            self._wanted, self._ended = message.check_id, None
            if self._wanted:
                self._tasks.start(self._wanted, self._run(message))
        elif self._ended is not None:
            self._tasks.start("again", self._send(self._ended))

    async def close(self) -> None:
        await self._tasks.close()
        await self._listeners.close()

    async def _run(self, wanted: NodeChecks) -> None:
        check_id = wanted.check_id
        results: list[CheckResult] = []
        try:
            await self._check(wanted, results)
        except Exception as error:
            # Without a report the server would wait for this round for ever.
            log.exception("check_broke", check_id=check_id)
            message = f"A check broke by {type(error).__name__}; the agent's log says how."
            results.append(CheckResult(name="agent", passed=False, message=message))
        failed = [result.name for result in results if not result.passed]
        log.info("checks_ended", check_id=check_id, failed=failed)
        self._ended = CheckReport(check_id=check_id, results=results)
        await self._send(self._ended)

    async def _check(self, wanted: NodeChecks, results: list[CheckResult]) -> None:
        results.append(await asyncio.to_thread(check_disk, self._folder))
        results.append(await check_network(self._server))
        # One after the other: together they would share this node's network.
        for peer in wanted.peers[:MOST_PEERS]:
            results.append(await check_peer(peer, self._own(), wanted.least_mb_s))
        gpus = await asyncio.to_thread(self._probe.gpus)
        errors = await asyncio.to_thread(self._probe.ecc_errors)
        for gpu in gpus:
            results.append(await check_gpu(gpu, errors.get(gpu.uuid, 0), self._command))


def check_disk(folder: Path) -> CheckResult:
    """Write 64 MiB, have the disk store them, and read them back."""
    for left in folder.glob("disk-check*"):  # by an agent that was killed meanwhile
        with suppress(OSError):
            left.unlink()
    path = folder / "disk-check"
    blocks = [os.urandom(BLOCK) for _ in range(2)]
    written = [blocks[number % 2] for number in range(BLOCKS)]
    try:
        began = time.monotonic()
        with path.open("xb+") as file:
            # Without a name its space is free again however this process ends.
            path.unlink()
            file.writelines(written)
            file.flush()
            os.fsync(file.fileno())
            wrote_s = time.monotonic() - began
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            began = time.monotonic()
            file.seek(0)
            same = _digest(iter(lambda: file.read(BLOCK), b"")) == _digest(written)
            read_s = time.monotonic() - began
    except OSError as error:
        message = f"The disk of {folder} cannot be used: {error.strerror}."
        return CheckResult(name="disk", passed=False, message=message)
    size_mb = BLOCK * BLOCKS / 1e6
    numbers = {"write_mb_s": round(size_mb / max(wrote_s, 1e-6), 1)}
    numbers["read_mb_s"] = round(size_mb / max(read_s, 1e-6), 1)
    message = "" if same else "What was read is not what was written."
    return CheckResult(name="disk", passed=same, message=message, numbers=numbers)


def _digest(blocks: Iterable[bytes]) -> bytes:
    found = hashlib.sha256()
    for block in blocks:
        found.update(block)
    return found.digest()


async def check_network(url: str) -> CheckResult:
    """Ask the server several times whether it is there."""
    times: list[float] = []
    problem, authorities = "", trusted(url)
    for _ in range(REQUESTS):
        began = time.monotonic()
        try:
            async with httpx.AsyncClient(timeout=REQUEST_S, verify=authorities) as client:
                answer = await client.get(f"{url}/healthz")
            if answer.is_error:
                problem = f"{url}/healthz answered {answer.status_code}."
        except httpx.HTTPError as error:
            problem = f"{url} does not answer: {type(error).__name__}."
        times.append(1000 * (time.monotonic() - began))
    numbers = {"median_ms": round(sorted(times)[len(times) // 2], 1), "most_ms": round(max(times))}
    return CheckResult(name="network", passed=not problem, message=problem, numbers=numbers)


async def check_gpu(gpu: Gpu, ecc_errors: int, command: list[str]) -> CheckResult:
    """Look at what the driver says of a GPU, and run the owner's command for it."""
    name = f"gpu {gpu.uuid}"
    numbers = {"ecc_errors": float(ecc_errors)}
    problem = gpu.problem or "The driver says that it is bad." if not gpu.healthy else ""
    if not problem and ecc_errors:
        problem = f"Its memory had {ecc_errors} errors that ECC did not correct."
    if not problem and command:
        began = time.monotonic()
        problem = await _run_command(command, gpu)
        numbers["seconds"] = round(time.monotonic() - began, 1)
    return CheckResult(name=name, passed=not problem, message=problem, numbers=numbers)


async def _run_command(command: list[str], gpu: Gpu) -> str:
    """Run it for one GPU. Returns what is wrong, "" for code 0."""
    own = {"SKEP_GPU_UUID": gpu.uuid, "SKEP_GPU_INDEX": str(gpu.index)}
    visible = {"CUDA_VISIBLE_DEVICES": gpu.uuid, "NVIDIA_VISIBLE_DEVICES": gpu.uuid}
    # skep-agent is beside the Python that runs it, which need not be on the path of a service.
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **own, **visible, "PATH": os.pathsep.join(path)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}."
    try:
        async with asyncio.timeout(GPU_CHECK_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"{command[0]} did not end within {GPU_CHECK_S:.0f} s."
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode == 0:
        return ""
    lines = output.decode(errors="replace").strip().splitlines()
    last = lines[-1][:MAX_OUTPUT] if lines else "it said nothing"
    return f"{command[0]} ended with code {process.returncode}: {last}"
