"""Agents on machines whose disk, GPUs or storages fail, from the start or while they run."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec

from skep_agent.accelerators.late import LateProbe
from skep_agent.accelerators.nvidia import NvmlProbe
from skep_agent.protocol import Gpu
from skep_agent.shell import probing
from skep_agent.shell.operations import CREATES
from skep_agent.statedir import StateDir, StateError

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


def warned(server: FakeControlPlane) -> set[str]:
    inventory = server.node().inventory
    return {one.code for one in inventory.warnings} if inventory else set()


@needs_mounts
async def test_an_agent_that_starts_on_a_read_only_disk_keeps_its_tasks_and_says_so(
    server: FakeControlPlane, disk: Path
) -> None:
    config = replace(config_for(disk / "n1", server.url), network_interval_s=0.05)
    agent, node = AgentProcess(config), server.node()
    one = spec("a1", command="mock run_for=3600")
    async with agent.running():
        await server.desire(one)
        await server.until(lambda: "running" in node.phases("a1"))
        assert warned(server) == set()
        await agent.kill()
        remount(disk, "ro")
        agent.start()
        await server.until(
            lambda: len(node.hellos) == 2 and node.phases("a1").count("running") == 2
        )
        assert warned(server) == {"state_not_written"}
        remount(disk, "rw")
        await server.desire(one.model_copy(update={"desired": "stop"}))
        await server.until(lambda: node.complete("a1") and not warned(server))


@needs_mounts
def test_one_agent_at_a_time_uses_a_directory_on_a_read_only_disk(disk: Path) -> None:
    (disk / "state").mkdir()
    remount(disk, "ro")
    first, second = StateDir(disk / "state"), StateDir(disk / "state")
    first.lock()
    assert first.instance_id == first.instance_id
    with pytest.raises(StateError, match="another agent"):
        second.lock()
    remount(disk, "rw")  # and no file was there to lock
    with pytest.raises(StateError, match="another agent"):
        second.lock()
    first.unlock()
    second.lock()


class HangingDriver(NvmlProbe):
    """Has one GPU, and answers nothing while it hangs."""

    def __init__(self, answers: threading.Event) -> None:
        super().__init__()
        self._answers = answers

    def gpus(self) -> list[Gpu]:
        self._answers.wait()
        return [Gpu(uuid="GPU-1", model="H100", memory_mb=81920, index=0)]

    def topology(self) -> dict[str, dict[str, str]]:
        return {"GPU-1": {}}

    def driver_version(self) -> str:
        return "550.54.15"


async def test_an_agent_that_starts_while_the_driver_hangs_knows_its_gpus_and_waits_for_it(
    server: FakeControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "START_PATIENCE_S", 0.05)
    monkeypatch.setattr(probing, "PATIENCE_S", 0.05)
    monkeypatch.setattr(probing, "CLOSE_S", 0.05)
    answers, node = threading.Event(), server.node()

    def detect() -> NvmlProbe:
        answers.wait()  # nvmlInit, while the driver hangs
        return HangingDriver(answers)

    config = replace(config_for(tmp_path / "n1", server.url), network_interval_s=0.05)

    def health() -> list[tuple[str, bool]]:
        return [(gpu.uuid, gpu.healthy) for gpu in node.inventory.gpus] if node.inventory else []

    agent = AgentProcess(config, probe=LateProbe(detect))
    async with agent.running():
        await server.until(lambda: node.inventory)  # a new node, which never saw a GPU
        await server.until(lambda: warned(server) == {"gpu_driver_silent"})
        assert health() == []
        answers.set()
        await server.until(lambda: health() == [("GPU-1", True)] and not warned(server))
        await server.until(lambda: node.inventory and node.inventory.driver_version)
    answers.clear()
    agent.probe = LateProbe(detect)
    node.inventory = None
    async with agent.running():
        await server.until(lambda: len(node.hellos) == 2)
        (gpu,) = node.hellos[1].inventory.gpus
        assert (gpu.uuid, gpu.healthy) == ("GPU-1", False)
        assert gpu.problem == probing.NOT_YET
        assert node.hellos[1].inventory.driver_version == "550.54.15"
        await agent.kill()  # it ends, too
        agent.start()
        await server.until(lambda: len(node.hellos) == 3)
        answers.set()
        await server.until(lambda: health() == [("GPU-1", True)])


@pytest.mark.parametrize(
    ("field", "value"),
    [("lease_s", 1e9), ("heartbeat_interval_s", 0.0), ("sample_interval_s", 1e9)],
)
async def test_a_timing_that_makes_no_sense_is_refused_and_tasks_go_on(
    server: FakeControlPlane, tmp_path: Path, field: str, value: float
) -> None:
    config, node = config_for(tmp_path / "n1", server.url), server.node()
    async with AgentProcess(config).running():
        await server.desire(spec("a1", command="mock run_for=3600"))
        await server.until(lambda: "running" in node.phases("a1"))
        before, right = len(node.hellos), getattr(server, field)
        setattr(server, field, value)
        await server.drop()
        await server.until(lambda: len(node.hellos) >= before + 2)  # it comes again
        setattr(server, field, right)
        beats = node.heartbeats
        await server.until(lambda: node.heartbeats > beats)
        assert node.phases("a1")[-1] == "running"


async def test_tasks_that_wait_for_a_storage_hold_up_no_others(
    server: FakeControlPlane, agent: AgentProcess
) -> None:
    waiting = [spec(f"w{n}", command="mock mount_seconds=1000") for n in range(CREATES + 1)]
    await server.desire(*waiting, spec("a1", command="mock run_for=0.1"))
    node = server.node()
    await server.until(lambda: node.complete("a1"))
    assert not any("running" in node.phases(one.attempt_id) for one in waiting)
