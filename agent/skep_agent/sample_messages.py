"""The message in which a node sends what its GPUs and containers use."""

from __future__ import annotations

from typing import Literal

from skep_agent.inventory import Message


class GpuSample(Message):
    uuid: str
    utilization: float  # percent of the last interval a kernel ran
    memory_used_mb: int
    temperature_c: int | None = None
    power_w: float | None = None


class ContainerSample(Message):
    attempt_id: str
    cpu_percent: float  # 100 = one core
    memory_mb: int
    # Since the container was started; None where the engine does not report it.
    network_rx_bytes: int | None = None
    network_tx_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None


class Samples(Message):
    type: Literal["samples"] = "samples"
    at: float
    gpus: list[GpuSample] = []
    containers: list[ContainerSample] = []
