"""GPUs that fail while the probe looks."""

from __future__ import annotations

import pytest
from tests.support.nvml_machine import uuid

UNINITIALIZED, NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN = 1, 3, 15, 999


def problems(machine) -> dict[str, str]:
    gpus = machine.ask("gpus")
    assert all(gpu["healthy"] == (not gpu["problem"]) for gpu in gpus)
    return {gpu["uuid"]: gpu["problem"] for gpu in gpus if gpu["problem"]}


def test_a_lost_gpu_stays_in_the_list_as_unhealthy_and_may_come_back(machine):
    machine.add_gpus(3)
    assert problems(machine) == {}
    before = machine.ask("gpus")
    machine.set({"1.lost": 1})
    found = problems(machine)
    assert found.keys() == {uuid(1)}
    assert "lost" in found[uuid(1)]
    lost = machine.ask("gpus")[1]
    assert lost | {"healthy": True, "problem": ""} == before[1]
    assert [sample["uuid"] for sample in machine.ask("samples")] == [uuid(0), uuid(2)]
    assert machine.ask("topology").keys() == {uuid(0), uuid(2)}
    machine.set({"1.lost": None})
    assert machine.ask("gpus") == before


def test_a_gpu_that_the_driver_no_longer_counts_is_unhealthy(machine):
    machine.add_gpus(2)
    machine.ask("gpus")
    machine.set({"count": 1})
    assert problems(machine).keys() == {uuid(1)}


def test_a_driver_that_stops_answering_makes_every_gpu_unhealthy(machine):
    machine.add_gpus(2)
    machine.ask("gpus")
    machine.set({"error.nvmlDeviceGetCount_v2": UNKNOWN})
    machine.set({f"{n}.error.nvmlDeviceGetHandleByIndex_v2": UNKNOWN for n in (0, 1)})
    assert problems(machine).keys() == {uuid(0), uuid(1)}
    assert machine.ask("samples") == []


def test_uncorrected_memory_errors_make_a_gpu_unhealthy(machine):
    machine.add_gpus(3)
    machine.set({"0.ecc": 2, "1.rows.pending": 1, "2.rows.failure": 1})
    found = problems(machine)
    assert "2 uncorrected ECC errors" in found[uuid(0)]
    assert "reset" in found[uuid(1)]
    assert "defective" in found[uuid(2)]


def test_a_gpu_in_mig_mode_is_given_to_no_task(machine):
    machine.add_gpus(3)
    machine.set({"0.mig": 0, "1.mig": 1})
    found = problems(machine)
    assert found.keys() == {uuid(1)}
    assert "nvidia-smi -i 1 -mig 0" in found[uuid(1)]
    machine.set({"1.mig": 0})
    assert problems(machine) == {}


def test_an_xid_of_the_hardware_makes_its_gpu_unhealthy_for_good(machine):
    machine.add_gpus(3)
    assert problems(machine) == {}
    machine.set({"event.1": "1:79", "event.2": "2:48"})
    found = machine.until(lambda: problems(machine), lambda found: len(found) == 2)
    assert found == {
        uuid(1): "XID 79: fallen off the bus",
        uuid(2): "XID 48: double-bit ECC error",
    }
    assert problems(machine) == found


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_an_xid_that_a_program_causes_is_ignored(machine, xid):
    machine.add_gpus(2)
    machine.ask("gpus")
    machine.set({"event.1": f"0:{xid}", "event.2": "1:62"})
    found = machine.until(lambda: problems(machine), bool)
    assert found.keys() == {uuid(1)}


def test_every_xid_is_reported_once_also_of_programs_and_of_unknown_gpus(machine):
    machine.add_gpus(2)
    machine.ask("gpus")
    seen = []
    machine.set({"event.1": "0:31", "event.2": "1:79"})
    machine.until(lambda: seen.extend(machine.ask("faults")) or seen, lambda seen: len(seen) == 2)
    assert seen == [[uuid(0), "nvidia", 31], [uuid(1), "nvidia", 79]]
    machine.set({"0.error.nvmlDeviceGetUUID": UNKNOWN, "event.3": "0:119"})
    machine.until(lambda: seen.extend(machine.ask("faults")) or seen, lambda seen: len(seen) == 3)
    assert seen[2] == ["", "nvidia", 119]
    assert machine.ask("faults") == []


def test_an_xid_of_a_gpu_that_cannot_say_its_name_makes_all_unhealthy(machine):
    machine.add_gpus(2)
    machine.ask("gpus")
    machine.set({"0.error.nvmlDeviceGetUUID": UNKNOWN, "event.1": "0:119"})
    found = machine.until(lambda: problems(machine), lambda found: "XID" in found.get(uuid(1), ""))
    assert "XID 119" in found[uuid(1)]


def test_a_gpu_without_events_is_watched_by_its_answers_alone(machine):
    machine.add_gpus(2)
    machine.set({f"{n}.error.nvmlDeviceGetSupportedEventTypes": NOT_SUPPORTED for n in (0, 1)})
    assert problems(machine) == {}
    machine.set({"0.lost": 1})
    assert problems(machine).keys() == {uuid(0)}
    assert machine.ask("close") is None


def test_a_watch_that_breaks_does_not_break_the_probe(machine):
    machine.add_gpus(1)
    machine.set({"error.nvmlEventSetWait_v2": GPU_IS_LOST})
    assert problems(machine) == {}
    assert len(machine.ask("samples")) == 1
    assert machine.ask("close") is None


def test_closing_ends_the_watch_and_the_probe_can_be_asked_no_more_than_before(machine):
    machine.add_gpus(1)
    machine.ask("gpus")
    assert machine.ask("close") is None
    assert machine.ask("close") is None


def test_an_xid_of_a_gpu_that_came_later_is_seen(machine):
    machine.add_gpus(1)
    machine.ask("gpus")
    machine.set({"event.1": "0:31"})
    assert machine.until(lambda: machine.ask("faults"), bool) == [[uuid(0), "nvidia", 31]]
    machine.add_gpus(3)
    machine.set({"2.error.nvmlDeviceRegisterEvents": UNKNOWN})
    machine.ask("gpus")
    machine.until(lambda: machine.ask("gpus"), lambda gpus: len(gpus) == 3)
    watched = machine.until(
        lambda: (machine.next_event("1:79"), machine.ask("gpus"), problems(machine))[-1], bool
    )
    assert watched == {uuid(1): "XID 79: fallen off the bus"}


def test_a_driver_that_was_loaded_anew_is_begun_with_again_and_watched(machine):
    machine.add_gpus(1)
    machine.ask("gpus")
    machine.set({"error.nvmlDeviceGetCount_v2": UNINITIALIZED})
    machine.set({"error.nvmlEventSetWait_v2": UNINITIALIZED})
    machine.set({"0.error.nvmlDeviceGetHandleByIndex_v2": UNINITIALIZED})
    assert problems(machine).keys() == {uuid(0)}
    machine.set({"error.nvmlDeviceGetCount_v2": None, "error.nvmlEventSetWait_v2": None})
    machine.set({"0.error.nvmlDeviceGetHandleByIndex_v2": None})
    assert problems(machine) == {}
    watched = machine.until(
        lambda: (machine.next_event("0:48"), machine.ask("gpus"), problems(machine))[-1], bool
    )
    assert watched == {uuid(0): "XID 48: double-bit ECC error"}


def test_a_gpu_whose_index_another_one_took_is_listed_once_and_as_lost(machine):
    machine.add_gpus(3)
    machine.ask("gpus")
    machine.set({"1.uuid": uuid(2), "count": 2})  # the second fell off, the third moved up
    gpus = machine.ask("gpus")
    assert sorted(gpu["uuid"] for gpu in gpus) == [uuid(0), uuid(1), uuid(2)]
    assert problems(machine).keys() == {uuid(1)}
