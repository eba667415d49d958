"""Job files for benchmarks, and waiting for jobs over REST."""

from __future__ import annotations

import time

import httpx


def job(name: str, command: str, *, tasks: int = 1, gpus: int = 1, image: str = "none") -> dict:
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": image}],
        "taskRoles": {
            "worker": {
                "instances": tasks,
                "dockerImage": "image",
                "resourcePerInstance": {"gpu": gpus, "cpu": 1, "memoryMB": 64},
                "commands": [command],
            }
        },
    }


def count(api: httpx.Client, state: str) -> int:
    """Count the jobs in this state, from the cluster's summary."""
    return int(api.get("/cluster").raise_for_status().json()["jobs"].get(state, 0))


def wait_for(api: httpx.Client, job_id: str, states: set[str], within_s: float = 60) -> dict:
    """Poll one job. Raises TimeoutError with what it says of itself."""
    deadline = time.monotonic() + within_s
    while True:
        found = api.get(f"/jobs/{job_id}").raise_for_status().json()
        if found["state"] in states:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found['name']} is {found['state']}: {found['wait_reason']}")
        time.sleep(0.02)
