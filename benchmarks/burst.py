"""`burst`: 1,000 one-GPU jobs through REST, Celery and WebSockets to mock containers, until all are
finished. 16 nodes of 8 GPUs; everything on this machine, the submitting program included.

The reference is what real Slurm does on such a machine: 51 to 70 jobs/s.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from benchmarks.jobs import job
from benchmarks.mock_agents import fleet
from benchmarks.report import report
from benchmarks.usage import cpu_seconds
from tests.support.stack import Stack, stack

JOBS, CLIENTS = 1_000, 4
NODES, GPUS = 16, 8
SLURM_JOBS_PER_S = 70.0
WITHIN_S = 300


def main() -> None:
    with stack("--no-agents") as skep, fleet(skep, NODES, GPUS) as agents:
        with skep.api() as api:  # one user submits all: more than the default limit allows
            limit = "/virtual-clusters/default/limits/submits_per_minute"
            api.put(limit, json={"value": 100_000}).raise_for_status()
        _run(skep, "warm", 50)
        cpu = cpu_seconds(skep.processes()), cpu_seconds([agents])
        start = time.perf_counter()
        submitted = _submit(skep, "burst", JOBS)
        accepted = time.perf_counter() - start
        _until_finished(skep, submitted)
        elapsed = time.perf_counter() - start
        report("burst", "submitted", JOBS / accepted, "jobs/s")
        report("burst", "finished", JOBS / elapsed, "jobs/s", SLURM_JOBS_PER_S)
        server, fleet_cpu = cpu_seconds(skep.processes()) - cpu[0], cpu_seconds([agents]) - cpu[1]
        report("burst", "server_cpu_per_job", 1000 * server / JOBS, "ms")
        report("burst", "agent_cpu_per_job", 1000 * fleet_cpu / JOBS, "ms")


def _run(skep: Stack, name: str, jobs: int) -> None:
    _until_finished(skep, _submit(skep, name, jobs))


def _submit(skep: Stack, name: str, jobs: int) -> int:
    def some(client: int) -> int:
        with skep.api() as api:
            for number in range(client, jobs, CLIENTS):
                body = job(f"{name}-{number}", "mock run_for=0")
                api.post("/jobs", json=body).raise_for_status()
        return len(range(client, jobs, CLIENTS))

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(some, range(CLIENTS)))


def _until_finished(skep: Stack, jobs: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    with skep.api() as api:
        while _unfinished(api):
            if time.monotonic() > deadline:
                raise TimeoutError(f"some of {jobs} jobs are not finished")
            time.sleep(0.1)
        for state in ("FAILED", "STOPPED"):
            assert not api.get("/jobs", params={"state": state, "limit": 1}).json()["results"]


def _unfinished(api: httpx.Client) -> bool:
    query = {"state": "WAITING,RUNNING,STOPPING", "limit": 1}
    return bool(api.get("/jobs", params=query).raise_for_status().json()["results"])


if __name__ == "__main__":
    main()
