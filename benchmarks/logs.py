"""`logs`: MB/s of log from a container to the store, beside `docker logs` reading the same bytes.

Ours is the whole path: engine, agent, socket, server, chunks on disk with their rows, acknowledged.
"""

from __future__ import annotations

import subprocess
import time

import docker
import httpx
from benchmarks.jobs import job, wait_for
from benchmarks.report import report
from tests.support.docker_images import import_busybox
from tests.support.stack import stack

LINES, LINE = 1_000_000, "0123456789" * 9  # and a line end: 91 bytes
MB = LINES * (len(LINE) + 1) / 1e6
COMMAND = f"yes {LINE} | head -n {LINES}"


def main() -> None:
    image = import_busybox(docker.from_env(), "skep-bench/busybox:1")
    reference = _docker_logs(image)
    with stack("--nodes", "1", "--gpus", "8") as skep, skep.api() as api:
        start = time.perf_counter()
        made = api.post("/jobs", json=job("logs", COMMAND, image=image)).raise_for_status().json()
        wait_for(api, made["id"], {"SUCCEEDED"}, within_s=300)
        _until_stored(api, made["id"])
        elapsed = time.perf_counter() - start
    report("logs", "container_to_store", MB / elapsed, "MB/s", reference)
    report("logs", "lines_to_store", LINES / elapsed, "lines/s")


def _docker_logs(image: str) -> float:
    """Measure MB/s from the start of the same container until `docker logs --follow` gave its last
    byte."""
    start = time.perf_counter()
    run = ["docker", "run", "--detach", image, "/bin/sh", "-c", COMMAND]
    container = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
    follow = ["docker", "logs", "--follow", container]
    subprocess.run(follow, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed = time.perf_counter() - start
    subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)
    return MB / elapsed


def _until_stored(api: httpx.Client, job_id: str) -> None:
    task = api.get(f"/jobs/{job_id}/tasks").raise_for_status().json()["results"][0]
    path = f"/attempts/{task['attempt']['id']}/logs/stdout"
    while not api.get(path, params={"tail": 1}).raise_for_status().json()["complete"]:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
