"""Simulated GPUs look like real ones, stay the same, and break on demand."""

from __future__ import annotations

import json
from pathlib import Path

from skep_agent.accelerators.base import GpuFault
from skep_agent.accelerators.simulated import SimulatedGpus


def test_a_node_has_the_same_gpus_for_ever_and_no_other_node_has_them() -> None:
    first = SimulatedGpus(4, seed="n1").gpus()
    assert first == SimulatedGpus(4, seed="n1").gpus()
    assert first == SimulatedGpus(8, seed="n1").gpus()[:4]
    others = {gpu.uuid for gpu in SimulatedGpus(4, seed="n2").gpus()}
    assert others.isdisjoint(gpu.uuid for gpu in first)


def test_topology_is_symmetric_with_links_inside_a_socket() -> None:
    probe = SimulatedGpus(8, seed="n1")
    uuids = [gpu.uuid for gpu in probe.gpus()]
    topology = probe.topology()
    assert topology[uuids[0]][uuids[3]] == "NV12"
    assert topology[uuids[0]][uuids[4]] == "SYS"
    for a in uuids:
        for b, level in topology[a].items():
            assert topology[b][a] == level


def test_utilisation_follows_what_runs() -> None:
    probe = SimulatedGpus(2, seed="n1", memory_mb=1000)
    busy, idle = (gpu.uuid for gpu in probe.gpus())
    probe.set_running([busy])
    samples = {sample.uuid: sample for sample in probe.samples()}
    assert 50 < samples[busy].utilization <= 100
    assert samples[idle].utilization == 0
    assert samples[idle].memory_used_mb < samples[busy].memory_used_mb <= 1000


def test_a_gpu_fails_and_heals() -> None:
    probe = SimulatedGpus(2, seed="n1")
    uuid = probe.gpus()[1].uuid
    probe.fail(uuid, "XID 48", busy=[7])
    assert [gpu.healthy for gpu in probe.gpus()] == [True, False]
    assert probe.gpus()[1].problem == "XID 48"
    assert probe.busy([uuid]) == {uuid: [7]}
    probe.heal(uuid)
    assert all(gpu.healthy for gpu in probe.gpus())
    assert probe.busy([uuid]) == {}


def test_a_file_of_faults_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "gpu-faults.json"
    probe = SimulatedGpus(3, seed="n1", faults=file)
    assert all(gpu.healthy for gpu in probe.gpus())
    file.write_text(json.dumps({"0": "ECC", probe.gpus()[2].uuid: {"lost": True}}))
    assert [gpu.problem for gpu in probe.gpus()] == ["ECC", ""]
    assert len(probe.samples()) == 2
    file.write_text("{half written")
    assert len(probe.gpus()) == 2
    file.write_text(json.dumps({"1": {"temperature_c": 95}}))
    assert [sample.temperature_c for sample in probe.samples()] == [31, 95, 31]
    assert all(gpu.healthy for gpu in probe.gpus())
    file.unlink()
    assert len(probe.gpus()) == 3


def test_no_gpus_are_no_driver() -> None:
    probe = SimulatedGpus(0)
    assert (probe.gpus(), probe.topology(), probe.driver_version()) == ([], {}, "")


def test_an_xid_of_a_fault_is_shown_when_it_is_new() -> None:
    probe = SimulatedGpus(2, seed="n1")
    first, second = (gpu.uuid for gpu in probe.gpus())
    probe.fail(first, "XID 79: fallen off the bus")
    probe.fail(second, "too hot")
    assert probe.faults() == [GpuFault(first, "nvidia", 79)]
    assert probe.faults() == []
    probe.heal(first)
    assert probe.faults() == []
    probe.fail(first, "XID 48")
    assert probe.faults() == [GpuFault(first, "nvidia", 48)]
