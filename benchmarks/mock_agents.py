"""Many agents with the mock runtime in processes of their own, joined to a Skep.

`fleet(skep, nodes, gpus)` starts `python -m benchmarks.mock_agents` for every AGENTS_EACH of them,
and waits until all are online. Real agents are on machines of their own: too many in one process
wait for each other, until they take the server for silent and connect anew.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from skep_agent.config import AgentConfig
from skep_agent.join import JoinFailed, join
from skep_agent.run import run_agent
from skep_agent.statedir import StateDir

if TYPE_CHECKING:  # which takes longer to import than all that an agent needs
    from tests.support.stack import Stack

GPU_MODEL = "Simulated-GPU"
AGENTS_EACH = 250  # of a process, at most
JOINING_EACH = 4  # of a process, at a time
NEXT_WITHIN_S = 120  # the first to be online, and each next one
TRIES = 5  # of each join that gets no answer
LOOK_S = 2.0  # each look costs the server a request


@contextmanager
def fleet(skep: Stack, nodes: int, gpus: int, url: str | None = None) -> Iterator[list[int]]:
    """Yields the process ids of the agents, which reach the server at `url`, by default its own.
    The default virtual cluster owns all their GPUs."""
    token = _join_token(skep, nodes)
    log = skep.home.log / "fleet.log"
    processes: list[subprocess.Popen[str]] = []
    try:
        for first in range(0, nodes, AGENTS_EACH):
            some = range(first, min(first + AGENTS_EACH, nodes))
            processes.append(_started(url or skep.url, token, some, gpus, skep.home.root, log))
        with skep.api() as api:
            _until_online(api, nodes, processes, log)
            quotas = {"quotas": {GPU_MODEL: nodes * gpus}} if gpus else {"quotas": {}}
            api.put("/virtual-clusters/default/quotas", json=quotas).raise_for_status()
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _started(
    server: str, token: str, numbers: range, gpus: int, root: Path, log: Path
) -> subprocess.Popen[str]:
    """Start a process for the agents of these numbers."""
    given = [server, numbers.start, numbers.stop, gpus, root / "fleet"]
    command = [sys.executable, "-m", "benchmarks.mock_agents", *map(str, given)]
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True
        )
    assert process.stdin
    process.stdin.write(token)
    process.stdin.close()
    return process


def _join_token(skep: Stack, nodes: int) -> str:
    with skep.api() as api:
        # A join whose answer came too late was counted, and is asked for again.
        answer = api.post("/nodes/join-tokens", json={"nodes": 2 * nodes}).raise_for_status()
        return str(answer.json()["token"])


def _until_online(
    api: httpx.Client, nodes: int, processes: list[subprocess.Popen[str]], log: Path
) -> None:
    online, deadline = 0, time.monotonic() + NEXT_WITHIN_S
    while True:
        before = online
        online = api.get("/cluster").raise_for_status().json()["nodes"].get("ONLINE", 0)
        if online >= nodes:
            return
        if any(process.poll() is not None for process in processes):
            end = log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"A process of the agents ended at {online} of {nodes}: {end}")
        if online > before:
            deadline = time.monotonic() + NEXT_WITHIN_S
        elif time.monotonic() > deadline:
            message = f"{online} of {nodes} agents are online, no more for {NEXT_WITHIN_S} s"
            raise TimeoutError(message)
        time.sleep(LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("gpus", type=int)
    parser.add_argument("state", type=Path)
    given = parser.parse_args()
    gc.disable()  # the agents of a machine are one: passes over hundreds of them are not theirs
    token = sys.stdin.read().strip()
    numbers = range(given.first, given.end)
    asyncio.run(_run(given.server, token, numbers, given.gpus, given.state))


async def _run(server: str, token: str, numbers: range, gpus: int, state: Path) -> None:
    joining = asyncio.Semaphore(JOINING_EACH)

    async def one(number: int) -> None:
        async with joining:
            config = await _join(server, token, f"mock-{number:04}", gpus, state)
        await run_agent(config)

    await asyncio.gather(*(one(n) for n in numbers))


async def _join(server: str, token: str, name: str, gpus: int, state: Path) -> AgentConfig:
    folder = StateDir(state / name)
    for left in reversed(range(TRIES)):
        try:
            await join(server, token, name, folder)
            break
        except JoinFailed as failure:  # on a busy machine one answer of thousands is late
            if failure.code != "server_unreachable" or not left:
                raise
    return AgentConfig(
        state=folder.path,
        runtime="mock",
        simulated_gpus=gpus,
        gpu_model=GPU_MODEL,
        address="127.0.0.1",
        cpus=256,
        memory_mb=1 << 20,
    )


if __name__ == "__main__":
    main()
