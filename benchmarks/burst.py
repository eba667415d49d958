"""`burst`: 1,000 one-GPU jobs through REST, Celery and WebSockets to mock containers, until all are
finished. 16 nodes of 8 GPUs; everything on this machine, the submitting program included.

The reference is a real Slurm on this machine, where it is installed (`benchmarks.slurm`): as many
jobs by `sbatch`, from as many clients, on a node with as many CPUs as there are GPUs. It runs
before Skep and after it, and the faster run counts, so that other work on the machine favours
Slurm. Its jobs are processes that run `true`, and Skep's are mock containers.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
from benchmarks import slurm
from benchmarks.jobs import job
from benchmarks.mock_agents import fleet
from benchmarks.report import report
from benchmarks.usage import cpu_seconds
from tests.support.stack import Stack, stack

JOBS, CLIENTS = 1_000, 4
NODES, GPUS = 16, 8
WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class BurstFigures:
    """Jobs per second, and milliseconds of CPU time for each job."""

    submitted: float
    finished: float
    server_cpu_ms: float
    agent_cpu_ms: float


def main() -> None:
    slurms = [_slurm()]
    ours = _skep()
    slurms.append(_slurm())
    reference = max((found for found in slurms if found), key=lambda s: s.finished, default=None)
    accepted, finished = (reference.submitted, reference.finished) if reference else (None, None)
    report("burst", "submitted", ours.submitted, "jobs/s", accepted)
    report("burst", "finished", ours.finished, "jobs/s", finished)
    report("burst", "server_cpu_per_job", ours.server_cpu_ms, "ms")
    report("burst", "agent_cpu_per_job", ours.agent_cpu_ms, "ms")
    if reference:
        report("burst", "slurmctld_cpu_per_job", reference.controller_cpu_ms, "ms")


def _slurm() -> slurm.SlurmFigures | None:
    """Return what Slurm does, or None where it is not installed."""
    if without := slurm.missing():
        message = f"no Slurm to compare with: {', '.join(without)} missing; install"
        print(f"{message} {slurm.PACKAGES}", file=sys.stderr)
        return None
    return slurm.measure(JOBS, CLIENTS, NODES * GPUS)


def _skep() -> BurstFigures:
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
        server, fleet_cpu = cpu_seconds(skep.processes()) - cpu[0], cpu_seconds([agents]) - cpu[1]
    return BurstFigures(
        JOBS / accepted, JOBS / elapsed, 1000 * server / JOBS, 1000 * fleet_cpu / JOBS
    )


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
