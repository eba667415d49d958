"""A real Prometheus that scrapes a whole Skep, and each alert rule that fires on a fault that is
made."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.ship.test_monitoring import ROOT, RULES, alerts, named_series
from tests.support import components
from tests.support.ports import free_port, free_ports
from tests.support.stack import JOB, Stack, descendants, eventually, stack

pytestmark = pytest.mark.stack

PROCESSES = ("web", "gateway", "apps", "worker-scheduler", "worker-default", "agent-node-1")
# The alerts of each fault. A rule that is in none of them was never seen to fire.
BAD_GPUS = {"SkepGpuUnhealthy", "SkepGpuErrors", "SkepGpuEccErrors", "SkepGpuHot", "SkepRuleFires"}
SCHEDULER_HANGS = {"SkepSchedulerStopped", "SkepProcessDown", "SkepTasksPileUp"}
WEB_HANGS = {"SkepNoWebServer", "SkepProcessDown"}
GATEWAY_HANGS = {"SkepAgentDisconnected", "SkepProcessDown"}
REDIS_HANGS = {"SkepRedisAway", "SkepHealth"}
DATABASE_HANGS = {"SkepDatabaseAway"}
DATABASE_REFUSES = {"SkepDatabaseAway", "SkepRequestsFail"}
TABLE_MISSING = {"SkepTasksFail", "SkepRequestsFail"}
TABLE_LOCKED = {"SkepSchedulerSlow", "SkepRequestsSlow", "SkepTasksLate", "SkepDatabasePoolFull"}
AGENT_HANGS = {"SkepNoAgents", "SkepNodesUnreachable", "SkepQuotaNotMet"}
USER_WAITS = {"SkepUserUnfair"}
FAULTS = (
    *(BAD_GPUS, SCHEDULER_HANGS, WEB_HANGS, GATEWAY_HANGS, REDIS_HANGS, DATABASE_HANGS),
    *(DATABASE_REFUSES, TABLE_MISSING, TABLE_LOCKED, AGENT_HANGS, USER_WAITS),
)
WINDOW_S = 20
# No round ended and no task began within the whole window: whatever waits has waited for so long
# (tasks and ticks are sent every 2 s), and what came before is not in the window any more.
STANDSTILL = " + ".join(
    f"sum(increase({series}[{WINDOW_S}s]))"
    for series in (
        "skep_scheduler_round_seconds_count",
        'skep_task_lag_seconds_count{queue="default"}',
    )
)
# What takes minutes to come about, and is the same after seconds.
LOWER = {
    "SkepSchedulerStopped": ("> 60) or", "> 5) or"),  # seconds without a round
    "SkepTasksPileUp": ("> 500", "> 3"),  # messages; beat sends one every 2 s
    "SkepTasksLate": ("> 30", "> 3"),  # seconds
}


def hurried(rules: str) -> str:
    """Return our rules with seconds where they wait, or look back, for minutes and longer."""
    rules = re.sub(r"for: \d+[md]", "for: 1s", rules)
    rules = re.sub(r"\[\d+m\]", f"[{WINDOW_S}s]", rules)
    for alert, (usual, lower) in LOWER.items():
        head, tail = rules.split(f"alert: {alert}\n")
        assert usual in tail.split("\n")[0], alert
        rules = f"{head}alert: {alert}\n{tail.replace(usual, lower, 1)}"
    return rules


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports(len(PROCESSES))


@pytest.fixture(scope="module")
def skep(ports: list[int]) -> Iterator[Stack]:
    with stack(
        "--nodes=1",
        "--gpus=2",
        "--runtime=mock",
        f"--metrics-port={ports[0]}",
        SKEP_HEARTBEAT_S="1",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(skep: Stack, ports: list[int], tmp_path_factory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (folder / "rules.yaml").write_text(hurried(RULES.read_text()))
    scrape = {
        "job_name": "skep",
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
    }
    config = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    listen = f"127.0.0.1:{free_port()}"
    program = [
        components.prometheus("prometheus"),
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={listen}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(program, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://{listen}/api/v1", timeout=60) as client:
            eventually(lambda: len(up(client)) == len(PROCESSES), 180)
            yield client
    finally:
        process.terminate()
        process.wait(timeout=60)


def up(client: httpx.Client) -> set[str]:
    """Which targets answer."""
    try:
        answer = client.get("/query", params={"query": "up == 1"})
    except httpx.TransportError:
        return set()
    if not answer.is_success:  # it still reads its own state
        return set()
    return {each["metric"]["instance"] for each in answer.json()["data"]["result"]}


def firing(client: httpx.Client) -> set[str]:
    found = client.get("/alerts").json()["data"]["alerts"]
    return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}


def value(client: httpx.Client, query: str) -> float | None:
    """Return the only number that a query has, if any."""
    found = client.get("/query", params={"query": query}).json()["data"]["result"]
    return float(found[0]["value"][1]) if found else None


def fires(client: httpx.Client, wanted: set[str], within_s: float = 120) -> None:
    """Wait until each of these has fired, if not all at the same time."""
    seen: set[str] = set()

    def have() -> bool:
        seen.update(firing(client))
        return wanted <= seen

    eventually(have, within_s, lambda: f"missing: {sorted(wanted - seen)}", every_s=0.3)


def ends(client: httpx.Client, wanted: set[str], within_s: float = 180) -> None:
    """Wait until none of these fires."""
    found: set[str] = set()

    def over() -> bool:
        found.clear()
        found.update(wanted & firing(client))
        return not found

    eventually(over, within_s, lambda: f"still: {sorted(found)}", every_s=0.3)


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """A process that neither works nor ends: its connections stay open."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def asked(skep: Stack, path: str, clients: int) -> Iterator[None]:
    """So many clients ask the web server, each again when it was answered."""
    over = threading.Event()

    def ask() -> None:
        with skep.api() as api:
            while not over.is_set():
                with suppress(httpx.TransportError):
                    api.get(path)
                over.wait(0.2)

    with ThreadPoolExecutor(clients) as pool:
        try:
            for _ in range(clients):
                pool.submit(ask)
            yield
        finally:
            over.set()


def test_each_rule_has_a_fault_and_is_in_the_table_of_the_docs():
    rules = {rule["alert"] for rule in alerts()}
    assert set().union(*FAULTS) == rules
    text = (ROOT / "docs/observability.md").read_text()
    assert {name for name in rules if f"`{name}`" not in text} == set()


def test_every_series_that_rules_and_dashboards_ask_for_is_served(skep, ports):
    # The first samples of the agent arrive some seconds after the node.
    missing: set[str] = set()

    def is_whole() -> bool:
        missing.clear()
        missing.update(named_series() - served(skep, ports))
        return not missing

    eventually(is_whole, 180, lambda: f"missing: {sorted(missing)}")


def served(skep: Stack, ports: list[int]) -> set[str]:
    """Return the names of the series of all processes and of a virtual cluster."""
    names: set[str] = set()
    for port in ports:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        for family in text_string_to_metric_families(text):
            names.add(family.name)
            names.update(f"{family.name}{end}" for end in ("_total", "_bucket", "_sum", "_count"))
    with skep.api() as api:
        text = api.get("/virtual-clusters/default/metrics").text
    return names | {family.name for family in text_string_to_metric_families(text)}


def test_a_healthy_cluster_wakes_no_one(prometheus):
    eventually(lambda: not firing(prometheus), 180)


@pytest.mark.long
def test_bad_and_hot_gpus_fire_until_they_are_repaired(skep, prometheus):
    (state,) = skep.home.nodes.iterdir()
    with skep.api() as api:
        (node,) = api.get("/nodes").json()["results"]
        bad, hot = (gpu["uuid"] for gpu in api.get(f"/nodes/{node['name']}").json()["gpus"])
        # A rule of Skep's own, whose alerts Prometheus gets, too: looked at each minute.
        rule = {"name": "bad at once", "kind": "bad_node", "for_minutes": 0}
        api.post("/alert-rules", json=rule).raise_for_status()
    faults = state / "gpu-faults.json"
    off_the_bus = {"problem": "XID 79: fallen off the bus", "ecc": 2}
    faults.write_text(json.dumps({bad: off_the_bus, hot: {"temperature_c": 95}}))
    fires(prometheus, BAD_GPUS)
    faults.unlink()
    ends(prometheus, BAD_GPUS - {"SkepGpuErrors"})
    assert "SkepGpuErrors" in firing(prometheus), "an XID that was seen is not forgotten"
    skep.kill("agent-node-1")
    ends(prometheus, BAD_GPUS)


@pytest.mark.parametrize(
    ("process", "wanted"),
    [
        ("worker-scheduler", SCHEDULER_HANGS),
        pytest.param("web", WEB_HANGS, marks=pytest.mark.long),
        pytest.param("gateway", GATEWAY_HANGS, marks=pytest.mark.long),
        pytest.param("valkey", REDIS_HANGS, marks=pytest.mark.long),
        # Its node is lost when its lease is over; use of virtual clusters is sampled each minute.
        pytest.param("agent-node-1", AGENT_HANGS, marks=pytest.mark.long),
    ],
)
def test_a_process_that_hangs_fires(skep, prometheus, process, wanted):
    ends(prometheus, wanted)
    with frozen(skep.pids()[process]):
        fires(prometheus, wanted, 240)
    ends(prometheus, wanted)


@pytest.mark.long
def test_a_database_that_hangs_fires(skep, prometheus):
    """It takes what it is sent and answers nothing: no statement fails."""
    ends(prometheus, DATABASE_HANGS)
    postmaster = skep.pids()["postgres"]
    with frozen(postmaster, *descendants(postmaster)):
        fires(prometheus, DATABASE_HANGS)
    ends(prometheus, DATABASE_HANGS)


@pytest.mark.long
def test_a_database_that_refuses_connections_fires(skep, prometheus):
    ends(prometheus, DATABASE_REFUSES)
    with away(skep), asked(skep, "/jobs", 2):
        fires(prometheus, DATABASE_REFUSES)
    ends(prometheus, DATABASE_REFUSES)


@contextmanager
def away(skep: Stack) -> Iterator[None]:
    """The database ends all connections and accepts none."""
    other = skep.database_url.replace("/postgres?", "/template1?")
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        try:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"
            )
            yield
        finally:
            connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS true")


@pytest.mark.long
def test_a_table_that_is_missing_fires(skep, prometheus):
    """As when an upgrade did not apply its migrations."""
    ends(prometheus, TABLE_MISSING)
    with psycopg.connect(skep.database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE simulations_simulation RENAME TO missing")
        try:
            with asked(skep, "/simulations", 1):
                fires(prometheus, TABLE_MISSING)
        finally:
            connection.execute("ALTER TABLE missing RENAME TO simulations_simulation")
    ends(prometheus, TABLE_MISSING)


@pytest.mark.long
def test_a_session_that_keeps_tables_locked_fires(skep, prometheus):
    """Rounds, tasks and requests wait for it, and more requests than the pool has connections."""
    ends(prometheus, TABLE_LOCKED)
    # It has to lead: one that stands by after another fault begins no round.
    skep.wait_for_end(skep.submit(name="first", command="mock run_for=0.1").id)
    with psycopg.connect(skep.database_url) as connection, asked(skep, "/jobs", 24):
        # In the order in which Skep locks them.
        connection.execute("LOCK TABLE jobs_job, scheduling_change IN ACCESS EXCLUSIVE MODE")
        fires(prometheus, {"SkepDatabasePoolFull"})
        eventually(lambda: value(prometheus, STANDSTILL) == 0, 120)
        connection.rollback()
        # What waited is measured when it is over.
        fires(prometheus, TABLE_LOCKED - {"SkepDatabasePoolFull"})
    ends(prometheus, TABLE_LOCKED)


@pytest.mark.long
def test_a_user_who_waits_long_for_a_short_job_fires(skep, prometheus):
    """The GPUs are all held by a job of another user meanwhile."""
    fields = {"image": "unused", "tasks": 1}
    login = {"username": "bob", "password": "a-long-password-of-tests"}
    with skep.api() as api:
        api.post("/users", json=login).raise_for_status()
        member = api.put("/virtual-clusters/default/members/bob", json={"role": "member"})
        member.raise_for_status()
        answer = api.post("/auth/token", json=login | {"name": "laptop"}).raise_for_status()
        bob = {"Authorization": f"Bearer {answer.json()['token']}", "Content-Type": "text/yaml"}
        all_gpus = skep.submit(name="long", command="mock run_for=10", gpus=2)
        skep.wait_for_job(all_gpus.id, lambda job: job.state == "RUNNING")
        short = JOB.format(name="short", command="mock run_for=1", gpus=1, **fields)
        waits = api.post("/jobs", content=short, headers=bob).raise_for_status().json()
    skep.wait_for_end(waits["id"])

    def measured() -> bool:
        skep.run_tasks("skep.cells.measure_fairness")  # beat sends it once an hour
        return firing(prometheus) >= USER_WAITS

    eventually(measured, 180, every_s=2)
