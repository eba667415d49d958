"""`burst`: 1,000 one-GPU jobs through REST, Celery and WebSockets to mock containers, until all are
finished; then as many by one request. 16 nodes of 8 GPUs; everything on this machine, the
submitting program included. It counts the CPU time of each part of the server, the statements
that PostgreSQL is sent and the bytes between the parts, heartbeats and periodic work included;
`cpu_without_jobs` is what these alone take in the same time.
SKEP_BENCH_STATEMENTS=20 prints the 20 most frequent statements, too.

The reference is a real Slurm on this machine, where it is installed (`benchmarks.slurm`): as many
jobs by `sbatch`, from as many clients, on a node with as many CPUs as there are GPUs. It runs
before Skep and after it, and the faster run counts, so that other work on the machine favours
Slurm. Its jobs are processes that run `true`, and Skep's are mock containers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
from benchmarks import slurm
from benchmarks.jobs import job
from benchmarks.mock_agents import fleet
from benchmarks.parts import (
    CONTROL,
    FOREIGN_KEY,
    bytes_so_far,
    cores_by_part,
    count_statements,
    cpu_by_part,
    statements,
)
from benchmarks.report import report
from benchmarks.usage import cpu_seconds
from tests.support.stack import Stack, stack

JOBS, CLIENTS = 1_000, 4
NODES, GPUS = 16, 8
WITHIN_S = 300
PRINTED = int(os.environ.get("SKEP_BENCH_STATEMENTS", "0"))
IDLE_S = 10.0
LOOK_S = 0.5  # each look costs the web server a request


@dataclass(frozen=True, slots=True)
class BurstFigures:
    """Jobs per second; milliseconds of CPU time for each job, of the server by part, and what the
    server takes without jobs in the time of one; how many statements of which text each job needs.
    """

    submitted: float
    submitted_at_once: float  # in one request
    finished: float
    server_cpu_ms: dict[str, float]
    without_jobs_ms: float
    agent_cpu_ms: float
    statements: dict[str, float]
    bytes_sent: dict[str, float]  # by way, of each job


def main() -> None:
    slurms = [_slurm()]
    ours = _skep()
    slurms.append(_slurm())
    reference = max((found for found in slurms if found), key=lambda s: s.finished, default=None)
    accepted, finished = (reference.submitted, reference.finished) if reference else (None, None)
    report("burst", "submitted", ours.submitted, "jobs/s", accepted)
    report("burst", "submitted_at_once", ours.submitted_at_once, "jobs/s", accepted)
    report("burst", "finished", ours.finished, "jobs/s", finished)
    for part, cpu in ours.server_cpu_ms.items():
        report("burst", f"cpu_per_job_{part}", cpu, "ms")
    report("burst", "server_cpu_per_job", sum(ours.server_cpu_ms.values()), "ms")
    report("burst", "cpu_without_jobs", ours.without_jobs_ms, "ms")
    report("burst", "agent_cpu_per_job", ours.agent_cpu_ms, "ms")
    _report_statements(ours.statements)
    for way, size in ours.bytes_sent.items():
        report("burst", f"bytes_per_job_{way}", size, "B")
    if reference:
        report("burst", "slurmctld_cpu_per_job", reference.controller_cpu_ms, "ms")


def _report_statements(sent: dict[str, float]) -> None:
    control = sum(calls for query, calls in sent.items() if query.startswith(CONTROL))
    keys = sum(calls for query, calls in sent.items() if query.startswith(FOREIGN_KEY))
    report("burst", "statements_per_job", sum(sent.values()) - control - keys, "statements")
    report("burst", "transaction_control_per_job", control, "statements")
    report("burst", "foreign_keys_checked_per_job", keys, "keys")
    for query in sorted(sent, key=sent.__getitem__, reverse=True)[:PRINTED]:
        print(f"{sent[query]:8.3f}  {' '.join(query.split())[:160]}", file=sys.stderr)


def _slurm() -> slurm.SlurmFigures | None:
    """Return what Slurm does, or None where it is not installed."""
    if without := slurm.missing():
        message = f"no Slurm to compare with: {', '.join(without)} missing; install"
        print(f"{message} {slurm.PACKAGES}", file=sys.stderr)
        return None
    return slurm.measure(JOBS, CLIENTS, NODES * GPUS)


def _skep() -> BurstFigures:
    with _counted() as skep, fleet(skep, NODES, GPUS) as agents:
        with skep.api() as api:  # one user submits all: more than the default limit allows
            limit = "/virtual-clusters/default/limits/submits_per_minute"
            api.put(limit, json={"value": 100_000}).raise_for_status()
        _run(skep, "warm", 50)
        idle = sum(cores_by_part(skep, IDLE_S).values())
        before = cpu_by_part(skep), cpu_seconds(agents), statements(skep), bytes_so_far(skep)
        start = time.perf_counter()
        submitted = _submit(skep, "burst", JOBS)
        accepted = time.perf_counter() - start
        _until_finished(skep, submitted)
        elapsed = time.perf_counter() - start
        after = cpu_by_part(skep), cpu_seconds(agents), statements(skep), bytes_so_far(skep)
        start = time.perf_counter()
        submitted = _submit_at_once(skep, "batch", JOBS)
        at_once = time.perf_counter() - start
        _until_finished(skep, submitted)
    return BurstFigures(
        submitted=JOBS / accepted,
        submitted_at_once=JOBS / at_once,
        finished=JOBS / elapsed,
        server_cpu_ms={p: 1000 * (cpu - before[0][p]) / JOBS for p, cpu in after[0].items()},
        without_jobs_ms=1000 * idle * elapsed / JOBS,
        agent_cpu_ms=1000 * (after[1] - before[1]) / JOBS,
        statements={q: (calls - before[2].get(q, 0)) / JOBS for q, calls in after[2].items()},
        bytes_sent={way: (size - before[3][way]) / JOBS for way, size in after[3].items()},
    )


@contextmanager
def _counted() -> Iterator[Stack]:
    with stack("--no-agents") as skep:
        count_statements(skep)
        yield skep


def _run(skep: Stack, name: str, jobs: int) -> None:
    _until_finished(skep, _submit(skep, name, jobs))


def _submit(skep: Stack, name: str, jobs: int) -> int:
    def some(client: int) -> int:
        numbers = range(client, jobs, CLIENTS)
        _post(skep, "/jobs", (job(f"{name}-{n}", "mock run_for=0") for n in numbers))
        return len(numbers)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(some, range(CLIENTS)))


def _submit_at_once(skep: Stack, name: str, jobs: int) -> int:
    files = [json.dumps(job(f"{name}-{n}", "mock run_for=0")) for n in range(jobs)]
    [answer] = _post(skep, "/jobs/batch", [{"files": files}])
    assert answer["accepted"] == jobs, answer
    return jobs


def _post(skep: Stack, path: str, bodies: Iterable[Any]) -> list[Any]:
    """Send these bodies over one connection, and return the answers. With the standard library
    alone: users are elsewhere, and this program has the same cores as the server."""
    address = urlsplit(skep.url)
    headers = {"Authorization": f"Bearer {skep.token}", "Content-Type": "application/json"}
    connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
    answers = []
    for body in bodies:
        connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        answers.append(json.loads(text))
    connection.close()
    return answers


def _until_finished(skep: Stack, jobs: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    with skep.api() as api:
        while _unfinished(api):
            if time.monotonic() > deadline:
                raise TimeoutError(f"some of {jobs} jobs are not finished")
            time.sleep(LOOK_S)
        for state in ("FAILED", "STOPPED"):
            assert not api.get("/jobs", params={"state": state, "limit": 1}).json()["results"]


def _unfinished(api: httpx.Client) -> bool:
    query = {"state": "WAITING,RUNNING,STOPPING", "limit": 1}
    return bool(api.get("/jobs", params=query).raise_for_status().json()["results"])


if __name__ == "__main__":
    main()
