"""A live run of jobs on simulated nodes, with all that its replay needs: what was asked for, from
the database when each attempt was placed, ran and was clean, what happened to nodes, as it is
exported for the simulator, and when the scheduler planned."""

from __future__ import annotations

import csv
import json
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import httpx
import redis
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack
from tests.support.stack_jobs import ENDED, gang, job, submit, until

from skep_platform.core import notifications

NODES, GPUS = 4, 8
VCS = ("default", "vision")
DRAINED = "node-1"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that is submitted at a second of the run. `fails`: at the end of each attempt."""

    at_s: float
    gpus: int
    run_s: float
    fails: bool
    vc: str
    borrows: bool


def asked(seed: int, jobs: int, load: float) -> list[Asked]:
    """Return jobs of 20 to 60 s on 1 to 16 GPUs, half of them in each virtual cluster. Every fifth
    is opportunistic, and every sixth fails and is tried again once. Together they ask for `load`
    of the GPUs."""
    random = Random(seed)
    sizes = [random.choice((1, 1, 2, 2, 4, 4, 8, 8, 16)) for _ in range(jobs)]
    lengths = [round(random.uniform(20, 60), 1) for _ in range(jobs)]
    fails = [number % 6 == 5 for number in range(jobs)]
    work = sum(
        size * length * (1 + failing)
        for size, length, failing in zip(sizes, lengths, fails, strict=True)
    )
    gap_s = work / (NODES * GPUS * load) / jobs
    times = [0.0, *accumulate(random.expovariate(1 / gap_s) for _ in range(jobs - 1))]
    return [
        Asked(at, size, length, failing, random.choice(VCS), number % 5 == 4)
        for number, (at, size, length, failing) in enumerate(
            zip(times, sizes, lengths, fails, strict=True)
        )
    ]


class Ticks(threading.Thread):
    """Notes when the scheduler planned (seconds since the epoch), to a tenth of a second."""

    def __init__(self, skep: Stack) -> None:
        super().__init__(daemon=True)
        url = json.loads(skep.home.environment.read_text())["SKEP_REDIS_URL"]
        self._broker = redis.Redis.from_url(url)
        self._over = threading.Event()
        self.moments: list[float] = []

    def run(self) -> None:
        while not self._over.wait(0.05):
            if text := self._broker.get(notifications.LAST_TICK):
                moment = float(text)
                if moment not in self.moments[-1:]:
                    self.moments.append(moment)

    def stop(self) -> list[float]:
        self._over.set()
        self.join()
        self._broker.close()
        return self.moments


def run_live(skep: Stack, folder: Path, jobs: list[Asked], policy: str) -> dict[str, Any]:
    """Submit the jobs at their times, and drain a node for a fifth of that time. Return the record
    of the run once all have ended."""
    last_s = jobs[-1].at_s
    moments: list[tuple[float, int | str]] = [(one.at_s, n) for n, one in enumerate(jobs)]
    moments += [(last_s * 0.4, "drain"), (last_s * 0.6, "undrain")]
    ids: dict[int, str] = {}
    since = datetime.now(UTC).isoformat()
    with LiveNodes(skep, folder) as nodes, skep.api() as api:
        prepare(api, nodes, policy)
        ticks = Ticks(skep)
        ticks.start()
        began = time.monotonic()
        for at_s, what in sorted(moments, key=lambda moment: moment[0]):
            time.sleep(max(began + at_s - time.monotonic(), 0))
            if isinstance(what, str):
                api.post(f"/nodes/{DRAINED}/{what}", json={}).raise_for_status()
            else:
                ids[what] = submit(api, job_file(jobs[what], what))
        for known in ids.values():
            until(lambda known=known: job(api, known)["state"] in ENDED, 600)
        events = api.get("/simulations/node-events", params={"since": since}).raise_for_status()
        moments_of_ticks = ticks.stop()
    return {
        "policy": policy,
        "asked": [asdict(one) for one in jobs],
        "ids": [ids[number] for number in range(len(jobs))],
        "node_events": list(csv.DictReader(events.text.splitlines())),
        "ticks": moments_of_ticks,
        **facts(skep),
    }


def prepare(api: httpx.Client, nodes: LiveNodes, policy: str) -> None:
    """Add the nodes, of which the virtual clusters own equal parts, and give them the policy."""
    for number in range(NODES):
        nodes.add(f"node-{number}", "A100", GPUS)
    known = api.get("/virtual-clusters").raise_for_status().json()["results"]
    chosen = {"policy": {"name": policy, "parameters": {}}}
    for vc in VCS:
        if vc not in {row["name"] for row in known}:
            api.post("/virtual-clusters", json={"name": vc}).raise_for_status()
        quotas = {"quotas": {"A100": NODES * GPUS // len(VCS)}}
        api.put(f"/virtual-clusters/{vc}/quotas", json=quotas).raise_for_status()
        limit = f"/virtual-clusters/{vc}/limits/submits_per_minute"
        api.put(limit, json={"value": 1000}).raise_for_status()
        api.patch(f"/virtual-clusters/{vc}", json=chosen).raise_for_status()


def job_file(one: Asked, number: int) -> dict[str, Any]:
    per_task = min(one.gpus, GPUS)
    # No two commands are the same, so that durations are as declared and not predicted.
    word = LETTERS[number // 26] + LETTERS[number % 26]
    extras: dict[str, Any] = {"skep": {"duration": round(one.run_s), "stopGrace": 1}}
    if one.borrows:
        extras["hivedScheduler"] = {"jobPriorityClass": "oppo"}
    file = gang(
        "unused",
        f"mock run_for={one.run_s} exit_code={int(one.fails)}",
        tasks=one.gpus // per_task,
        gpus=per_task,
        extras=extras,
        defaults={"virtualCluster": one.vc},
    )
    file["name"] = f"job-{word}"
    file["jobRetryCount"] = int(one.fails)
    file["taskRoles"]["worker"]["commands"].insert(0, f": {word}")
    return file


def facts(skep: Stack) -> dict[str, list[dict[str, Any]]]:
    """Return jobs and their attempts as the database has them; times are seconds since the
    epoch."""
    return {
        "jobs": [row[0] for row in skep.query(JOBS)],
        "attempts": [row[0] for row in skep.query(ATTEMPTS)],
    }


JOBS = """
SELECT json_build_object('id', id, 'state', state, 'retries', retries_used,
    'preemptions', preemptions, 'submitted', extract(epoch FROM created_at),
    'ended', extract(epoch FROM finished_at)) FROM jobs_job ORDER BY created_at
"""
# `clean`: when the last of its GPUs was.
ATTEMPTS = """
SELECT json_build_object('job', a.job_id, 'index', a.index, 'outcome', a.outcome,
    'placed', extract(epoch FROM a.placed_at), 'judged', extract(epoch FROM a.finished_at),
    'leave_s', a.leave_s, 'clean', extract(epoch FROM max(t.released_at)), 'tasks', count(*))
  FROM jobs_jobattempt a
  JOIN jobs_taskattempt t ON t.job_id = a.job_id AND t.index = a.index
 GROUP BY a.id ORDER BY a.placed_at
"""
