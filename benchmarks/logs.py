"""`logs`: logs from containers to the store: the whole path of engine, agent, socket, server and
chunks on disk with their rows, until all is acknowledged.

- From one container, and from 50 at once on one node, beside `docker logs --follow` of the same
  containers: MB/s and lines a second. The containers write as fast as they can.
- From one node over a link of 50 ms in each direction (a proxy that delays bytes, not rates), from
  a mock container: MB/s, beside the goal of 1 MB/s.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import docker
import httpx
from benchmarks.jobs import job, wait_for
from benchmarks.mock_agents import fleet
from benchmarks.report import report
from chaos.proxy import Mode, NodeProxy
from tests.support.docker_images import import_busybox
from tests.support.stack import Stack, stack

LINES, LINE = 1_000_000, "0123456789" * 9  # and a line end: 91 bytes
MANY = 50
GOAL_LINES = 200_000.0
LINK_S, LINK_LINES, LINK_GOAL_MB = 0.05, 1_000_000, 1.0
LINK_BYTES = sum(len(f"stdout line {n}\n") for n in range(LINK_LINES))
WITHIN_S = 300.0


def main() -> None:
    image = import_busybox(docker.from_env(), "skep-bench/busybox:1")
    many = LINES // MANY
    references = _docker_logs(image, 1, LINES), _docker_logs(image, MANY, many)
    with stack("--nodes", "1", "--gpus", str(MANY)) as skep, skep.api() as api:
        seconds = _seconds(api, job("logs", _command(LINES), image=image))
        report("logs", "container_to_store", _mb(LINES) / seconds, "MB/s", references[0])
        report("logs", "lines_to_store", LINES / seconds, "lines/s", GOAL_LINES)
        seconds = _seconds(api, job("many", _command(many), tasks=MANY, image=image))
        report("logs", "many_to_store", _mb(many * MANY) / seconds, "MB/s", references[1])
        report("logs", "many_lines_to_store", many * MANY / seconds, "lines/s")
    with _far_node() as skep, skep.api() as api:
        seconds = _seconds(api, job("far", f"mock run_for=1 log_lines={LINK_LINES}"))
        report("logs", "over_50_ms", LINK_BYTES / 1e6 / seconds, "MB/s", LINK_GOAL_MB)


def _command(lines: int) -> str:
    return f"yes {LINE} | head -n {lines}"


def _mb(lines: int) -> float:
    return lines * (len(LINE) + 1) / 1e6


def _docker_logs(image: str, containers: int, lines: int) -> float:
    """Measure MB/s from the start of the same containers until `docker logs --follow` gave the last
    byte of each."""
    start = time.perf_counter()
    run = ["docker", "run", "--detach", image, "/bin/sh", "-c", _command(lines)]
    made = [
        subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(containers)
    ]
    followers = [
        subprocess.Popen(["docker", "logs", "--follow", one], stdout=subprocess.DEVNULL)
        for one in made
    ]
    assert not any(follower.wait() for follower in followers)
    elapsed = time.perf_counter() - start
    subprocess.run(["docker", "rm", "--force", *made], check=True, capture_output=True)
    return containers * _mb(lines) / elapsed


def _seconds(api: httpx.Client, body: dict) -> float:
    """Return how long it takes from the submit until the log of each task is stored."""
    start = time.perf_counter()
    made = api.post("/jobs", json=body).raise_for_status().json()
    wait_for(api, made["id"], {"SUCCEEDED"}, WITHIN_S)
    tasks = api.get(f"/jobs/{made['id']}/tasks", params={"limit": MANY}).raise_for_status().json()
    for task in tasks["results"]:
        path = f"/attempts/{task['attempt']['id']}/logs/stdout"
        while not api.get(path, params={"tail": 1}).raise_for_status().json()["complete"]:
            time.sleep(0.05)
    return time.perf_counter() - start


class FarProxy(NodeProxy):
    """A node's way to the server on which each byte takes LINK_S, at any rate."""

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, lost_in: Mode
    ) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            loop, data = asyncio.get_running_loop(), b"first"
            while data:
                data = await source.read(1 << 20)
                under_way.put_nowait((loop.time() + LINK_S, data))

        async def write() -> None:
            loop = asyncio.get_running_loop()
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(due - loop.time(), 0))
                if not data:
                    break
                sink.write(data)
                await sink.drain()
            sink.write_eof()

        await asyncio.gather(read(), write())


@contextmanager
def _far_node() -> Iterator[Stack]:
    """Start a Skep with one node of one simulated GPU at the other end of the link."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    # Agents know one address, as behind a proxy of the operator's own.
    with stack("--no-agents", SKEP_PUBLIC_URL="http://127.0.0.1:1", SKEP_ALLOW_HTTP="1") as skep:
        gateway = int(skep.gateway_url.rsplit(":", 1)[1])
        proxy = FarProxy(int(skep.url.rsplit(":", 1)[1]), gateway)
        asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()
        with fleet(skep, 1, 1, f"http://127.0.0.1:{proxy.port}"):
            yield skep
        loop.call_soon_threadsafe(proxy.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


if __name__ == "__main__":
    main()
