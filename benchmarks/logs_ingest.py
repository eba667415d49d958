"""`python -m benchmarks.logs_ingest`: log MB/s from agents' sockets to the store, no containers.

Agents in this process send within their window to a real web server of one process, which writes
chunk files (synced) and tells the database. Beside it: the same bytes written to one plain file and
synced at its end.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass

from tests.support import engines

engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"

import django  # noqa: E402

django.setup()

from benchmarks.report import report  # noqa: E402
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


LOADS = (
    Load("one_agent_large_frames", 1, 256 * 1024, 128 * MB),
    Load("one_agent_small_frames", 1, 4 * 1024, 32 * MB),
    Load("sixteen_agents", 16, 64 * 1024, 8 * MB),
)


def main() -> None:
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        with ProcessServer() as server:
            for load in LOADS:
                total = load.agents * load.agent_bytes / MB
                speed = total / asyncio.run(_run(server.port, load, _agents(load)))
                report("logs_ingest", load.name, speed, "MB/s", total / _plain_file(load))
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


async def _ship(
    port: int, load: Load, joined: Joined, attempt: TaskAttempt, start: asyncio.Event
) -> None:
    data = os.urandom(load.frame_bytes)
    headers = {"Authorization": f"Bearer {joined.credential}"}
    url = f"ws://127.0.0.1:{port}/ws/agent"
    async with connect(url, additional_headers=headers, compression=None, proxy=None) as socket:
        await socket.send(joined.hello.model_dump_json())
        await start.wait()
        acknowledged = 0
        for offset in range(0, load.agent_bytes, load.frame_bytes):
            while offset + load.frame_bytes - acknowledged > LOG_WINDOW_BYTES:
                acknowledged = (await _next_ack(socket)).offset
            await socket.send(frame(attempt, offset, data).encode())
        await socket.send(frame(attempt, load.agent_bytes, b"").encode())
        while not (await _next_ack(socket)).end:
            pass


async def _next_ack(socket: ClientConnection) -> LogAck:
    while True:
        message = parse_server_message(await socket.recv())
        if isinstance(message, LogAck):
            return message


def _plain_file(load: Load) -> float:
    """Seconds to write the same bytes to one file."""
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
