"""`gang`: a gang of 16 nodes x 8 GPUs, from the submit until every agent has taken it up.

Taken up: the server has stored that the node prepares its task. Beside it, the same 16 tasks as 16
jobs of their own.
"""

from __future__ import annotations

import time

import httpx
from benchmarks.jobs import Witness, job, wait_for, witness
from benchmarks.mock_agents import fleet
from benchmarks.report import percentile, report
from tests.support.stack import stack

NODES, GPUS, ROUNDS = 16, 8, 20
TAKEN_UP = """
SELECT count(*) FROM jobs_taskattempt
 WHERE job_id = ANY(%s::uuid[]) AND state IN ('PREPARING', 'RUNNING')
"""


def main() -> None:
    with (
        stack("--no-agents") as skep,
        fleet(skep, NODES, GPUS),
        skep.api() as api,
        witness(skep) as seen,
    ):
        gangs = [_round(api, seen, f"gang-{n}", 1, NODES) for n in range(ROUNDS)]
        singles = [_round(api, seen, f"single-{n}", NODES, 1) for n in range(ROUNDS // 4)]
    for percent in (50, 99):
        reference = percentile(singles, percent)
        report("gang", f"submit_to_all_told_p{percent}", percentile(gangs, percent), "s", reference)


def _round(api: httpx.Client, seen: Witness, name: str, jobs: int, tasks: int) -> float:
    """Seconds until all tasks of all jobs were taken up by their nodes."""
    start = time.perf_counter()
    ids = []
    for number in range(jobs):
        body = job(f"{name}-{number}", "mock run_for=600", tasks=tasks, gpus=GPUS)
        ids.append(api.post("/jobs", json=body).raise_for_status().json()["id"])
    seen.wait(TAKEN_UP, jobs * tasks, ids)
    elapsed = time.perf_counter() - start
    for job_id in ids:
        api.post(f"/jobs/{job_id}/stop").raise_for_status()
    for job_id in ids:
        wait_for(api, job_id, {"STOPPED"})
    _until_free(api)
    return elapsed


def _until_free(api: httpx.Client) -> None:
    while any(m["used"] for m in api.get("/cluster").raise_for_status().json()["gpus"].values()):
        time.sleep(0.05)


if __name__ == "__main__":
    main()
