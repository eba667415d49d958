"""`queue_live`: 50,000 waiting gangs through the real server: REST, PostgreSQL, Valkey, the
scheduler's own process and mock agents. What a round costs, how long a decision takes, and the
memory of the scheduler, beside the same cluster with 500 waiting gangs.

Ten virtual clusters whose GPUs are all in use hold the queue; one more has free GPUs. Each load is
measured with the short queue first and with the long one after it:

- `idle`: nothing happens.
- `start`: jobs that find a free GPU are submitted, one after the other, and end at once.
- `join`: jobs are submitted that join the queue of a full virtual cluster.
- `next`: running jobs of full virtual clusters are stopped, and the next in their queue start.

A decision is the placement, or the reason why a job waits, as stored. Times include what else this
machine does, CPU times do not. SKEP_BENCH_GANGS=5000 chooses another length of the queue.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import psycopg
from benchmarks.jobs import job
from benchmarks.mock_agents import GPU_MODEL, fleet
from benchmarks.report import percentile, report
from benchmarks.usage import cpu_seconds, resident_mb
from prometheus_client.parser import text_string_to_metric_families
from tests.support.ports import free_ports
from tests.support.stack import Stack, descendants, stack

LONG = int(os.environ.get("SKEP_BENCH_GANGS", "50000"))
SHORT = 500
NODES, GPUS, VCS, SPARE = 32, 8, 10, 16  # GPUs of `spare`, the rest is shared by the others
OWNED = (NODES * GPUS - SPARE) // VCS
BATCH = 50  # jobs of a request
COPIED = 500  # gangs of a transaction that copies
DECISIONS = 100
HEADS = 2 * DECISIONS  # gangs of one GPU at the heads of the queues, for `next`
IDLE_S = 20
WITHIN_S = 300.0
FOREVER = "mock run_for=forever"
GOAL_S, GOAL_MB = 1.0, 500.0
# (tasks, GPUs per task), small gangs more often.
SIZES = ((1, 1), (1, 1), (1, 2), (1, 4), (2, 1), (2, 4), (1, 8), (4, 2))
LIMITS = {
    "submits_per_minute": 100_000,
    "waiting_jobs": 1_000_000,
    "jobs_per_user": 1_000_000,
    "tasks": 10_000_000,
}


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds by part, rounds of the scheduler, and the moment."""

    cpu: dict[str, float]
    rounds: float
    at: float


def main() -> None:
    port = free_ports(8)[0]
    with (
        stack("--no-agents", f"--metrics-port={port}") as skep,
        fleet(skep, NODES, GPUS),
        skep.api() as api,
        psycopg.connect(skep.database_url, autocommit=True) as database,
    ):
        bench = QueueLive(skep, api, database, port + 3)
        bench.prepare()
        for gangs in (SHORT, LONG):
            bench.fill(gangs)
            bench.measure(gangs)
        bench.say()


class QueueLive:
    """One run. `values` are those of the short queue and then of the long one, by metric."""

    def __init__(
        self, skep: Stack, api: httpx.Client, database: psycopg.Connection, metrics_port: int
    ) -> None:
        self._skep, self._api, self._database = skep, api, database
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        self._made = self._copied = 0
        self._running: list[str] = []
        self._joined: list[str] = []
        self.values: dict[tuple[str, str], list[float]] = {}

    def prepare(self) -> None:
        """Give each virtual cluster its GPUs, and fill those of all but `spare`."""
        self._api.put("/virtual-clusters/default/quotas", json={"quotas": {}}).raise_for_status()
        for name, gpus in [*((f"vc{n}", OWNED) for n in range(VCS)), ("spare", SPARE)]:
            body = {"name": name, "quotas": {GPU_MODEL: gpus}}
            self._api.post("/virtual-clusters", json=body).raise_for_status()
            for limit, value in LIMITS.items():
                path = f"/virtual-clusters/{name}/limits/{limit}"
                self._api.put(path, json={"value": value}).raise_for_status()
        files = [self._file(f"vc{n % VCS}", FOREVER, 1, 1) for n in range(OWNED * VCS)]
        self._running = self._submit(files)
        _until(lambda: self._count("placed_at IS NOT NULL") == len(files))

    def fill(self, gangs: int) -> None:
        """Let so many gangs wait, and wait until each is decided. The first ones are submitted, the
        others are copies of their rows: triggers say the same of both to the scheduler."""
        before, used = self._count(WAITING), self._used()
        if not before:
            self._submit([self._file(f"vc{n % VCS}", FOREVER, *_size(n)) for n in range(gangs)])
        while before and (more := gangs - self._count(WAITING)) > 0:
            self._copied += 1
            params = {"copy": self._copied, "most": min(more, COPIED)}
            self._database.execute(COPY, params)
        stored = time.monotonic() - used.at
        # Counting reads the whole queue: done often it would be most of what is measured here.
        _until(lambda: self._count(f"{WAITING} AND ({UNDECIDED})") == 0, every_s=1.0)
        after, made = self._used(), gangs - before
        self._note("fill_stored", "s", stored)
        self._note("fill_decided", "s", after.at - used.at)
        for part in ("scheduler", "postgres"):
            self._note(f"fill_cpu_{part}", "ms per gang", _ms(used, after, part) / made)

    def measure(self, gangs: int) -> None:
        assert self._count(WAITING) == gangs
        self._settle()
        used = self._used()
        time.sleep(IDLE_S)
        after = self._used()
        for part in ("scheduler", "postgres"):
            passed = after.at - used.at
            self._note(
                f"idle_cpu_{part}", "percent of a core", _ms(used, after, part) / passed / 10
            )
        self._decide("start", lambda n: self._start())
        self._decide("join", lambda n: self._join(n))
        self._decide("next", lambda n: self._next())
        for metric, value in resident_mb(self._pids()["scheduler"]).items():
            self._note(f"scheduler_memory_{metric}", "MiB", value)
        for made in self._joined:
            self._api.post(f"/jobs/{made}/stop").raise_for_status()
        self._joined.clear()

    def say(self) -> None:
        """Report what was measured; the reference is the short queue, or the goal."""
        goals = {"start_p99": GOAL_S, "join_p99": GOAL_S, "next_p99": GOAL_S}
        for (metric, unit), (short, long) in self.values.items():
            report("queue_live", metric, long, unit, short)
            if metric in goals:
                report("queue_live", f"{metric}_goal", long, unit, goals[metric])
            elif metric == "scheduler_memory_peak":
                report("queue_live", f"{metric}_goal", long, unit, GOAL_MB)

    def _decide(self, name: str, decide: Callable[[int], float]) -> None:
        used = self._used()
        seconds = [decide(n) for n in range(DECISIONS)]
        after = self._used()
        for percent in (50, 99):
            self._note(f"{name}_p{percent}", "s", percentile(seconds, percent))
        self._note(
            f"{name}_rounds", "rounds per decision", (after.rounds - used.rounds) / DECISIONS
        )
        for part in ("scheduler", "postgres"):
            spent = _ms(used, after, part)
            self._note(f"{name}_cpu_{part}", "ms per decision", spent / DECISIONS)
        per_round = _ms(used, after, "scheduler") / max(after.rounds - used.rounds, 1)
        self._note(f"{name}_cpu_round", "ms per round", per_round)

    def _start(self) -> float:
        """Return the seconds from the submit to the placement, by the database's clock."""
        [made] = self._submit([self._file("spare", "mock run_for=0", 1, 1)])
        placed = "SELECT extract(epoch FROM placed_at - created_at) FROM jobs_job WHERE id = %s"
        return self._answer(placed, made)

    def _join(self, number: int) -> float:
        """Return the seconds from the submit until the reason is stored, seen from here."""
        began = time.monotonic()
        [made] = self._submit([self._file(f"vc{number % VCS}", FOREVER, 1, 1)])
        self._answer(f"SELECT 1 FROM jobs_job WHERE id = %s AND NOT ({UNDECIDED})", made)
        self._joined.append(made)
        return time.monotonic() - began

    def _next(self) -> float:
        """Return the seconds from the release of a running job's GPUs until another job of its
        virtual cluster was placed, by the database's clock."""
        ended = self._running.pop(0)
        self._api.post(f"/jobs/{ended}/stop").raise_for_status()
        return self._answer(NEXT, ended)

    def _answer(self, sql: str, job_id: str) -> float:
        found: list[float] = []

        def known() -> bool:
            row = self._database.execute(sql, [job_id]).fetchone()  # type: ignore[arg-type]
            if row is not None and row[0] is not None:
                found.append(float(row[0]))
            return bool(found)

        _until(known)
        return found[0]

    def _count(self, where: str) -> int:
        sql = f"SELECT count(*) FROM jobs_job WHERE {where}"
        [(found,)] = self._database.execute(sql).fetchall()  # type: ignore[arg-type]
        return int(found)

    def _settle(self) -> None:
        """Wait until the scheduler has nothing to do: three looks find little CPU time."""
        quiet = 0
        deadline = time.monotonic() + WITHIN_S
        while quiet < 3 and time.monotonic() < deadline:
            before = self._used()
            time.sleep(2)
            after = self._used()
            quiet = quiet + 1 if _ms(before, after, "scheduler") < 200 else 0

    def _file(self, vc: str, command: str, tasks: int, gpus: int) -> str:
        self._made += 1
        made = job(f"queue-{self._made}", command, tasks=tasks, gpus=gpus)
        return json.dumps(made | {"defaults": {"virtualCluster": vc}})

    def _submit(self, files: list[str]) -> list[str]:
        made: list[str] = []
        for first in range(0, len(files), BATCH):
            body = {"files": files[first : first + BATCH]}
            answer = self._api.post("/jobs/batch", json=body).raise_for_status().json()
            assert not answer["refused"], answer["results"]
            made += [one["id"] for one in answer["results"]]
        return made

    def _note(self, metric: str, unit: str, value: float) -> None:
        self.values.setdefault((metric, unit), []).append(value)

    def _pids(self) -> dict[str, int]:
        pids = self._skep.pids()
        return pids | {"scheduler": pids["worker-scheduler"]}

    def _used(self) -> Used:
        cpu = {
            part: cpu_seconds({pid, *descendants(pid)})
            for part, pid in self._pids().items()
            if part in ("scheduler", "postgres", "web")
        }
        families = text_string_to_metric_families(httpx.get(self._metrics).text)
        rounds = sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "skep_scheduler_round_seconds_count"
        )
        return Used(cpu, rounds, time.monotonic())


COPY = """
WITH pairs AS MATERIALIZED (
    SELECT id AS old, gen_random_uuid() AS new FROM jobs_job
     WHERE state = 'WAITING' AND placed_at IS NULL AND name LIKE 'queue-%%' ORDER BY id
     LIMIT %(most)s
), made AS (
    INSERT INTO jobs_job
    SELECT (jsonb_populate_record(j, jsonb_build_object('id', new, 'created_at', clock_timestamp(),
               'name', 'copy-' || %(copy)s || '-' || j.name, 'wait_reason', NULL))).*
      FROM pairs JOIN jobs_job j ON j.id = old
), roles AS (
    INSERT INTO jobs_taskrole
    SELECT (jsonb_populate_record(r, jsonb_build_object('job_id', new, 'id',
               nextval(pg_get_serial_sequence('jobs_taskrole', 'id'))))).*
      FROM pairs JOIN jobs_taskrole r ON r.job_id = old
    RETURNING id, job_id
)
INSERT INTO jobs_task
SELECT (jsonb_populate_record(t, jsonb_build_object('job_id', new, 'role_id', roles.id,
           'id', nextval(pg_get_serial_sequence('jobs_task', 'id'))))).*
  FROM pairs JOIN jobs_task t ON t.job_id = old JOIN roles ON roles.job_id = new
"""
WAITING = "state = 'WAITING' AND placed_at IS NULL"
UNDECIDED = "wait_reason IS NULL OR wait_reason->>'code' = 'queued'"
# The first placement in its virtual cluster after the release.
NEXT = """
SELECT extract(epoch FROM min(other.placed_at) - max(a.released_at))
  FROM jobs_job ended
  JOIN jobs_taskattempt a ON a.job_id = ended.id
  JOIN jobs_job other ON other.vc_id = ended.vc_id AND other.placed_at >= a.released_at
 WHERE ended.id = %s AND a.released_at IS NOT NULL
"""


def _size(number: int) -> tuple[int, int]:
    return (1, 1) if number < HEADS else SIZES[number % len(SIZES)]


def _ms(before: Used, after: Used, part: str) -> float:
    return 1000 * (after.cpu[part] - before.cpu[part])


def _until(condition: Callable[[], bool], every_s: float = 0.02) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_S} s")
        time.sleep(every_s)


if __name__ == "__main__":
    main()
