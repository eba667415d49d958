"""`logs_ingest`: logs from agents' sockets to the store, without containers: how many MB/s at most,
and what 100,000 lines a second cost.

Agents in this process send within their window to a real web server of one process, which writes
chunk files (synced) and records them in the database. Beside it: the same bytes written to one
plain file and synced at its end."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tests.support import engines

engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"

import django  # noqa: E402

django.setup()

from benchmarks.report import report  # noqa: E402
from benchmarks.usage import cpu_seconds, memory_mb  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402
from tests.support.gateway_agent import Joined  # noqa: E402
from tests.support.gateway_rows import frame, running_attempt  # noqa: E402
from tests.support.gateway_server import ProcessServer  # noqa: E402
from websockets.asyncio.client import ClientConnection, connect  # noqa: E402

from skep_agent.protocol import LOG_WINDOW_BYTES, LogAck, parse_server_message  # noqa: E402
from skep_platform.jobs.models import TaskAttempt  # noqa: E402

MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    agents: int
    frame_bytes: int
    agent_bytes: int


LINE = (
    b"2026-11-21 08:00:00 step 1234567 loss 0.6931 lr 3e-4 tokens/s 12345.6 grad norm 1.0 eta 1 d\n"
)
RATE, RATE_AGENTS, RATE_S, FRAMES = 100_000, 20, 10, 10  # lines/s of all; frames/s of each

LOADS = (
    Load("one_agent_large_frames", 1, 256 * 1024, 128 * MB),
    Load("one_agent_small_frames", 1, 4 * 1024, 32 * MB),
    Load("sixteen_agents", 16, 64 * 1024, 8 * MB),
)


def main() -> None:
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        with ProcessServer(SKEP_LOG_LEVEL="WARNING") as server:
            for load in LOADS:
                total = load.agents * load.agent_bytes / MB
                speed = total / asyncio.run(_run(server.port, load, _agents(load)))
                report("logs_ingest", load.name, speed, "MB/s", total / _plain_file(load))
            _rate(server)
    finally:
        connection.close_pool()  # type: ignore[attr-defined]
        teardown_databases(databases, verbosity=0)


def _agents(load: Load) -> list[tuple[Joined, TaskAttempt]]:
    joined = [Joined() for _ in range(load.agents)]
    found = [(j, running_attempt(j.node, gpus=0)) for j in joined]
    connection.close()
    return found


async def _run(port: int, load: Load, agents: list[tuple[Joined, TaskAttempt]]) -> float:
    """Seconds until the last byte of the last agent is acknowledged."""
    start = asyncio.Event()
    work = [asyncio.create_task(_ship(port, load, *agent, start)) for agent in agents]
    await asyncio.sleep(1)  # all are connected; it is not counted if they are not
    began = time.perf_counter()
    start.set()
    await asyncio.gather(*work)
    return time.perf_counter() - began


def _rate(server: ProcessServer) -> None:
    """CPU and memory of the server, and how late the last byte is stored."""
    agents = [(j, running_attempt(j.node, gpus=0)) for j in (Joined() for _ in range(RATE_AGENTS))]
    connection.close()
    cpu, memory = cpu_seconds([server.pid]), memory_mb([server.pid])
    late = asyncio.run(_rate_of_all(server.port, agents))
    used, grown = cpu_seconds([server.pid]) - cpu, memory_mb([server.pid]) - memory
    report("logs_ingest", "cores_at_100000_lines_per_s", used / RATE_S, "cores", _plain_cpu())
    report("logs_ingest", "memory_growth_at_100000_lines_per_s", grown, "MB")
    report("logs_ingest", "last_byte_stored_after", late, "s")


async def _rate_of_all(port: int, agents: list[tuple[Joined, TaskAttempt]]) -> float:
    return max(await asyncio.gather(*(_at_rate(port, *agent) for agent in agents)))


async def _at_rate(port: int, joined: Joined, attempt: TaskAttempt) -> float:
    """Send lines at the rate; returns how many seconds after the last one all are stored."""
    data = LINE * (RATE // RATE_AGENTS // FRAMES)
    async with _connected(port, joined) as socket:
        began = time.perf_counter()
        acks = asyncio.create_task(_until_end(socket))
        for number in range(RATE_S * FRAMES):
            await asyncio.sleep(began + number / FRAMES - time.perf_counter())
            made = frame(attempt, number * len(data), data)
            await socket.send(replace(made, times=_times(began, number)).encode())
        await socket.send(frame(attempt, RATE_S * FRAMES * len(data), b"").encode())
        sent = time.perf_counter()
        await acks
        return time.perf_counter() - sent


def _times(began: float, number: int) -> list[int]:
    """Return the times of one frame's lines, as an engine stamps them; none with
    SKEP_BENCH_NO_TIMES=1."""
    if os.environ.get("SKEP_BENCH_NO_TIMES"):
        return []
    count, start = RATE // RATE_AGENTS // FRAMES, int((began + number / FRAMES) * 1e9)
    step = 10**9 // FRAMES // count
    return [1_790_000_000 * 10**9 + start + line * step + line % 7 * 313 for line in range(count)]


async def _until_end(socket: ClientConnection) -> None:
    while not (await _next_ack(socket)).end:
        pass


def _plain_cpu() -> float:
    """Cores that appending the same lines to one file takes, synced ten times a second."""
    data = LINE * (RATE // FRAMES)
    began = time.process_time()
    with tempfile.TemporaryFile() as file:
        for _ in range(RATE_S * FRAMES):
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
    return (time.process_time() - began) / RATE_S


@asynccontextmanager
async def _connected(port: int, joined: Joined) -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {joined.credential}"}
    url = f"ws://127.0.0.1:{port}/ws/agent"
    async with connect(url, additional_headers=headers, compression=None, proxy=None) as socket:
        await socket.send(joined.hello.model_dump_json())
        yield socket


async def _ship(
    port: int, load: Load, joined: Joined, attempt: TaskAttempt, start: asyncio.Event
) -> None:
    data = os.urandom(load.frame_bytes)
    async with _connected(port, joined) as socket:
        await start.wait()
        acknowledged = 0
        for offset in range(0, load.agent_bytes, load.frame_bytes):
            while offset + load.frame_bytes - acknowledged > LOG_WINDOW_BYTES:
                acknowledged = (await _next_ack(socket)).offset
            await socket.send(frame(attempt, offset, data).encode())
        await socket.send(frame(attempt, load.agent_bytes, b"").encode())
        await _until_end(socket)


async def _next_ack(socket: ClientConnection) -> LogAck:
    while True:
        message = parse_server_message(await socket.recv())
        if isinstance(message, LogAck):
            return message


def _plain_file(load: Load) -> float:
    """Measure the seconds to write the same bytes to one file."""
    data = os.urandom(load.frame_bytes)
    with tempfile.TemporaryFile() as file:
        began = time.perf_counter()
        for _ in range(load.agents * load.agent_bytes // load.frame_bytes):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
