"""A whole agent on a real engine, with a control plane that only listens and asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.docker_tasks import make_spec

from skep_agent.frames import Channel
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import FileSpec
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

Living = Callable[[], AbstractAsyncContextManager[AgentProcess]]


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    async with FakeControlPlane().running() as server:
        yield server


@pytest.fixture
def living(server: FakeControlPlane, cluster: str, tmp_path: Path) -> Living:
    """One life of the agent, each on the same containers and the same state directory."""

    @asynccontextmanager
    async def live() -> AsyncIterator[AgentProcess]:
        lives = len(server.node().hellos)
        runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True))
        agent = AgentProcess(config_for(tmp_path / "n1", server.url), runtime=runtime)
        async with agent.running():
            await server.until(lambda: len(server.node().hellos) > lives)
            yield agent

    return live


async def test_a_gang_waits_over_the_death_of_its_agent_and_then_begins(
    server: FakeControlPlane, living: Living, busybox: str
) -> None:
    hostfile = FileSpec(path="/run/skep/hostfile", content="worker-0\n")
    held = make_spec(busybox, "cat /run/skep/hostfile", files=[hostfile], desired="hold")
    key, node = held.attempt_id, server.node()
    async with living():
        await server.desire(held)
        await server.until(lambda: "ready" in node.phases(key))
    async with living():
        await server.until(lambda: node.phases(key).count("ready") == 2)
        assert "running" not in node.phases(key)
        await server.desire(held.model_copy(update={"desired": "run"}))
        await server.until(lambda: node.complete(key))
    assert node.log(key).data == b"worker-0\n"
    assert node.phases(key)[-3:] == ["running", "exited", "released"]


async def test_a_held_container_is_stopped_at_once(
    server: FakeControlPlane, living: Living, busybox: str
) -> None:
    held = make_spec(busybox, "true", desired="hold")
    async with living():
        await server.desire(held)
        await server.until(lambda: "ready" in server.node().phases(held.attempt_id))
        await server.desire(held.model_copy(update={"desired": "stop"}))
        await server.until(lambda: server.node().complete(held.attempt_id))
    assert "running" not in server.node().phases(held.attempt_id)


async def test_ten_thousand_lines_a_second_arrive_whole_over_two_deaths_of_the_agent(
    server: FakeControlPlane, living: Living, busybox: str
) -> None:
    """And what may not be shown is covered in each life, also where the agent cut in."""
    command = (
        'n=0; while [ $n -lt 60 ]; do seq $((n * 1000)) $((n * 1000 + 999)) | sed "s/^/$TOKEN /";'
        " n=$((n + 1)); sleep 0.1; done"
    )
    spec = make_spec(
        busybox,
        command.replace("sed", "busybox sed"),
        cpus=2.0,
        secret_env={"TOKEN": "s3cret"},
        masks=["s3cret"],
    )
    key, node = spec.attempt_id, server.node()
    node.specs = {key: spec}
    for least in (100_000, 300_000):
        async with living():
            await server.until(lambda least=least: len(node.log(key).data) > least)
    async with living():
        await server.until(lambda: node.complete(key), within=120)
    lines = (f"****** {number}\n" for number in range(60_000))
    assert bytes(node.log(key).data) == "".join(lines).encode()
    assert len(node.hellos) == 3


async def test_people_reach_into_a_task(
    server: FakeControlPlane, living: Living, busybox: str
) -> None:
    spec = make_spec(busybox, "echo up; sleep 600")
    async with living():
        await server.desire(spec)
        await server.until(lambda: server.node().log(spec.attempt_id).data == b"up\n")
        stream = await server.stream(spec.attempt_id, kind="exec", argv=["cat", "/proc/1/comm"])
        frames = [frame async for frame in stream]
        assert frames[0][0] == Channel.OUTPUT
        assert json.loads(frames[-1][1:]) == {"exit": 0}
        shell = await server.stream(spec.attempt_id, kind="exec", tty=True)
        await shell.send(bytes([Channel.INPUT]) + b"echo $((6 * 7)); exit 4\n")
        async with asyncio.timeout(60):
            seen = [frame async for frame in shell]
        assert b"42" in b"".join(frame[1:] for frame in seen)
        assert json.loads(seen[-1][1:]) == {"exit": 4}
