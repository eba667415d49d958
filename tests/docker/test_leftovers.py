"""What agents that are gone left on the machine is removed, and nothing of those that live."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest
from tests.support.agent_child import AgentChild
from tests.support.agent_server import FakeControlPlane
from tests.support.docker_tasks import make_spec, purge, start
from typer.testing import CliRunner

from skep_agent import main
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.network import names
from skep_agent.network.firewall import Firewall
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_engine import Engine
from skep_agent.runtimes.docker_leftovers import Cleanup

pytestmark = pytest.mark.docker


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    async with FakeControlPlane().running() as server:
        yield server


@pytest.fixture
def gone(docker_engine: docker.DockerClient) -> Iterator[str]:
    """Another cluster than `cluster`."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    purge(docker_engine, name)


def left_of(client: docker.DockerClient, cluster: str) -> set[str]:
    """The kinds of things that are there of a cluster."""
    label = {"label": f"skep.cluster={cluster}"}
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout
    prefix = names.prefix(cluster)
    there = {
        "container": client.containers.list(all=True, filters=label, ignore_removed=True),
        "network": client.networks.list(filters=label),
        "table": names.table(cluster) in tables,
        "interface": any(name.startswith(prefix) for _, name in socket.if_nameindex()),
    }
    return {kind for kind, found in there.items() if found}


def add_table(cluster: str) -> None:
    subprocess.run(["nft", "add", "table", "inet", names.table(cluster)], check=True)


async def killed_agent(
    server: FakeControlPlane, state: Path, cluster: str, image: str, witness: docker.DockerClient
) -> None:
    """An agent that dies right after its task was over and removed."""
    agent = AgentChild(state, server.url, cluster)
    spec = make_spec(image, "true")
    node = server.node()
    node.specs = {spec.attempt_id: spec}
    try:
        agent.start()
        await server.until(lambda: node.complete(spec.attempt_id))
        assert left_of(witness, cluster) >= {"network", "table", "interface"}
    finally:
        agent.end(signal.SIGKILL)


async def test_what_a_killed_agent_left_is_removed_by_the_next_agent_of_another_cluster(
    server, engine, tmp_path, cluster, gone, busybox, docker_engine
):
    await killed_agent(server, tmp_path / "one", gone, busybox, docker_engine)
    runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True), fence=Firewall(cluster))
    # This machine has agents of others: only the test's own cluster is cleaned.
    await Cleanup(engine, clusters=[gone], min_age_s=0).run(containers=True)
    assert left_of(docker_engine, gone) == set()
    await runtime.close()


async def test_nothing_of_a_living_agent_is_removed(engine, cluster, busybox, docker_engine):
    runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True), fence=Firewall(cluster))
    await runtime.remove(await start(runtime, make_spec(busybox, "true")))
    before = left_of(docker_engine, cluster)
    assert before == {"network", "table", "interface"}
    done = await Cleanup(engine, clusters=[cluster], dry_run=True, min_age_s=0).run(containers=True)
    assert not [line for line in done if cluster in line or names.table(cluster) in line]
    await runtime.close()
    assert left_of(docker_engine, cluster) == set()


async def test_what_containers_of_a_gone_agent_need_stays_until_they_are_removed(
    engine, cluster, busybox, docker_engine
):
    runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True), fence=Firewall(cluster))
    container_id = await start(runtime, make_spec(busybox, "sleep 600"))
    await runtime.close()
    everything = {"container", "network", "table", "interface"}
    for containers in (False, True):
        found = await Cleanup(engine, clusters=[cluster], dry_run=True, min_age_s=0).run(
            containers=containers
        )
        assert not [line for line in found if cluster in line or names.table(cluster) in line]
    docker_engine.containers.get(container_id).kill()
    docker_engine.containers.get(container_id).wait()
    found = await Cleanup(engine, clusters=[cluster], dry_run=True, min_age_s=0).run()
    assert not [line for line in found if cluster in line or names.table(cluster) in line]
    found = await Cleanup(engine, clusters=[cluster], dry_run=True, min_age_s=0).run(
        containers=True
    )
    assert f"nftables table inet {names.table(cluster)}" in found
    assert any(line.startswith("network ") and cluster in line for line in found)
    assert left_of(docker_engine, cluster) == everything


def test_the_command_says_what_it_would_remove_and_removes_nothing(cluster, docker_engine):
    table = names.table(cluster)
    subprocess.run(["nft", "add", "table", "inet", table], check=True)
    answer = CliRunner().invoke(main.app, ["cleanup", "--dry-run"])
    if "older version" in answer.output:
        pytest.skip("an agent of an older version runs on this machine")
    assert answer.exit_code == 0
    assert f"would remove nftables table inet {table}" in answer.stdout
    assert left_of(docker_engine, cluster) == {"table"}


def test_the_command_removes_what_one_cluster_left_and_nothing_of_another(
    cluster, gone, busybox, docker_engine
):
    for name in (cluster, gone):
        add_table(name)
        docker_engine.containers.create(busybox, "true", labels={"skep.cluster": name})
    answer = CliRunner().invoke(main.app, ["cleanup", "--containers", "--cluster", gone])
    assert answer.exit_code == 0, answer.output
    assert left_of(docker_engine, gone) == set()
    assert left_of(docker_engine, cluster) == {"container", "table"}


async def test_a_table_is_not_removed_by_an_agent_before_it_had_no_owner_for_long(
    engine, cluster, docker_engine
):
    """Its agent may be about to begin, or be one that carries no mark."""
    add_table(cluster)
    seen: dict[str, float] = {}
    await Cleanup(engine, clusters=[cluster], unowned_since=seen, min_age_s=600).run()
    assert left_of(docker_engine, cluster) == {"table"}
    seen[names.table(cluster)] -= 601
    await Cleanup(engine, clusters=[cluster], unowned_since=seen, min_age_s=600).run()
    assert left_of(docker_engine, cluster) == set()


async def test_nothing_of_others_is_removed_while_an_agent_without_a_mark_runs(
    engine, tmp_path, cluster, docker_engine
):
    add_table(cluster)
    (tmp_path / "skep-agent").write_text("import time; time.sleep(600)")
    old = await asyncio.create_subprocess_exec(sys.executable, tmp_path / "skep-agent", "run")
    try:
        with pytest.raises(RuntimeFailure, match="older version"):
            await Cleanup(engine, dry_run=True).run()
    finally:
        old.kill()
        await old.wait()
    assert left_of(docker_engine, cluster) == {"table"}
