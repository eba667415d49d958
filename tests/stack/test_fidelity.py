"""A live run on simulated nodes is replayed by the simulator: the same jobs end at the same times.

Both drive `engine.plan`; what can differ is what the simulator leaves out of the live one. Jobs
of several sizes arrive at random, shorter ones preempt longer ones (SRTF), and what a preempted job
did is lost. Every fifth fails and is retried, and fails for good at the end of its second attempt.
The time that a start and a leave take is measured in the run and given to the replay,
as the median over all jobs (SCHEDULING.md section 7).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack, stack
from tests.support.stack_jobs import ENDED, gang, job, submit, until

from skep_platform.jobs.lifecycle.decisions import backoff_s
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.workload import TraceJob, gangs_of, nodes_of, virtual_clusters

pytestmark = [pytest.mark.stack, pytest.mark.long]

NODES, GPUS = 4, 8
JOBS = 48
FAILS = 5  # every fifth job
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def skep() -> Iterator[Stack]:
    at_once = {"SKEP_SCHEDULING_MIN_RUN_S": "0", "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "0"}
    with stack("--no-agents", SKEP_HEARTBEAT_S="1", **at_once) as started:
        yield started


@dataclass(frozen=True, slots=True)
class Asked:
    after_s: float  # the job before it
    gpus: int
    run_s: float
    fails: bool


def asked(seed: int) -> list[Asked]:
    """Jobs of 10 to 40 s on 1 to 16 GPUs that ask for three quarters of the cluster."""
    random = Random(seed)
    sizes = [random.choice((1, 1, 2, 2, 4, 4, 8, 8, 16)) for _ in range(JOBS)]
    lengths = [round(random.uniform(10, 40), 1) for _ in range(JOBS)]
    work = sum(size * length for size, length in zip(sizes, lengths, strict=True))
    gap = work / (NODES * GPUS * 0.75) / JOBS
    return [
        Asked(random.expovariate(1 / gap), size, length, number % FAILS == FAILS - 1)
        for number, (size, length) in enumerate(zip(sizes, lengths, strict=True))
    ]


def run_live(api: httpx.Client, jobs: list[Asked]) -> list[str]:
    """Submit the jobs at their times, and return their ids once all have ended."""
    ids, at = [], time.monotonic()
    for number, one in enumerate(jobs):
        at += one.after_s
        time.sleep(max(at - time.monotonic(), 0))
        per_task = min(one.gpus, GPUS)
        # No two commands are the same, so that durations are as declared and not predicted.
        word = LETTERS[number // 26] + LETTERS[number % 26]
        extras = {"skep": {"duration": round(one.run_s), "stopGrace": 1}}
        file = gang(
            "unused",
            f"mock run_for={one.run_s} exit_code={int(one.fails)}",
            tasks=one.gpus // per_task,
            gpus=per_task,
            extras=extras,
        )
        file["name"] = f"job-{word}"
        file["jobRetryCount"] = int(one.fails)
        file["taskRoles"]["worker"]["commands"].insert(0, f": {word}")
        ids.append(submit(api, file))
    for known in ids:
        until(lambda known=known: job(api, known)["state"] in ENDED, 600)
    return ids


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_replay_ends_jobs_when_the_live_run_did(skep: Stack, tmp_path: Path) -> None:
    wanted = asked(seed=5)
    with LiveNodes(skep, tmp_path) as nodes, skep.api() as api:
        for number in range(NODES):
            nodes.add(f"node-{number}", "A100", GPUS)
        quotas = {"quotas": {"A100": NODES * GPUS}}
        api.put("/virtual-clusters/default/quotas", json=quotas).raise_for_status()
        limit = "/virtual-clusters/default/limits/submits_per_minute"
        api.put(limit, json={"value": 1000}).raise_for_status()
        policy = {"policy": {"name": "srtf", "parameters": {}}}
        api.patch("/virtual-clusters/default", json=policy).raise_for_status()
        ids = run_live(api, wanted)
        live = [job(api, known) for known in ids]
    for one, of in zip(live, wanted, strict=True):
        assert (one["state"], one["retries_used"]) == (("SUCCEEDED", 0), ("FAILED", 1))[of.fails]
    assert sum(one["preemptions"] for one in live) > 0

    # From its place to its first line, and from its last one to clean GPUs.
    held = [seconds(one["finished_at"]) - seconds(one["placed_at"]) for one in live]
    overhead = statistics.median(
        time_held - one.run_s for time_held, one in zip(held, wanted, strict=True)
    )
    replayed = replay(live, wanted, overhead)
    times = [seconds(one["finished_at"]) - seconds(one["submitted_at"]) for one in live]
    started = min(seconds(one["submitted_at"]) for one in live)
    makespan = max(seconds(one["finished_at"]) for one in live) - started
    expected = figures(times, makespan)
    found = figures(replayed.times, replayed.makespan)
    report = {
        "overhead_s": round(overhead, 2),
        "live": expected,
        "replayed": found,
        "preemptions": [sum(one["preemptions"] for one in live), replayed.preemptions],
    }
    print(report)
    assert found == pytest.approx(expected, rel=0.05), report
    allowed = max(2, 0.1 * report["preemptions"][0])
    assert abs(report["preemptions"][0] - replayed.preemptions) <= allowed, report


def figures(times: list[float], makespan: float) -> dict[str, float]:
    """Not those of single jobs: where an end comes half a second later, another job may be chosen,
    and from then on both runs preempt other jobs."""
    return {"mean_jct_s": statistics.mean(times), "makespan_s": makespan}


@dataclass(frozen=True, slots=True)
class Replayed:
    times: list[float]  # from submission to end, in the order of the jobs
    makespan: float
    preemptions: int


def replay(live: list[dict[str, Any]], wanted: list[Asked], overhead: float) -> Replayed:
    """Run the jobs as they were submitted on a simulated cluster of the same shape."""
    start = seconds(live[0]["submitted_at"])
    trace = [
        TraceJob(f"job-{i:03}", seconds(one["submitted_at"]) - start, round(of.run_s), of.gpus)
        for i, (one, of) in enumerate(zip(live, wanted, strict=True))
    ]
    nodes = nodes_of(f"{NODES}x{GPUS}xA100")
    vcs = virtual_clusters(nodes, (), PolicyChoice("srtf", ()))
    options = replace(DEFAULTS, min_run_s=0.0, opportunistic_min_run_s=0.0)
    cluster = SimulatedCluster(nodes, vcs, options, grace_s=overhead)
    for known, asked_for in zip(gangs_of(trace, nodes, vcs), wanted, strict=True):
        cluster.lifetimes[known.id] = asked_for.run_s + overhead
        if asked_for.fails:
            cluster.failures[known.id] = [cluster.lifetimes[known.id]]
        cluster.submit_later(known)
    cluster.retry_delay_s = backoff_s
    cluster.run_to_end()
    results = sorted(cluster.outcome().jobs, key=lambda one: one.id)
    preemptions = sum(one.preemptions for one in results)
    return Replayed([one.jct_s for one in results], cluster.now, preemptions)
