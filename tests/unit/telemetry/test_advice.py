"""What the owner of a finished job is advised to ask for instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skep_platform.telemetry.job_use import RoleUse, advise, cpu_percent, utilization

GOOD = RoleUse(
    name="worker",
    tasks=2,
    gpus=4,
    cpus=8.0,
    memory_mb=65536,
    gpu_utilization=91.0,
    gpu_samples=800,
    gpu_memory_peak_mb=30000,
    gpus_seen=8,
    gpus_idle=0,
    cpu_percent=400.0,
    cpu_samples=200,
    memory_peak_mb=40000,
)

CASES: dict[str, tuple[RoleUse, list[str]]] = {
    "a job that used what it got": (GOOD, []),
    "all GPUs idle": (
        replace(GOOD, gpu_utilization=5.2),
        [
            "Asked 8 GPUs, used 5 % of them. Ask for fewer, or look what they wait for: data "
            "loading, the CPU, or a process that runs without a GPU."
        ],
    ),
    "the only GPU idle": (
        replace(GOOD, tasks=1, gpus=1, gpu_utilization=0.0),
        [
            "Asked 1 GPU, used 0 % of it. Ask for fewer, or look what it waits for: data "
            "loading, the CPU, or a process that runs without a GPU."
        ],
    ),
    "two of eight idle": (
        replace(GOOD, gpu_utilization=70.0, gpus_idle=2),
        [
            "2 of the 8 GPUs of worker did next to nothing, the others worked. Let each process "
            "take its own GPU (LOCAL_RANK), or ask for fewer."
        ],
    ),
    "GPUs that wait for busy CPUs": (
        replace(GOOD, gpu_utilization=30.0, cpu_percent=776.0),
        [
            "Tasks of worker used 97 % of their 8 cores while their GPUs were busy 30 % of the "
            "time. Ask for more CPUs."
        ],
    ),
    "busy GPUs with busy CPUs": (replace(GOOD, cpu_percent=790.0), []),
    "far too much memory": (
        replace(GOOD, memory_peak_mb=4096),
        [
            "Tasks of worker asked 64 GB of memory each and used 4 GB at most. 8 GB would do, "
            "and find a place sooner."
        ],
    ),
    "too much of little memory": (replace(GOOD, memory_mb=4096, memory_peak_mb=300), []),
    "memory almost full": (
        replace(GOOD, memory_mb=1000, memory_peak_mb=960),
        [
            "A task of worker came to 960 MB of its 1000 MB of memory. Ask for more, or it may "
            "be killed: 1.22 GB, for example."
        ],
    ),
    "nothing was measured": (RoleUse("worker", 2, 4, 8.0, 65536), []),
    "too short to say": (
        replace(GOOD, gpu_utilization=0.0, gpu_samples=47, gpus_idle=1, memory_peak_mb=1),
        [],
    ),
    "no GPUs, and little memory used": (
        RoleUse("ps", 2, 0, 8.0, 65536, cpu_percent=5.0, cpu_samples=12, memory_peak_mb=100),
        [
            "Tasks of ps asked 64 GB of memory each and used 100 MB at most. 1 GB would do, and "
            "find a place sooner."
        ],
    ),
}


@pytest.mark.parametrize(("role", "messages"), CASES.values(), ids=CASES)
def test_advice_in_sentences_with_numbers(role, messages):
    assert [advice["message"] for advice in advise([role])] == messages


def test_each_advice_has_a_code_and_the_numbers():
    idle = replace(GOOD, gpu_utilization=5.16, memory_peak_mb=1024)
    assert [(a["code"], a["details"]) for a in advise([idle])] == [
        ("gpus_idle", {"gpus": 8, "percent": 5.2}),
        ("memory_unused", {"role": "worker", "asked_mb": 65536, "peak_mb": 1024}),
    ]


def test_means_of_several_roles_weigh_their_samples():
    other = replace(GOOD, name="ps", gpu_utilization=11.0, gpu_samples=200, cpu_samples=0)
    assert utilization([GOOD, other]) == pytest.approx(75.0)
    assert cpu_percent([GOOD, other]) == 400.0
    assert utilization([]) is None
