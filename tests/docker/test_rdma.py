"""InfiniBand devices on a real engine; character devices stand for those of an adapter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pytest
from tests.support import components
from tests.support.docker_tasks import make_spec, run

from skep_agent.accelerators.rdma import FOLDER, rdma_devices
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import EngineFacts, ImageFacts, NodeFacts, check_spec, create_call
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

LOOK = "ls /dev/infiniband; echo x > /dev/infiniband/uverbs0 && echo open; ulimit -l; ulimit -n"


@pytest.fixture
def adapter() -> Iterator[None]:
    if os.geteuid() or FOLDER.exists():
        reason = "needs root, and a machine without an adapter"
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
    FOLDER.mkdir()
    names = ("uverbs0", "uverbs1", "rdma_cm", "umad0", "issm0")
    for name in names:
        os.mknod(FOLDER / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (FOLDER / "uverbs9").symlink_to("/dev/mem")
    yield
    for entry in FOLDER.iterdir():
        entry.unlink()
    FOLDER.rmdir()


@pytest.fixture
async def node(adapter: None, cluster: str):
    runtime = DockerRuntime(
        NodeFacts(cluster, "node-1", simulated_gpus=True, rdma_devices=rdma_devices())
    )
    yield runtime
    await runtime.close()


async def test_finding_j6_a_task_that_asks_gets_what_the_agent_found_and_locked_memory(
    node, busybox
):
    # Lower than any machine's own: not every test machine may raise it.
    ulimits = {"nofile": 512, "memlock": 32768}
    result = await run(node, make_spec(busybox, LOOK, rdma=True, ulimits=ulimits))
    assert result.stdout.split() == ["rdma_cm", "uverbs0", "uverbs1", "open", "32", "512"]


def test_finding_j6_locked_memory_has_no_limit_of_its_own_where_devices_are_granted():
    devices = (f"{FOLDER}/uverbs0",)
    node = NodeFacts("hive", "node-1", rdma_devices=devices)
    call = create_call(
        make_spec("image", "true", rdma=True),
        node,
        EngineFacts(8, True),
        ImageFacts("sha256:" + "a" * 64),
        "network",
    )
    host = call.body["HostConfig"]
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in host["Ulimits"]
    assert "IPC_LOCK" in host["CapAdd"]
    assert [device["PathOnHost"] for device in host["Devices"]] == list(devices)


@pytest.mark.parametrize("path", ["/dev/mem", "/dev/infiniband/../mem", "/dev/infiniband/umad0"])
def test_finding_j6_no_other_device_is_ever_given(path):
    node = NodeFacts("hive", "node-1", rdma_devices=(path,))
    spec, facts = make_spec("image", "true", rdma=True), ImageFacts("sha256:" + "a" * 64)
    with pytest.raises(RuntimeFailure, match="not an InfiniBand device"):
        create_call(spec, node, EngineFacts(8, True), facts, "network")


async def test_finding_j6_others_get_nothing(node, busybox):
    result = await run(node, make_spec(busybox, "ls /dev/infiniband || echo none; ulimit -l"))
    assert result.stdout.split()[0] == "none"
    assert result.stdout.split()[1] != "unlimited"


async def test_finding_j6_a_node_without_an_adapter_refuses(runtime, busybox):
    with pytest.raises(RuntimeFailure, match="no InfiniBand devices"):
        await runtime.create(make_spec(busybox, "true", rdma=True))


def test_finding_j6_only_devices_of_verbs_are_found(adapter):
    assert rdma_devices() == tuple(f"{FOLDER}/{n}" for n in ("rdma_cm", "uverbs0", "uverbs1"))


@pytest.mark.parametrize(
    "ulimits",
    [
        {"memlock": -1},
        {"memlock": 2**40},
        {"nofile": 2**21},
        {"nofile": 0},
        {"nofile": -1},
        {"stack": 2**40},
        {"core": -1},
        {"nproc": 10},
        {"rtprio": 99},
    ],
)
def test_finding_j6_limits_beyond_the_tasks_own_memory_are_refused(ulimits):
    with pytest.raises(RuntimeFailure, match="limit"):
        check_spec(make_spec("image", "true", ulimits=ulimits))
    check_spec(make_spec("image", "true", rdma=True, ulimits={"memlock": -1, "stack": -1}))
