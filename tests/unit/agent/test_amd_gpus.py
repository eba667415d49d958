"""AMD's GPUs as the files of a fake sysfs say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.docker_tasks import make_spec

from skep_agent.accelerators.amd import AmdProbe
from skep_agent.accelerators.base import GpuFault
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import EngineFacts, ImageFacts, NodeFacts, create_call

FIRST, SECOND = "GPU-3a1bff2c9d8e7f60", "GPU-pci-0000-83-00-0"
ADDRESSES = ("0000:03:00.0", "0000:83:00.0")


class Machine:
    """Two MI300X, of which the second has no serial, and a card of another vendor."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.probe = AmdProbe(root / "drm", root / "kfd", root / "amdgpu")
        for number, address in enumerate(ADDRESSES):
            self.write(
                address,
                vendor="0x1002",
                device="0x74a1",
                unique_id="" if number else "3a1bff2c9d8e7f60",
                product_name="Instinct MI300X",
                mem_info_vram_total=192 * 2**30,
                mem_info_vram_used=7 * 2**30,
                gpu_busy_percent=40 + number,
                numa_node=number,
            )
            self.write(address, **{"ras/umc_err_count": "ue: 0\nce: 3"})
            self.write(address, **{"hwmon/hwmon4/temp1_input": 43000})
            self.write(address, **{"hwmon/hwmon4/power1_average": 131_500_000})
            self.write(address, **{f"drm/renderD{128 + number}/dev": "226:128"})
            node = root / "kfd" / "topology" / "nodes" / str(number)
            node.mkdir(parents=True)
            (node / "gpu_id").write_text(f"{5000 + number}\n")
            (node / "properties").write_text(f"simd_count 304\ndrm_render_minor {128 + number}\n")
            self.link(f"card{number}", address)
        self.write("0000:c3:00.0", vendor="0x1a03")
        self.link("card2", "0000:c3:00.0")
        (root / "kfd" / "proc").mkdir()

    def device(self, address: str) -> Path:
        return self.root / "pci" / address

    def write(self, address: str, **files: object) -> None:
        for name, value in files.items():
            path = self.device(address) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")

    def link(self, card: str, address: str) -> None:
        (self.root / "drm" / card).mkdir(parents=True)
        (self.root / "drm" / card / "device").symlink_to(self.device(address))

    def run_process(self, pid: int, gpu_id: int, vram: int) -> None:
        folder = self.root / "kfd" / "proc" / str(pid)
        folder.mkdir()
        (folder / f"vram_{gpu_id}").write_text(f"{vram}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_gpus_have_a_lasting_name_and_other_vendors_cards_are_none(machine: Machine) -> None:
    first, second = machine.probe.gpus()
    assert (first.uuid, second.uuid) == (FIRST, SECOND)
    assert (first.model, first.memory_mb, first.numa_node) == ("Instinct MI300X", 196608, 0)
    assert (first.healthy, first.pci_bus_id) == (True, ADDRESSES[0])
    assert machine.probe.topology() == {FIRST: {SECOND: "SYS"}, SECOND: {FIRST: "SYS"}}


def test_a_machine_without_the_driver_has_none(tmp_path: Path) -> None:
    probe = AmdProbe(tmp_path / "drm", tmp_path / "kfd", tmp_path / "amdgpu")
    assert (probe.gpus(), probe.samples(), probe.faults()) == ([], [], [])
    assert probe.driver_version() == ""
    probe.close()


def test_a_sample_has_what_the_files_say_and_lacks_what_they_do_not(machine: Machine) -> None:
    machine.probe.gpus()
    shutil.rmtree(machine.device(ADDRESSES[1]) / "hwmon")
    first, second = machine.probe.samples()
    assert (first.utilization, first.memory_used_mb) == (40.0, 7168)
    assert (first.temperature_c, first.power_w) == (43, 131.5)
    assert (second.temperature_c, second.power_w) == (None, None)


def test_uncorrected_errors_make_a_gpu_unhealthy_and_are_reported_once(machine: Machine) -> None:
    machine.probe.gpus()
    assert machine.probe.faults() == []
    machine.write(ADDRESSES[0], **{"ras/umc_err_count": "ue: 2\nce: 3"})
    assert machine.probe.faults() == [GpuFault(FIRST, "amd", "umc")]
    assert machine.probe.faults() == []
    first, second = machine.probe.gpus()
    assert (first.healthy, second.healthy) == (False, True)
    assert "2 uncorrected" in first.problem


def test_a_gpu_that_vanished_is_listed_as_lost(machine: Machine) -> None:
    machine.probe.gpus()
    shutil.rmtree(machine.device(ADDRESSES[1]))
    first, second = machine.probe.gpus()
    assert (first.healthy, second.healthy) == (True, False)
    assert "lost" in second.problem
    assert [sample.uuid for sample in machine.probe.samples()] == [FIRST]


def test_only_processes_with_memory_on_a_gpu_keep_it_busy(machine: Machine) -> None:
    machine.probe.gpus()
    machine.run_process(4711, 5000, 2**20)
    machine.run_process(4712, 5001, 0)
    assert machine.probe.busy([FIRST, SECOND]) == {FIRST: [4711]}


def test_a_container_gets_the_render_nodes_of_its_gpus_and_no_nvidia_hook(
    machine: Machine,
) -> None:
    machine.probe.gpus()
    node = NodeFacts("c", "n", gpu_devices=machine.probe.container_devices)
    facts = EngineFacts(8, init=True), ImageFacts("sha256:" + "a" * 64)
    body = create_call(make_spec("i:1", "true", gpu_uuids=[SECOND]), node, *facts, "net").body
    devices = [device["PathOnHost"] for device in body["HostConfig"]["Devices"]]
    assert devices == ["/dev/kfd", "/dev/dri/renderD129"]
    assert not body["HostConfig"].get("DeviceRequests")
    assert "NVIDIA_VISIBLE_DEVICES=void" in body["Env"]
    assert f"SKEP_GPU_UUIDS={SECOND}" in body["Env"]
    without = create_call(make_spec("i:1", "true"), node, *facts, "net").body
    assert not without["HostConfig"].get("Devices")
    with pytest.raises(RuntimeFailure) as refused:
        create_call(make_spec("i:1", "true", gpu_uuids=["GPU-unknown"]), node, *facts, "net")
    assert refused.value.code == "gpu_unavailable"
