"""What needs an engine of its own: NVIDIA's hook, and an engine that dies."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.docker_daemon import Daemon
from tests.support.docker_images import import_busybox
from tests.support.docker_tasks import make_spec, purge, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

IMAGE = "skep-test/busybox:second"
GREEDY = "skep-test/greedy:1"
MINE = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555"]


@pytest.fixture(scope="module")
def daemon(docker_engine) -> Iterator[Daemon]:
    # Not pytest's folder: the path of a unix socket has to be short.
    folder = Path(tempfile.mkdtemp(prefix="skepd-", dir="/tmp"))
    daemon = Daemon(folder)
    try:
        daemon.start()
        client = daemon.client()
        import_busybox(client, IMAGE)
        import_busybox(client, GREEDY, ("ENV NVIDIA_VISIBLE_DEVICES=all LD_PRELOAD=./poc.so",))
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def node(daemon) -> AsyncIterator[DockerRuntime]:
    """A node with real GPUs, as far as the agent knows."""
    cluster = f"test-{uuid.uuid4().hex[:12]}"
    runtime = DockerRuntime(NodeFacts(cluster, "node-1"), str(daemon.socket))
    yield runtime
    await runtime.close()
    purge(daemon.client(), cluster)


def hook_environment(daemon: Daemon, container_id: str) -> dict[str, str] | None:
    """What the hook would have acted on; None when it was not called."""
    record = daemon.hooked / f"{container_id}.json"
    if not record.exists():
        return None
    seen = json.loads(record.read_text())
    assert seen["arguments"] == ["prestart"]
    # The hook takes the last of two values of a name.
    return dict(entry.split("=", 1) for entry in seen["env"])


async def run_and_see(node, daemon, spec) -> tuple[str, dict[str, str] | None]:
    container_id = await start(node, spec)
    await node.wait(container_id)
    output = b"".join([data async for _, data, _ in node.logs(container_id)])
    return output.decode(), hook_environment(daemon, container_id)


async def test_attack_07_the_hook_gets_exactly_the_leased_uuids(node, daemon):
    spec = make_spec(GREEDY, "echo $NVIDIA_VISIBLE_DEVICES", network="host", gpu_uuids=MINE)
    output, hooked = await run_and_see(node, daemon, spec)
    assert output == ",".join(MINE) + "\n"
    assert hooked["NVIDIA_VISIBLE_DEVICES"] == ",".join(MINE)
    assert set(hooked["NVIDIA_DRIVER_CAPABILITIES"].split(",")) == {"compute", "utility"}
    assert hooked["LD_PRELOAD"] == ""


async def test_attack_06_a_task_without_gpus_does_not_meet_the_hook(node, daemon):
    spec = make_spec(GREEDY, "echo $NVIDIA_VISIBLE_DEVICES", network="host")
    output, hooked = await run_and_see(node, daemon, spec)
    assert output == "void\n"
    assert hooked is None


async def test_every_hole_is_closed_before_the_hook(node, daemon):
    _, hooked = await run_and_see(
        node, daemon, make_spec(GREEDY, "true", network="host", gpu_uuids=MINE[:1])
    )
    opened = {
        name: value
        for name, value in hooked.items()
        if name.startswith(("NVIDIA_", "LD_")) and value
    }
    assert opened.keys() == {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


async def test_a_node_without_the_hook_says_that_its_gpus_cannot_be_had(cluster, busybox):
    runtime = DockerRuntime(NodeFacts(cluster, "node-1"))
    container_id = await runtime.create(make_spec(busybox, "true", gpu_uuids=MINE))
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.start(container_id)
    assert refused.value.code == "gpu_unavailable"
    await runtime.close()


async def test_a_killed_engine_loses_no_exit_and_no_byte(node, daemon):
    script = "until [ -e /tmp/end ]; do i=$((i + 1)); echo line $i; sleep 0.1; done; exit 9"
    spec = make_spec(IMAGE, script, network="host")
    container_id = await start(node, spec)
    waiting = asyncio.create_task(node.wait(container_id))
    output, begun = bytearray(), asyncio.Event()

    async def read() -> None:
        async for _, data, _ in node.logs(container_id):
            output.extend(data)
            if b"line 5\n" in output:
                begun.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), 60)
    daemon.kill()
    with pytest.raises(RuntimeFailure) as down:
        await node.list()
    assert down.value.code == "engine_down"
    await asyncio.to_thread(daemon.start)
    client = daemon.client()
    client.containers.get(container_id).exec_run("touch /tmp/end")
    client.close()
    assert (await asyncio.wait_for(waiting, 60)).exit_code == 9
    await asyncio.wait_for(reading, 60)
    lines = output.decode().splitlines()
    assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]
    assert [container.exit.exit_code for container in await node.list()] == [9]


async def test_a_task_that_ends_while_the_engine_is_dead_is_seen_to_end(node, daemon):
    container_id = await start(node, make_spec(IMAGE, "sleep 2; exit 3", network="host"))
    waiting = asyncio.create_task(node.wait(container_id))
    pid = daemon.client().api.inspect_container(container_id)["State"]["Pid"]
    daemon.kill()
    await wait_until_gone(pid)
    await asyncio.to_thread(daemon.start)
    assert (await asyncio.wait_for(waiting, 60)).exit_code in (3, 137)
    ended = await run(node, make_spec(IMAGE, "echo again", network="host"))
    assert ended.stdout == "again\n"


async def wait_until_gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.05)


async def test_an_engine_that_ends_containers_with_itself_is_warned_of(
    node: DockerRuntime, docker_engine
) -> None:
    assert await node.warnings() == []  # it has --live-restore
    plain = DockerRuntime(NodeFacts("test", "node-1"))
    try:
        codes = [one.code for one in await plain.warnings()]
    finally:
        await plain.close()
    assert codes == ([] if docker_engine.info()["LiveRestoreEnabled"] else ["live_restore_off"])
