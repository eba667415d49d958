"""The network of a gang over several nodes of one machine: its agents share the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.docker_tasks import Ended, run, start
from tests.support.gangs import gang_spec, make_gang

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.network import names
from skep_agent.network.firewall import Firewall
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

NODES = {"node-1": "127.0.0.1", "node-2": "127.0.0.1"}
SERVER = "echo ready; while :; do echo reached | nc -l -p 8080; done"


@pytest.fixture
async def nodes(cluster: str) -> AsyncIterator[dict[str, DockerRuntime]]:
    runtimes = {
        name: DockerRuntime(NodeFacts(cluster, name, simulated_gpus=True), fence=Firewall(cluster))
        for name in NODES
    }
    yield runtimes
    for runtime in runtimes.values():
        await runtime.close()
    process = await asyncio.create_subprocess_exec(
        "nft", "delete", "table", "inet", names.table(cluster)
    )
    await process.wait()


async def _serve(runtime: DockerRuntime, spec) -> str:
    container_id = await start(runtime, spec)
    async for _ in runtime.logs(container_id):
        return container_id
    raise AssertionError("the server ended")


def _client(gang, busybox: str, target: str):
    return gang_spec(gang, "worker-1", busybox, f"nc -w 3 {target} 8080 </dev/null || echo not")


async def test_tasks_on_two_nodes_of_one_engine_find_each_other(nodes, busybox, docker_engine):
    gang = make_gang(NODES)
    server = await _serve(nodes["node-1"], gang_spec(gang, "worker-0", busybox, SERVER))
    for target in ("worker-0", gang.nodes[0].tasks["worker-0"]):
        ended = await run(nodes["node-2"], _client(gang, busybox, target))
        assert ended.stdout == "reached\n"
    assert await nodes["node-1"].address(server) == gang.nodes[0].tasks["worker-0"]


async def test_finding_s5_two_gangs_on_the_same_nodes_do_not_reach_each_other(nodes, busybox):
    mine, theirs = make_gang(NODES), make_gang(NODES)
    await _serve(nodes["node-1"], gang_spec(theirs, "worker-0", busybox, SERVER))
    target = theirs.nodes[0].tasks["worker-0"]
    ended: Ended = await run(nodes["node-2"], _client(mine, busybox, target))
    assert ended.stdout == "not\n"


async def test_the_bridge_of_a_gang_goes_with_its_last_container_on_any_node(
    nodes, busybox, docker_engine
):
    gang = make_gang(NODES)
    first = await nodes["node-1"].create(gang_spec(gang, "worker-0", busybox, "true"))
    second = await nodes["node-2"].create(gang_spec(gang, "worker-1", busybox, "exit 7"))
    await nodes["node-1"].remove(first)
    await nodes["node-2"].start(second)
    assert (await nodes["node-2"].wait(second)).exit_code == 7
    await nodes["node-2"].remove(second)
    filters = {"label": f"skep.gang={gang.vni}"}
    assert docker_engine.networks.list(filters=filters) == []


async def test_creating_and_removing_on_several_nodes_at_once_leaves_no_task_without_bridge(
    nodes, busybox
):
    gang = make_gang(NODES, tasks=3)

    async def live(node: str, hostname: str) -> int:
        runtime = nodes[node]
        container_id = await start(runtime, gang_spec(gang, hostname, busybox, "exit 5"))
        exit = await runtime.wait(container_id)
        await runtime.remove(container_id)
        return exit.exit_code

    lives = [live(node.name, hostname) for node in gang.nodes for hostname in node.tasks]
    assert await asyncio.gather(*lives) == [5] * 6


async def test_a_subnet_that_the_engine_uses_already_is_refused_in_words(
    nodes, busybox, docker_engine
):
    gang = make_gang(NODES)
    in_the_way = gang.model_copy(update={"vni": gang.vni + 1})
    await _serve(nodes["node-1"], gang_spec(in_the_way, "worker-0", busybox, SERVER))
    with pytest.raises(RuntimeFailure) as refused:
        await nodes["node-1"].create(gang_spec(gang, "worker-0", busybox, "true"))
    assert refused.value.code == "network_unavailable"


async def test_finding_s5_without_a_fence_no_network_leaves_the_machine(cluster, busybox):
    """VXLAN from anybody would be let in."""
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    gang = make_gang({"node-1": "127.0.0.1", "node-2": "198.51.100.7"})
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(gang_spec(gang, "worker-0", busybox, "true"))
    assert refused.value.code == "network_unavailable"
    assert not DockerRuntime(NodeFacts(cluster, "n", address="198.51.100.7")).gang_network
    await runtime.close()
