"""The probe, unmodified, on a driver library that the test makes up."""

from __future__ import annotations

import pytest
from tests.support.nvml_machine import uuid

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, UNKNOWN = 3, 4, 9, 999


def test_gpus_are_named_by_uuid_with_all_that_is_known(machine):
    machine.add_gpus(2)
    folder = machine.sysfs / "0000:08:00.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text("1\n")
    assert machine.ask("gpus") == [
        {
            "uuid": uuid(index),
            "model": "NVIDIA H100 80GB HBM3",
            "memory_mb": 81559,
            "index": index,
            "pci_bus_id": f"00000000:0{index + 7}:00.0",
            "numa_node": 1 if index == 1 else None,
            "healthy": True,
            "problem": "",
        }
        for index in (0, 1)
    ]
    assert machine.ask("driver_version") == "550.54.15"


def test_a_driver_without_gpus(machine):
    assert machine.ask("gpus") == machine.ask("samples") == []
    assert machine.ask("topology") == machine.ask("busy", [uuid(0)]) == {}


def test_without_a_driver_library_there_are_no_gpus(machine_without_driver):
    machine = machine_without_driver
    assert machine.ask("gpus") == machine.ask("samples") == []
    assert machine.ask("topology") == machine.ask("busy", [uuid(0)]) == {}
    assert machine.ask("driver_version") == ""
    assert machine.ask("close") is None


@pytest.mark.parametrize("error", [DRIVER_NOT_LOADED, NO_PERMISSION, UNKNOWN])
def test_a_driver_that_is_loaded_later_is_found_then(machine, error):
    machine.add_gpus(1)
    machine.set({"error.nvmlInitWithFlags": error})
    assert machine.ask("gpus") == []
    machine.set({"error.nvmlInitWithFlags": None})
    assert len(machine.ask("gpus")) == 1


def test_samples_follow_the_machine(machine):
    machine.add_gpus(1, util=37, used=1000, temp=55, power=312500)
    assert machine.ask("samples") == [
        {
            "uuid": uuid(0),
            "utilization": 37.0,
            "memory_used_mb": 1000,
            "temperature_c": 55,
            "power_w": 312.5,
        }
    ]
    machine.set({"0.util": 99, "0.used": 70000})
    (sample,) = machine.ask("samples")
    assert (sample["utilization"], sample["memory_used_mb"]) == (99.0, 70000)


FIELDS = {
    "nvmlDeviceGetUtilizationRates": {"utilization": 0.0},
    "nvmlDeviceGetTemperature": {"temperature_c": None},
    "nvmlDeviceGetPowerUsage": {"power_w": None},
    # Version 1 counts what the driver reserves for itself too.
    "nvmlDeviceGetMemoryInfo_v2": {"memory_used_mb": 1500},
}


@pytest.mark.parametrize("call", FIELDS)
@pytest.mark.parametrize("error", [NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
def test_a_reading_that_is_not_supported_costs_one_field_of_a_sample(machine, call, error):
    machine.add_gpus(2, util=37, used=1000, temp=55, power=312500)
    whole = machine.ask("samples")
    machine.set({f"1.error.{call}": error})
    assert machine.ask("samples") == [whole[0], whole[1] | FIELDS[call]]


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nvmlDeviceGetName", {"model": "NVIDIA GPU"}),
        ("nvmlDeviceGetMemoryInfo", {"memory_mb": 0}),
        ("nvmlDeviceGetPciInfo_v3", {"pci_bus_id": ""}),
        ("nvmlDeviceGetTotalEccErrors", {}),
        ("nvmlDeviceGetRemappedRows", {}),
        ("nvmlDeviceGetSupportedEventTypes", {}),
        ("nvmlDeviceRegisterEvents", {}),
    ],
)
def test_what_is_not_supported_costs_one_field_of_a_gpu(machine, call, fields):
    machine.add_gpus(2)
    whole = machine.ask("gpus")
    machine.set({f"1.error.{call}": NOT_SUPPORTED})
    assert machine.ask("gpus") == [whole[0], whole[1] | fields]


def test_attack_12_processes_of_every_kind_are_seen_on_a_gpu(machine):
    machine.add_gpus(3, pids="")
    machine.set({"0.pids": "31,17", "0.graphics": "17,40", "0.mps": "50"})
    everyone = [uuid(0), uuid(1), uuid(2)]
    assert machine.ask("busy", everyone) == {uuid(0): [17, 31, 40, 50]}
    assert machine.ask("busy", [uuid(1)]) == {}
    machine.set({"0.pids": None, "0.graphics": None, "0.mps": None, "2.pids": "9"})
    assert machine.ask("busy", everyone) == {uuid(2): [9]}


def test_attack_12_a_gpu_that_does_not_report_its_processes_is_not_taken_for_free(machine):
    machine.add_gpus(1)
    machine.set({"0.error.nvmlDeviceGetComputeRunningProcesses_v3": UNKNOWN})
    assert machine.ask("busy", [uuid(0)]) == {uuid(0): [0]}


def test_a_kind_of_process_that_the_driver_does_not_know_is_none(machine):
    machine.add_gpus(1, pids="5")
    machine.set({"0.error.nvmlDeviceGetMPSComputeRunningProcesses_v3": NOT_SUPPORTED})
    assert machine.ask("busy", [uuid(0)]) == {uuid(0): [5]}


def test_a_lost_or_unknown_gpu_has_no_processes(machine):
    machine.add_gpus(1, pids="5")
    machine.set({"0.lost": 1})
    assert machine.ask("busy", [uuid(0), uuid(7)]) == {}


def test_pcie_levels_have_the_words_of_nvidia_smi(machine):
    machine.add_gpus(4)
    levels = {"topo.0.1": 10, "topo.0.2": 20, "topo.0.3": 30, "topo.1.2": 40, "topo.1.3": 50}
    machine.set(levels)
    found = machine.ask("topology")
    names = [["PIX", "PXB", "PHB"], ["PIX", "NODE", "SYS"], ["PXB", "NODE", "SYS"]]
    for index, expected in enumerate(names):
        others = [other for other in range(4) if other != index]
        assert [found[uuid(index)][uuid(other)] for other in others] == expected
    assert found[uuid(2)][uuid(3)] == "SYS"  # not reported


def test_direct_nvlinks_are_counted_for_each_pair(machine):
    machine.add_gpus(3)
    machine.set({"topo.0.1": 50, "topo.0.2": 50, "topo.1.2": 50})
    # 0 and 1 share two links, 1 and 2 one; the bus is written in another case than the GPU's own.
    machine.set({"0.link.0": "00000000:08:00.0", "0.link.5": "00000000:08:00.0"})
    machine.set({"1.link.0": "00000000:07:00.0", "1.link.5": "00000000:07:00.0"})
    machine.set({"1.link.1": "00000000:09:00.0", "2.link.0": "00000000:08:00.0"})
    found = machine.ask("topology")
    assert found[uuid(0)] == {uuid(1): "NV2", uuid(2): "SYS"}
    assert found[uuid(1)] == {uuid(0): "NV2", uuid(2): "NV1"}
    assert found[uuid(2)] == {uuid(0): "SYS", uuid(1): "NV1"}


def test_behind_a_switch_every_pair_has_all_links(machine):
    machine.add_gpus(8)
    machine.set({f"{gpu}.link.{link}": "switch" for gpu in range(8) for link in range(18)})
    found = machine.ask("topology")
    assert {level for row in found.values() for level in row.values()} == {"NV18"}
    assert all(len(row) == 7 for row in found.values())


def test_a_link_whose_end_is_not_reported_joins_no_one(machine):
    machine.add_gpus(2)
    machine.set({"topo.0.1": 10, "0.link.0": "00000000:08:00.0"})
    machine.set({"0.error.nvmlDeviceGetNvLinkRemotePciInfo_v2": NOT_SUPPORTED})
    assert machine.ask("topology")[uuid(0)] == {uuid(1): "PIX"}


def test_a_machine_of_one_gpu_has_no_pairs(machine):
    machine.add_gpus(1)
    assert machine.ask("topology") == {uuid(0): {}}
