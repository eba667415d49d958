"""Who reaches whom."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes import docker_networks
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_engine import Engine
from skep_agent.runtimes.docker_networks import Networks

pytestmark = pytest.mark.docker

FAR, STUB, LOOPBACK = (f"nameserver {a}\n" for a in ("10.9.9.9", "127.0.0.53", "127.0.0.1"))
NEAR = f"{STUB}{LOOPBACK}"
SERVER = "echo ready; while :; do echo reached | nc -l -p 8080; done"


def _address(docker_engine, container_id: str) -> str:
    networks = docker_engine.api.inspect_container(container_id)["NetworkSettings"]["Networks"]
    return next(iter(networks.values()))["IPAddress"]


def _job_networks(docker_engine, job_id: str) -> list:
    return docker_engine.networks.list(filters={"label": f"skep.job={job_id}"})


async def _server(runtime, busybox, **fields) -> str:
    container_id = await start(runtime, make_spec(busybox, SERVER, **fields))
    async for _ in runtime.logs(container_id):
        return container_id
    raise AssertionError("the server ended")


def _client(busybox, target: str, **fields):
    return make_spec(busybox, f"nc -w 3 {target} 8080 </dev/null || echo unreachable", **fields)


async def test_tasks_of_one_job_find_each_other_by_host_name(runtime, busybox):
    job = {"job_id": str(uuid.uuid4()), "network": "job"}
    await _server(runtime, busybox, hostname="worker-0", **job)
    ended = await run(runtime, _client(busybox, "worker-0", hostname="worker-1", **job))
    assert ended.stdout == "reached\n"


async def test_host_names_with_an_underscore_are_found_too(runtime, busybox):
    job = {"job_id": str(uuid.uuid4()), "network": "job"}
    await _server(runtime, busybox, hostname="my_role-0", **job)
    ended = await run(runtime, _client(busybox, "my_role-0", hostname="my_role-1", **job))
    assert ended.stdout == "reached\n"


async def test_attack_15_another_job_is_neither_reached_nor_found(runtime, busybox, docker_engine):
    server = await _server(runtime, busybox, network="job", hostname="worker-0")
    address = _address(docker_engine, server)
    for target in (address, "worker-0"):
        ended = await run(runtime, _client(busybox, target, network="job", hostname="worker-1"))
        assert ended.stdout == "unreachable\n"


async def test_attack_15_lonely_tasks_do_not_reach_each_other(runtime, busybox, docker_engine):
    address = _address(docker_engine, await _server(runtime, busybox))
    assert (await run(runtime, _client(busybox, address))).stdout == "unreachable\n"
    ping = make_spec(busybox, f"ping -c 1 -W 2 {address} >/dev/null || echo unreachable")
    assert (await run(runtime, ping)).stdout == "unreachable\n"


async def test_attack_15_a_lonely_task_does_not_reach_a_job_nor_a_job_a_lonely_task(
    runtime, busybox, docker_engine
):
    lonely = _address(docker_engine, await _server(runtime, busybox))
    job = _address(docker_engine, await _server(runtime, busybox, network="job"))
    assert (await run(runtime, _client(busybox, job))).stdout == "unreachable\n"
    assert (await run(runtime, _client(busybox, lonely, network="job"))).stdout == "unreachable\n"


@pytest.mark.parametrize("network", ["isolated", "job"])
async def test_attack_15_what_the_node_offers_on_loopback_is_not_reached(runtime, busybox, network):
    """The agent, a one-box database and Valkey listen there; the engine on no port at all."""
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    script = (
        "gateway=$(ip route | grep default | cut -d' ' -f3);"
        f" for target in 127.0.0.1:{port} $gateway:{port} $gateway:2375 $gateway:2376; do"
        " nc -w 2 ${target%:*} ${target#*:} </dev/null 2>/dev/null && echo reached $target; done;"
        " echo done"
    )
    try:
        ended = await run(runtime, make_spec(busybox, script, network=network))
        assert ended.stdout == "done\n"
    finally:
        listener.close()


async def test_in_the_hosts_network_a_gang_uses_the_nodes_ports(runtime, busybox):
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    spec = make_spec(
        busybox,
        f"nc -w 3 127.0.0.1 {port} </dev/null && echo reached; ping -c 1 $(hostname) >/dev/null;"
        " grep $(hostname) /etc/hosts | cut -f1",
        network="host",
        hostname="worker-3",
    )
    assert (await run(runtime, spec)).stdout == "reached\n127.0.0.1\n"
    listener.close()


async def test_a_jobs_bridge_goes_with_its_last_container(runtime, busybox, docker_engine):
    job = {"job_id": str(uuid.uuid4()), "network": "job"}
    specs = [make_spec(busybox, "true", hostname=f"worker-{n}", **job) for n in range(3)]
    ids = await asyncio.gather(*(runtime.create(spec) for spec in specs))
    assert len(_job_networks(docker_engine, job["job_id"])) == 1
    for container_id in ids[:2]:
        await runtime.remove(container_id)
    assert len(_job_networks(docker_engine, job["job_id"])) == 1
    await runtime.start(ids[2])
    await runtime.remove(ids[2])
    assert _job_networks(docker_engine, job["job_id"]) == []


async def test_creating_and_removing_at_the_same_time_leaves_no_task_without_bridge(
    runtime, busybox, docker_engine
):
    job = {"job_id": str(uuid.uuid4()), "network": "job"}

    async def live(n: int) -> int:
        container_id = await start(runtime, make_spec(busybox, "exit 5", hostname=f"w-{n}", **job))
        exit = await runtime.wait(container_id)
        await runtime.remove(container_id)
        return exit.exit_code

    assert await asyncio.gather(*(live(n) for n in range(8))) == [5] * 8
    assert _job_networks(docker_engine, job["job_id"]) == []


async def test_a_node_never_removes_the_bridge_of_another_node(
    runtime, busybox, cluster, docker_engine
):
    """A retried job may be on node 2 of this engine while node 1 still cleans up."""
    job = {"job_id": str(uuid.uuid4()), "network": "job"}
    other = DockerRuntime(NodeFacts(cluster, "node-2", simulated_gpus=True))
    old = await runtime.create(make_spec(busybox, "true", **job))
    new = await other.create(make_spec(busybox, "exit 6", **job))
    await runtime.remove(old)
    await other.start(new)
    assert (await other.wait(new)).exit_code == 6
    await other.remove(new)
    await other.close()
    assert _job_networks(docker_engine, job["job_id"]) == []


async def test_a_bridge_of_a_killed_agent_goes_with_the_next_removal(
    runtime, busybox, cluster, docker_engine
):
    orphan = docker_engine.networks.create(
        "skep-job-orphan",
        labels={"skep.cluster": cluster, "skep.node": "node-1", "skep.job": "orphan"},
    )
    container_id = await runtime.create(make_spec(busybox, "true", network="job"))
    await runtime.remove(container_id)
    assert orphan.id not in [network.id for network in docker_engine.networks.list()]


async def test_several_nodes_of_one_engine_start_at_once(busybox, cluster, docker_engine):
    nodes = [DockerRuntime(NodeFacts(cluster, f"node-{n}", simulated_gpus=True)) for n in range(3)]
    specs = [make_spec(busybox, f"exit {n}") for n in range(3)]
    ids = await asyncio.gather(*(n.create(s) for n, s in zip(nodes, specs, strict=True)))
    await asyncio.gather(*(n.start(i) for n, i in zip(nodes, ids, strict=True)))
    exits = await asyncio.gather(*(n.wait(i) for n, i in zip(nodes, ids, strict=True)))
    assert [exit.exit_code for exit in exits] == [0, 1, 2]
    for node, container_id in zip(nodes, ids, strict=True):
        await node.remove(container_id)
        await node.close()


@pytest.mark.parametrize("network", ["isolated", "job"])
async def test_a_bridge_that_an_operator_pruned_is_made_again_for_the_task(
    runtime, busybox, cluster, docker_engine, network, monkeypatch
):
    """As `docker network prune` leaves it: before the task is created, and before its start."""
    monkeypatch.setattr(docker_networks, "FRESH_S", 0.0)  # as a while after the task before it

    def prune() -> int:
        found = docker_engine.networks.list(filters={"label": f"skep.cluster={cluster}"})
        for bridge in found:
            bridge.remove()
        return len(found)

    spec = make_spec(busybox, "echo before", network=network)
    assert (await run(runtime, spec)).stdout == "before\n"
    prune()
    container_id = await runtime.create(make_spec(busybox, "exit 4", network=network))
    assert prune() == 1
    await runtime.start(container_id)
    assert (await runtime.wait(container_id)).exit_code == 4


async def test_a_node_that_stops_without_containers_leaves_no_bridge(
    busybox, cluster, docker_engine
):
    node = DockerRuntime(NodeFacts(cluster, "node-9", simulated_gpus=True))
    await node.remove(await node.create(make_spec(busybox, "true")))
    await node.close()
    assert docker_engine.networks.list(filters={"label": f"skep.cluster={cluster}"}) == []


async def test_a_node_that_stops_leaves_the_bridges_of_its_tasks(busybox, cluster, docker_engine):
    node = DockerRuntime(NodeFacts(cluster, "node-9", simulated_gpus=True))
    container_id = await node.create(make_spec(busybox, "exit 8"))
    await node.close()
    again = DockerRuntime(NodeFacts(cluster, "node-9", simulated_gpus=True))
    await again.start(container_id)
    assert (await again.wait(container_id)).exit_code == 8
    await again.close()


@pytest.mark.parametrize("file", [FAR, NEAR, STUB, LOOPBACK])
async def test_lonely_tasks_ask_the_name_servers_of_the_node_where_they_reach_them(
    runtime, busybox, monkeypatch, tmp_path, file
):
    """Else the engine's own resolver, which alone reaches what listens on the node's loopback."""
    node, systemd = tmp_path / "resolv.conf", tmp_path / "systemd.conf"
    node.write_text(file)
    systemd.write_text(FAR)
    monkeypatch.setattr(docker_networks, "RESOLV_CONF", node)
    monkeypatch.setattr(docker_networks, "SYSTEMD_RESOLV_CONF", systemd)
    script = "grep nameserver /etc/resolv.conf; grep -q $(hostname) /etc/hosts && echo itself"
    ended = await run(runtime, make_spec(busybox, script))
    *servers, itself = ended.stdout.splitlines()
    assert itself == "itself"
    assert ("nameserver 127.0.0.11" in servers) == (file in (NEAR, LOOPBACK))


@pytest.mark.parametrize(("file", "with_resolver"), [(FAR, False), (LOOPBACK, True)])
async def test_a_lonely_task_reaches_no_other_and_looks_one_up_only_with_the_resolver(
    runtime, busybox, docker_engine, monkeypatch, tmp_path, file, with_resolver
):
    """The engine's resolver knows the host name and the id of each container of a bridge."""
    (tmp_path / "resolv.conf").write_text(file)
    monkeypatch.setattr(docker_networks, "RESOLV_CONF", tmp_path / "resolv.conf")
    other = await _server(runtime, busybox, hostname="worker-7")
    address = _address(docker_engine, other)
    look = "nslookup {} 2>/dev/null | sed -n '/^Name/,$s/^Address.*: *//p'"
    script = "; ".join(look.format(name) for name in ("worker-7", other[:12]))
    found = (await run(runtime, make_spec(busybox, script))).stdout.split()
    assert found == ([address, address] if with_resolver else [])
    assert (await run(runtime, _client(busybox, address))).stdout == "unreachable\n"


async def test_a_stranger_with_the_name_of_our_bridge_is_refused_and_not_used(
    busybox, cluster, docker_engine, monkeypatch, tmp_path
):
    (tmp_path / "resolv.conf").write_text(LOOPBACK)
    monkeypatch.setattr(docker_networks, "RESOLV_CONF", tmp_path / "resolv.conf")
    stranger = docker_engine.networks.create(f"skep-isolated.node-1.{cluster}")
    node = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    try:
        with pytest.raises(RuntimeFailure) as refused:
            await node.create(make_spec(busybox, "true"))
        assert refused.value.code == "create_failed"
    finally:
        await node.close()
        stranger.remove()


async def test_more_jobs_run_than_the_engine_has_subnets(cluster, docker_engine):
    """The engine's default pools give about 30 bridges."""
    engine = Engine()
    networks = Networks(engine, NodeFacts(cluster, "node-1"))
    ids = {await networks.of_job(f"job-{n}") for n in range(34)}
    assert len(ids) == 34
    assert await networks.of_job("job-33") in ids
    await networks.remove_unused()
    await engine.close()
    assert docker_engine.networks.list(filters={"label": f"skep.cluster={cluster}"}) == []
