"""A real Prometheus that scrapes a whole Skep, and alerts that fire on faults that were made."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.ship.test_monitoring import RULES, named_series
from tests.support import components
from tests.support.ports import free_port, free_ports
from tests.support.stack import Stack, eventually, stack

pytestmark = pytest.mark.stack

PROCESSES = ("web", "gateway", "apps", "worker-scheduler", "worker-default", "agent-node-1")


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
    """Prometheus with our rules, which wait for seconds where they else wait for minutes."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    hurried = re.sub(r"for: \d+m", "for: 1s", RULES.read_text())
    (folder / "rules.yaml").write_text(hurried.replace("> 60) or", "> 5) or"))
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
        with httpx.Client(base_url=f"http://{listen}/api/v1", timeout=20) as client:
            eventually(lambda: len(up(client)) == len(PROCESSES), 60)
            yield client
    finally:
        process.terminate()
        process.wait(timeout=20)


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
    alerts = client.get("/alerts").json()["data"]["alerts"]
    return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}


def test_every_series_that_rules_and_dashboards_ask_for_is_served(skep, ports):
    # The first samples of the agent arrive some seconds after the node.
    missing: set[str] = set()

    def is_whole() -> bool:
        missing.clear()
        missing.update(named_series() - served(skep, ports))
        return not missing

    eventually(is_whole, 60, lambda: f"missing: {sorted(missing)}")


def served(skep: Stack, ports: list[int]) -> set[str]:
    """Return the names of the series of all processes and of a virtual cluster."""
    names: set[str] = set()
    for port in ports:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        for family in text_string_to_metric_families(text):
            names.add(family.name)
            names.update(f"{family.name}{end}" for end in ("_total", "_bucket", "_sum", "_count"))
    with skep.api() as api:
        text = api.get("/virtual-clusters/default/metrics").text
    return names | {family.name for family in text_string_to_metric_families(text)}


def test_a_healthy_cluster_wakes_no_one(prometheus):
    eventually(lambda: not firing(prometheus), 60)


def test_a_bad_gpu_fires_with_its_xid(skep, prometheus):
    (state,) = skep.home.nodes.iterdir()
    with skep.api() as api:
        (node,) = api.get("/nodes").json()["results"]
        uuid = api.get(f"/nodes/{node['name']}").json()["gpus"][0]["uuid"]
    faults = state / "gpu-faults.json"
    faults.write_text(json.dumps({uuid: {"problem": "XID 79: fallen off the bus", "ecc": 2}}))
    wanted = {"SkepGpuUnhealthy", "SkepGpuErrors", "SkepGpuEccErrors"}
    eventually(lambda: wanted <= firing(prometheus), 60)
    faults.unlink()
    eventually(lambda: "SkepGpuUnhealthy" not in firing(prometheus), 60)


def test_a_scheduler_that_hangs_fires(skep, prometheus):
    pid = skep.pids()["worker-scheduler"]
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: "SkepSchedulerStopped" in firing(prometheus), 60)
        assert "SkepProcessDown" in firing(prometheus)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: "SkepSchedulerStopped" not in firing(prometheus), 60)


@pytest.mark.long
def test_a_gateway_that_hangs_fires(skep, prometheus):
    pid = skep.pids()["gateway"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wanted = {"SkepAgentDisconnected", "SkepProcessDown"}
        eventually(lambda: wanted <= firing(prometheus), 90)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: "SkepAgentDisconnected" not in firing(prometheus), 90)


@pytest.mark.long
def test_an_empty_redis_that_is_away_fires(skep, prometheus):
    pid = skep.pids()["valkey"]
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: "SkepRedisAway" in firing(prometheus), 90)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: "SkepRedisAway" not in firing(prometheus), 90)
