"""`logs`: logs from containers to the store: the whole path of engine, agent, socket, server and
chunks on disk with their rows.

- From one container, and from 50 at once on one node: lines a second and MB/s, and the CPU time of
  a million lines by process. The containers start first and write as fast as they can from a second
  agreed beforehand, which is where the time begins; it ends when the last byte is stored.
- Beside it, of the same containers without Skep, with the log driver as tasks have it: what the
  engine takes down when it has no reader (no more can come out of it), and `docker logs --follow`.
- From one node over a link of 50 ms in each direction (a proxy that delays bytes, not rates), from
  a mock container: MB/s from the submit of the job, beside the goal of 1 MB/s.
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
from benchmarks.usage import cpu_seconds, cpu_seconds_of_tree
from chaos.proxy import Mode, NodeProxy
from tests.support.docker_images import import_busybox
from tests.support.stack import Stack, stack

LINES, LINE = 2_000_000, "0123456789" * 9  # and a line end: 91 bytes
MANY = 50
GOAL_LINES = 200_000.0
LINK_S, LINK_LINES, LINK_GOAL_MB = 0.05, 1_000_000, 1.0
LINK_BYTES = sum(len(f"stdout line {n}\n") for n in range(LINK_LINES))
WITHIN_S = 600.0
AHEAD_S = {1: 15, MANY: 90}  # in which so many containers start
CLEAN_S = {1: 2, MANY: 30}  # in which the agent removes what they leave
LOG = ("max-size=1000000g", "max-file=1", "compress=false", "mode=blocking")  # as tasks have it


def main() -> None:
    image = import_busybox(docker.from_env(), "skep-bench/busybox:1")
    with stack("--nodes", "1", "--gpus", str(MANY)) as skep, skep.api() as api:
        for name, containers in (("one", 1), ("many", MANY)):
            alone = LINES / _engine_seconds(image, containers, follow=False)
            followed = LINES / _engine_seconds(image, containers, follow=True)
            report("logs", f"{name}_engine_alone", alone, "lines/s", GOAL_LINES)
            report("logs", f"{name}_docker_logs", followed, "lines/s", GOAL_LINES)
            seconds, cpu = _seconds(skep, api, image, name, containers)
            stored = LINES / seconds
            report("logs", f"{name}_to_store", stored, "lines/s", GOAL_LINES)
            report("logs", f"{name}_to_store_of_docker_logs", _mb(stored), "MB/s", _mb(followed))
            for process, used in cpu.items():
                million = used / LINES * 1e6
                report("logs", f"{name}_cpu_of_{process}", million, "s/million lines")
    with _far_node() as skep, skep.api() as api:
        began = time.perf_counter()
        made = _submit(api, job("far", f"mock run_for=1 log_lines={LINK_LINES}"))
        _wait_until_stored(skep, LINK_BYTES)
        seconds = time.perf_counter() - began
        wait_for(api, made["id"], {"SUCCEEDED"}, WITHIN_S)
        report("logs", "over_50_ms", LINK_BYTES / 1e6 / seconds, "MB/s", LINK_GOAL_MB)


def _command(containers: int, at: int) -> str:
    """Write all lines of one of so many containers, from a second since the epoch on."""
    wait = f"s=$(({at} - $(date +%s))); [ $s -le 0 ] || sleep $s; "
    return wait + f"yes {LINE} | head -n {LINES // containers}"


def _mb(lines: float) -> float:
    return lines * (len(LINE) + 1) / 1e6


def _engine_seconds(image: str, containers: int, *, follow: bool) -> float:
    """Return how long the engine takes for the lines of so many containers: to give them to `docker
    logs --follow`, or to take them down and see the containers end."""
    at = int(time.time()) + AHEAD_S[containers]
    run = ["docker", "run", "--detach", "--cpus=1", "--log-driver=local"]
    run += [f"--log-opt={option}" for option in LOG]
    run += [image, "/bin/sh", "-c", _command(containers, at)]
    made = [
        subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
        for _ in range(containers)
    ]
    wait = ["logs", "--follow"] if follow else ["wait"]
    waiting = [subprocess.Popen(["docker", *wait, one], stdout=subprocess.DEVNULL) for one in made]
    assert time.time() < at, "the containers were not started in time"
    assert not any(one.wait() for one in waiting)
    seconds = time.time() - at
    subprocess.run(["docker", "rm", "--force", *made], check=True, capture_output=True)
    return seconds


def _seconds(
    skep: Stack, api: httpx.Client, image: str, name: str, containers: int
) -> tuple[float, dict[str, float]]:
    """Return how long it takes until all lines of a job of so many containers are stored, and the
    CPU time of each process in that time."""
    at = int(time.time()) + AHEAD_S[containers]
    body = job(name, _command(containers, at), tasks=containers, image=image)
    before = _stored(skep)
    made = _submit(api, body)
    wait_for(api, made["id"], {"RUNNING"}, AHEAD_S[containers])
    assert time.time() < at, "the containers were not started in time"
    time.sleep(at - time.time())
    cpu = _cpu(skep)
    _wait_until_stored(skep, before + LINES * (len(LINE) + 1))
    seconds = time.time() - at
    used = {process: now - cpu[process] for process, now in _cpu(skep).items()}
    wait_for(api, made["id"], {"SUCCEEDED"}, WITHIN_S)
    time.sleep(CLEAN_S[containers])
    return seconds, used


def _submit(api: httpx.Client, body: dict) -> dict:
    return api.post("/jobs", json=body).raise_for_status().json()


def _wait_until_stored(skep: Stack, size: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while (stored := _stored(skep)) < size:
        assert time.monotonic() < deadline, f"{stored} of {size} bytes are stored"
        time.sleep(0.1)


def _stored(skep: Stack) -> int:
    return int(skep.query("SELECT coalesce(sum(size), 0) FROM telemetry_logchunk")[0][0])


def _cpu(skep: Stack) -> dict[str, float]:
    """Return the CPU time of the processes on the way, those of the containers left out."""
    children = skep.pids()
    names = {"gateway": "gateway", "agent": "agent-node-1"}
    found = {name: cpu_seconds([children[child]]) for name, child in names.items()}
    found["postgres"] = cpu_seconds_of_tree(children["postgres"])
    engine = subprocess.run(["pgrep", "-o", "-x", "dockerd"], capture_output=True, text=True)
    if engine.stdout:
        found["engine"] = cpu_seconds([int(engine.stdout)])
    return found


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
