"""What containers keep on the node's disk: limits, and a disk that is full."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import components
from tests.support.docker_proxy import Proxy, unix_proxy
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import Exit
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import AttemptSpec
from skep_agent.runtimes import docker_disk
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_disk import Excess, Use, judgement
from skep_agent.runtimes.docker_node import FULL_BYTES, is_full

pytestmark = pytest.mark.docker


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Small, and of its own."""
    if os.geteuid():
        (pytest.fail if components.must_be_complete() else pytest.skip)("needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={FULL_BYTES + 2 * 1024 * 1024},nr_inodes=20"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_is_full_of_bytes_or_of_files(disk: Path) -> None:
    assert not is_full(str(disk))
    (disk / "big").write_bytes(bytes(4 * 1024 * 1024))
    assert is_full(str(disk))
    (disk / "big").unlink()
    assert not is_full(str(disk))
    for number in range(19):
        (disk / str(number)).touch()
    assert is_full(str(disk))


def test_a_disk_that_cannot_be_seen_is_not_called_full() -> None:
    assert not is_full("/no/such/folder")
    assert not is_full("")


@pytest.fixture
def measured_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_disk, "LOOK_S", 0.1)
    monkeypatch.setattr(docker_disk, "MEASURE_S", 0.1)
    monkeypatch.setattr(docker_disk, "BLIND_MEASURE_S", 0.1)
    monkeypatch.setattr(docker_disk, "DUTY", 1.0)


# Writes forever, but for the end that the limit makes.
FILL_ROOT = (
    "while :; do dd if=/dev/zero of=/tmp/$((n += 1)) bs=1M count=4 2>/dev/null; sleep 0.1; done"
)
MANY_FILES = "while :; do for i in $(seq 500); do : > /tmp/$((n += 1)); done; done"
DEEP = "while :; do mkdir d; cd d; dd if=/dev/zero of=f bs=1M count=4 2>/dev/null; sleep 0.1; done"


async def ended_for_its_disk(runtime: DockerRuntime, spec: AttemptSpec) -> Exit:
    exit = await asyncio.wait_for(runtime.wait(await start(runtime, spec)), 120)
    assert (exit.exit_code, exit.error_code) == (137, "disk_quota_exceeded")
    return exit


@pytest.mark.usefixtures("measured_often")
@pytest.mark.parametrize("script", [FILL_ROOT, DEEP], ids=["flat", "deep"])
async def test_31_finding_s11_a_task_that_fills_its_root_is_ended_with_the_numbers(
    runtime, busybox, script
):
    exit = await ended_for_its_disk(runtime, make_spec(busybox, script, disk_mb=20))
    assert "the limit is 20 MiB" in exit.message
    assert "0 MiB into volumes" in exit.message


@pytest.mark.usefixtures("measured_often")
async def test_finding_s11_a_volume_of_the_image_is_counted_and_goes_with_its_container(
    runtime, made_image, docker_engine
):
    spec = make_spec(made_image("VOLUME /tmp"), FILL_ROOT, disk_mb=20)
    container_id = await start(runtime, spec)
    (volume,) = docker_engine.api.inspect_container(container_id)["Mounts"]
    exit = await asyncio.wait_for(runtime.wait(container_id), 120)
    assert exit.error_code == "disk_quota_exceeded"
    assert "0 MiB into the root file system" in exit.message
    await runtime.remove(container_id)
    names = [one.name for one in docker_engine.volumes.list()]
    assert volume["Name"] not in names


@pytest.mark.usefixtures("measured_often")
async def test_31_finding_s11_a_task_that_makes_too_many_files_is_ended(
    runtime, busybox, monkeypatch
):
    monkeypatch.setattr(docker_disk, "MIN_INODES", 2000)
    exit = await ended_for_its_disk(runtime, make_spec(busybox, MANY_FILES, disk_mb=20))
    assert "files and folders" in exit.message


@pytest.mark.usefixtures("measured_often")
async def test_31_finding_s11_a_task_that_floods_its_log_is_ended(runtime, busybox):
    container_id = await start(
        runtime, make_spec(busybox, "yes flood | head -c 50m; sleep 1000", log_bytes=3 * 2**20)
    )
    exit = await asyncio.wait_for(runtime.wait(container_id), 120)
    assert exit.error_code == "log_limit_exceeded"
    assert "the limit is 3 MiB" in exit.message


@pytest.mark.usefixtures("measured_often")
async def test_finding_s11_without_a_look_at_the_engines_folder_the_engine_measures(
    cluster, busybox, monkeypatch
):
    monkeypatch.setattr(docker_disk.os.path, "isdir", lambda folder: False)
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), path)
        await ended_for_its_disk(runtime, make_spec(busybox, FILL_ROOT, disk_mb=20))
        await runtime.close()


@pytest.mark.usefixtures("measured_often")
async def test_finding_s11_an_agent_that_died_in_between_still_says_why(runtime, cluster, busybox):
    spec = make_spec(busybox, FILL_ROOT, disk_mb=20)
    await ended_for_its_disk(runtime, spec)
    other = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    (found,) = await other.list()
    assert found.exit.error_code == "disk_quota_exceeded"
    await other.close()


@pytest.mark.usefixtures("measured_often")
async def test_a_task_within_its_limits_ends_by_itself(runtime, busybox):
    script = "dd if=/dev/zero of=/tmp/a bs=1M count=4 2>/dev/null; sleep 1; exit 3"
    spec = make_spec(busybox, script, disk_mb=100, log_bytes=2**20)
    exit = (await run(runtime, spec)).exit
    assert (exit.exit_code, exit.error_code, exit.message) == (3, "", "")


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (Use(layer=60 * 2**20, volumes=40 * 2**20), ""),
        (Use(layer=60 * 2**20, volumes=41 * 2**20), "disk_quota_exceeded"),
        (Use(inodes=100_000), ""),
        (Use(inodes=100_001), "disk_quota_exceeded"),
        (Use(log=1000), ""),
        (Use(log=1001), "log_limit_exceeded"),
    ],
)
def test_a_limit_may_be_reached_but_not_passed(use: Use, code: str) -> None:
    excess: Excess | None = judgement(100, 1000, use)
    assert (excess.code if excess else "") == code
    assert judgement(0, 0, use) is None
