"""What containers reach on a node and beyond it, with the rules in force."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.config import own_address
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.network import names
from skep_agent.network.firewall import Firewall, rules_generation
from skep_agent.protocol import NetworkPolicy
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


@pytest.fixture
def table(cluster: str) -> Iterator[str]:
    name = names.table(cluster)
    yield name
    _nft("delete", "table", "inet", name, check=False)


@pytest.fixture
async def fenced(cluster: str, table: str) -> AsyncIterator[DockerRuntime]:
    fence = Firewall(cluster, "https://192.0.2.77")
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), fence=fence)
    yield runtime
    await runtime.close()


@asynccontextmanager
async def _service() -> AsyncIterator[int]:
    """On every address of the node, as a careless admin starts one."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "0.0.0.0", 0) as server:
        yield server.sockets[0].getsockname()[1]


def _probe(busybox: str, targets: str, port: int, **fields):
    script = (
        "gateway=$(ip route | grep default | cut -d' ' -f3);"
        f" for a in {targets}; do nc -w 2 $a {port} </dev/null 2>/dev/null && echo at $a; done;"
        " echo done"
    )
    return make_spec(busybox, script, **fields)


@pytest.mark.parametrize("network", ["isolated", "job"])
async def test_15_finding_s12_services_of_the_node_are_not_reached_from_a_bridge(
    fenced, busybox, network
):
    """At any address of it: that of the bridge, its own, that of another bridge, loopback."""
    addresses = f"$gateway {own_address('http://198.51.100.1')} 172.17.0.1 127.0.0.1 0.0.0.0"
    async with _service() as port:
        ended = await run(fenced, _probe(busybox, addresses, port, network=network))
    assert ended.stdout == "done\n"


async def test_finding_s14_sockets_of_a_task_do_not_take_those_of_a_service_of_its_node(
    fenced, busybox
):
    """Idle connections filled the one-box database; now not one of them arrives."""
    arrived = 0

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        arrived += 1

    async with await asyncio.start_server(count, "0.0.0.0", 0) as server:
        port = server.sockets[0].getsockname()[1]
        node = own_address("http://198.51.100.1")
        script = (
            "for n in $(seq 30); do sleep 5 | nc -w 2 $(ip route | grep default | cut -d' ' -f3)"
            f" {port} & sleep 5 | nc -w 2 {node} {port} & done; wait; echo tried"
        )
        spec = make_spec(busybox, script, pids_limit=512)
        assert (await run(fenced, spec)).stdout == "tried\n"
    assert arrived == 0


async def test_finding_s12_a_job_talks_within_its_bridge_and_its_node_reaches_it(fenced, busybox):
    job = {"job_id": str(uuid.uuid4()), "network": "job"}
    serve = "echo ready; while :; do echo reached | nc -l -p 8080; done"
    server = await start(fenced, make_spec(busybox, serve, hostname="worker-0", **job))
    async for _ in fenced.logs(server):
        break
    ended = await run(fenced, make_spec(busybox, "nc -w 3 worker-0 8080", **job))
    assert ended.stdout == "reached\n"
    # As `skep port-forward` does.
    address = await fenced.address(server)
    assert address
    reader, writer = await asyncio.open_connection(address, 8080)
    assert await reader.read() == b"reached\n"
    writer.close()


async def test_finding_s12_flushed_rules_are_back_before_anything_starts(fenced, busybox, table):
    """Whatever of them went: all, a rule, or an element of a set."""
    for damage in (
        ("delete", "table", "inet", table),
        ("flush", "chain", "inet", table, "input"),
        ("delete", "element", "inet", table, "closed", "{ 169.254.0.0/16 }"),
        ("add", "element", "inet", table, "allowed", "{ 10.0.0.0/8 }"),
        ("insert", "rule", "inet", table, "input", "accept"),
    ):
        container_id = await fenced.create(_probe(busybox, "$gateway", 1))
        before = _nft("list", "table", "inet", table)
        _nft(*damage)
        await fenced.start(container_id)
        assert _nft("list", "table", "inet", table) == before
        await fenced.remove(container_id)


async def test_finding_s12_without_rules_nothing_is_created_or_started(
    fenced, busybox, monkeypatch, tmp_path, table
):
    container_id = await fenced.create(make_spec(busybox, "true"))
    _nft("delete", "table", "inet", table)
    monkeypatch.setenv("PATH", str(tmp_path))  # where no nft is
    for refused in (fenced.create(make_spec(busybox, "true")), fenced.start(container_id)):
        with pytest.raises(RuntimeFailure) as failure:
            await refused
        assert failure.value.code == "network_unavailable"
        assert "nft" in failure.value.message
    broken = tmp_path / "nft"
    broken.write_text("#!/bin/sh\necho 'Operation not permitted (you must be root)' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RuntimeFailure, match="must be root"):
        await fenced.start(container_id)


async def test_finding_s12_rules_in_another_namespace_than_the_bridges_count_for_nothing(
    fenced, busybox, monkeypatch
):
    """An agent in a container of its own network: its rules would match nothing."""
    absent = OSError(19, "No such device")
    monkeypatch.setattr(socket, "if_nametoindex", lambda _: (_ for _ in ()).throw(absent))
    with pytest.raises(RuntimeFailure) as failure:
        await fenced.create(make_spec(busybox, "true"))
    assert failure.value.code == "network_unavailable"
    assert "namespace" in failure.value.message


async def test_rules_that_stand_are_not_listed_again_for_each_start(
    fenced, busybox, monkeypatch, tmp_path, table
):
    """The kernel says that no table of the machine changed since."""
    wrapper, calls = tmp_path / "nft", tmp_path / "calls"
    wrapper.write_text(f'#!/bin/sh\necho >>{calls}\nexec {shutil.which("nft")} "$@"\n')
    wrapper.chmod(0o755)
    await start(fenced, make_spec(busybox, "true"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def calls_of_one_start() -> int:
        before, generation = _lines(calls), rules_generation()
        await start(fenced, make_spec(busybox, "true"))
        # Another agent of this machine, or the engine, may change rules of its own meanwhile.
        return _lines(calls) - before if rules_generation() == generation else -1

    counts = [await calls_of_one_start() for _ in range(10)]
    assert 0 in counts[1:]
    _nft("delete", "table", "inet", table)
    await start(fenced, make_spec(busybox, "true"))
    assert table in _nft("list", "tables")


async def test_finding_s12_a_new_policy_is_in_force_before_the_next_task(fenced, busybox, table):
    container_id = await fenced.create(make_spec(busybox, "true"))
    fenced.use_network_policy(
        NetworkPolicy(denied=["198.51.100.0/24"], allowed=["10.9.0.0/16", "10.1.1.1:2049"])
    )
    await fenced.start(container_id)
    listing = _nft("list", "table", "inet", table)
    for element in ("198.51.100.0/24", "10.9.0.0/16", "10.1.1.1 . 2049", "192.0.2.77"):
        assert element in listing


async def test_an_agent_that_leaves_takes_its_rules_unless_bridges_need_them(
    cluster, busybox, table
):
    node = NodeFacts(cluster, "node-1", simulated_gpus=True)
    runtime = DockerRuntime(node, fence=Firewall(cluster))
    container_id = await runtime.create(make_spec(busybox, "true"))
    await runtime.close()
    assert table in _nft("list", "tables")
    runtime = DockerRuntime(node, fence=Firewall(cluster))
    await runtime.remove(container_id)
    await runtime.close()
    assert table not in _nft("list", "tables")


async def test_a_policy_that_says_things_twice_is_taken(fenced, busybox):
    nodes = ["10.0.0.4", "10.0.0.4/32", "10.0.0.0/24"]
    allowed = ["10.0.0.0/8", "10.1.0.0/16", "10.0.0.5:80", "10.0.0.5:80", "10.0.0.5:443"]
    allowed.append("0.0.0.0/0")
    fenced.use_network_policy(NetworkPolicy(denied=nodes, allowed=allowed))
    assert (await run(fenced, make_spec(busybox, "true"))).exit.exit_code == 0


async def test_finding_s12_a_policy_that_cannot_be_read_opens_nothing(fenced, busybox, table):
    fenced.use_network_policy(NetworkPolicy(allowed=["10.9.0.0/16", "accept; flush ruleset"]))
    await run(fenced, make_spec(busybox, "true"))
    assert "10.9.0.0/16" not in _nft("list", "table", "inet", table)


async def test_finding_s12_a_bridge_without_the_name_that_rules_match_is_not_used(
    fenced, busybox, cluster, docker_engine
):
    """Such as an agent made that had no rules yet."""
    labels = {"skep.cluster": cluster, "skep.node": "node-1", "skep.isolated": "yes"}
    old = docker_engine.networks.create("skep-isolated-old", labels=labels)
    container_id = await fenced.create(make_spec(busybox, "true"))
    networks = docker_engine.api.inspect_container(container_id)["HostConfig"]["NetworkMode"]
    assert networks != old.id


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _nft(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["nft", *arguments], check=check, capture_output=True, text=True).stdout
