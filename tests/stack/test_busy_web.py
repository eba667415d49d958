"""A web server that hangs costs no job anything: leases, gangs and the scheduler go on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack, stack
from tests.support.stack_jobs import gang, job, reach, submit, tasks, until

pytestmark = pytest.mark.stack

NODES, GPUS = 16, 2
LEASE_S, HEARTBEAT_S = 8.0, 1.0
BUSY_S = 2.5 * LEASE_S
OLD = "node-16"  # joined before there was a gateway: it comes by the web server
FOREVER = "mock run_for=forever"
AGES = "SELECT name, extract(epoch FROM now() - last_heartbeat_at)::float FROM cluster_node"
STATES = "SELECT name, state FROM cluster_node"
JUDGED = """
    SELECT n.name, e.kind FROM core_event e JOIN cluster_node n ON n.id::text = e.subject_id
    WHERE e.kind IN ('node.unreachable', 'node.lost')
"""


@dataclass
class Seen:
    """What a witness in the database saw, several times a second."""

    silence_s: Counter[str] = field(default_factory=Counter)  # the longest of each node
    looks: int = 0
    states: set[tuple[str, str]] = field(default_factory=set)


@contextmanager
def whole(folder: Path, lease_s: float, heartbeat_s: float) -> Iterator[tuple[Stack, LiveNodes]]:
    timing = {"SKEP_LEASE_S": str(lease_s), "SKEP_HEARTBEAT_S": str(heartbeat_s)}
    with (
        stack("--no-agents", **timing) as box,
        LiveNodes(box, folder) as nodes,
    ):
        for number in range(1, NODES + 1):
            name = f"node-{number:02}"
            nodes.add(name, "A100", GPUS, knows_gateway=name != OLD)
        with box.api() as api:
            quotas = {"quotas": {"A100": NODES * GPUS}}
            api.put("/virtual-clusters/default/quotas", json=quotas).raise_for_status()
        yield box, nodes
        with box.api() as api:
            for found in api.get("/jobs", params={"limit": 500}).json()["results"]:
                api.post(f"/jobs/{found['id']}/stop")


@pytest.fixture(scope="module")
def skep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with whole(tmp_path_factory.mktemp("nodes"), LEASE_S, HEARTBEAT_S) as (box, _):
        yield box


@pytest.fixture
def api(skep: Stack) -> Iterator[httpx.Client]:
    with skep.api() as client:
        yield client


@contextmanager
def frozen(skep: Stack) -> Iterator[None]:
    pid = skep.pids()["web"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{skep.url}/healthz", timeout=1)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        until(lambda: answers(skep))


def answers(skep: Stack) -> bool:
    try:
        return httpx.get(f"{skep.url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def watch(skep: Stack, seconds: float) -> Seen:
    """By a connection of its own: not through any server of ours."""
    seen, end = Seen(), time.monotonic() + seconds
    address = skep.database_url
    with psycopg.connect(address, autocommit=True) as witness:
        while time.monotonic() < end:
            seen.silence_s |= Counter(dict(witness.execute(AGES).fetchall()))
            seen.states |= set(witness.execute(STATES).fetchall())
            seen.looks += 1
            time.sleep(0.2)
    return seen


def running_gangs(api: httpx.Client, gangs: int) -> dict[str, list[dict[str, Any]]]:
    """Gangs of four that run for ever, by job, and what their tasks are."""
    ids = [submit(api, gang("unused", FOREVER, tasks=4, gpus=1)) for _ in range(gangs)]
    for job_id in ids:
        reach(api, job_id, {"RUNNING"})
    return {job_id: tasks(api, job_id) for job_id in ids}


def assert_untouched(api: httpx.Client, before: dict[str, list[dict[str, Any]]]) -> None:
    """The same attempts on the same nodes and GPUs, still running."""
    for job_id, was in before.items():
        now = job(api, job_id)
        assert (now["state"], now["attempt"], now["retries_used"]) == ("RUNNING", 1, 0)
        kept = [(t["attempt"]["id"], t["attempt"]["node"]) for t in tasks(api, job_id)]
        assert kept == [(t["attempt"]["id"], t["attempt"]["node"]) for t in was]


def assert_no_node_judged(skep: Stack, seen: Seen, period_s: float, lease_s: float) -> None:
    assert seen.looks > 10
    assert {state for name, state in seen.states if name != OLD} == {"ONLINE"}
    assert "LOST" not in {state for _, state in seen.states}
    assert {name for name, _ in skep.query(JUDGED)} <= {OLD}
    assert "node.lost" not in {kind for _, kind in skep.query(JUDGED)}
    # After half a lease without an answer the old node looks for the gateway.
    assert seen.silence_s.pop(OLD) < lease_s
    assert len(seen.silence_s) == NODES - 1
    # Half a lease later the agents would have asked elsewhere: the machine may be busy, too.
    assert max(seen.silence_s.values()) < period_s + lease_s / 2, seen.silence_s


def test_finding_s1_a_frozen_web_server_costs_no_node_and_no_job(skep, api):
    """What a request of 80,000 newlines did, for whatever reason: the process does not answer
    for longer than two leases."""
    gangs = running_gangs(api, 6)
    short = [submit(api, gang("unused", "mock run_for=2", tasks=4, gpus=1)) for _ in range(4)]

    with frozen(skep):
        seen = watch(skep, BUSY_S)
        # The scheduler, the agents and the gateway work on: these begin and end meanwhile.
        until(lambda: set(short) <= succeeded(skep))

    assert_no_node_judged(skep, seen, HEARTBEAT_S, LEASE_S)
    assert_untouched(api, gangs)
    for job_id in gangs:
        api.post(f"/jobs/{job_id}/stop").raise_for_status()


def succeeded(skep: Stack) -> set[str]:
    """Return the ids of jobs, read beside the web server."""
    return {id for (id,) in skep.query("SELECT id::text FROM jobs_job WHERE state = 'SUCCEEDED'")}


TEXT = {"Content-Type": "text/plain"}
HOSTILE: dict[str, dict[str, Any]] = {
    "newlines": {"method": "POST", "url": "/jobs/convert", "content": b"\n" * 80_000 + b"x: y\n"},
    "alias bomb": {
        "method": "POST",
        "url": "/jobs/convert",
        "content": b"a: &a " + b"x" * 60_000 + b"\nb: [" + b"*a, " * 20_000 + b"*a]\n",
    },
    "nested": {"method": "POST", "url": "/jobs/convert", "content": b"[" * 100_000},
    "schema": {"method": "GET", "url": "/openapi"},
    "list": {"method": "GET", "url": "/nodes", "params": {"limit": 500}},
}


def test_finding_s1_no_request_of_a_person_holds_up_a_heartbeat(skep, api):
    gangs = running_gangs(api, 2)
    over = threading.Event()

    def attack(request: dict[str, Any]) -> None:
        with skep.api() as hostile:
            while not over.is_set():
                with suppress(httpx.TransportError):
                    answer = hostile.request(**request, timeout=5, headers=TEXT)
                    assert answer.status_code not in (401, 404, 405, 415), "no attack"

    attackers = [
        threading.Thread(target=attack, args=(r,)) for r in HOSTILE.values() for _ in range(3)
    ]
    for attacker in attackers:
        attacker.start()
    try:
        seen = watch(skep, BUSY_S)
    finally:
        over.set()
        for attacker in attackers:
            attacker.join()

    assert_no_node_judged(skep, seen, HEARTBEAT_S, LEASE_S)
    until(lambda: answers(skep))
    assert_untouched(api, gangs)
    for job_id in gangs:
        api.post(f"/jobs/{job_id}/stop").raise_for_status()


@pytest.mark.long
def test_finding_s1_a_minute_without_the_web_server_at_the_usual_lease(tmp_path):
    with whole(tmp_path, 30.0, 5.0) as (box, _), box.api() as api:
        gangs = running_gangs(api, 6)
        with frozen(box):
            seen = watch(box, 60)
        assert_no_node_judged(box, seen, 5.0, 30.0)
        assert_untouched(api, gangs)
