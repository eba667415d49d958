"""`start`: from submit to running on a real Docker engine, beside plain `docker run`.

Both run the same image, by turns. Skep's side is the whole path: REST,
database, scheduler, socket, agent, container start, and the report back.

The reference is `docker run` on the engine's default bridge. Skep's containers
are on a bridge that isolates them, and for every bridge but the default one
the engine starts a DNS resolver in the container's namespace (about 40 ms), so
`docker run` on such a bridge is measured too, as `docker_run_own_bridge`.
"""

from __future__ import annotations

import subprocess
import time
from datetime import datetime

import docker
from benchmarks.jobs import job, wait_for, witness
from benchmarks.report import percentile, report
from tests.support.docker_images import import_busybox
from tests.support.stack import stack

ROUNDS = 30
BRIDGE = "skep-bench-start"
STATE = "SELECT state FROM jobs_job WHERE id = %s"


def main() -> None:
    engine = docker.from_env()
    image = import_busybox(engine, "skep-bench/busybox:1")
    bridge = engine.networks.create(BRIDGE, driver="bridge")
    try:
        _measure(image)
    finally:
        bridge.remove()


def _measure(image: str) -> None:
    ours, plain, bridged, whole = [], [], [], []
    with stack("--nodes", "1", "--gpus", "8") as skep, skep.api() as api, witness(skep) as seen:
        for number in range(ROUNDS):
            plain.append(_docker_run(image))
            bridged.append(_docker_run(image, "--network", BRIDGE))
            start = time.perf_counter()
            made = api.post("/jobs", json=job(f"start-{number}", "sleep 2", image=image))
            job_id = made.raise_for_status().json()["id"]
            seen.wait(STATE, "RUNNING", job_id)
            found = wait_for(api, job_id, {"RUNNING"})
            whole.append(time.perf_counter() - start)
            ours.append(_seconds(found["submitted_at"], found["started_at"]))
            api.post(f"/jobs/{found['id']}/stop")
            wait_for(api, found["id"], {"STOPPED", "SUCCEEDED"})
    for percent in (50, 99):
        reference = percentile(plain, percent)
        value = percentile(ours, percent)
        report("start", f"submit_to_running_p{percent}", value, "s", reference)
        seen = percentile(whole, percent)
        report("start", f"submit_to_seen_running_p{percent}", seen, "s", reference)
        own = percentile(bridged, percent)
        report("start", f"docker_run_own_bridge_p{percent}", own, "s", reference)


def _docker_run(image: str, *options: str) -> float:
    """Seconds of `docker run` until the container's first process has run."""
    start = time.perf_counter()
    command = ["docker", "run", "--rm", *options, image, "/bin/true"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def _seconds(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


if __name__ == "__main__":
    main()
