"""The vendors whose GPUs this agent finds."""

from __future__ import annotations

from collections.abc import Callable

from skep_agent.accelerators.base import GpuProbe


def _nvidia() -> GpuProbe:
    from skep_agent.accelerators.nvidia import NvmlProbe

    return NvmlProbe()


def _amd() -> GpuProbe:
    from skep_agent.accelerators.amd import AmdProbe

    return AmdProbe()


# In the order in which they are looked for. Imported late: each needs libraries of its own.
VENDORS: dict[str, Callable[[], GpuProbe]] = {
    "nvidia": _nvidia,
    "amd": _amd,
}


def detect() -> GpuProbe:
    """Return the probe of the first vendor that has a GPU here. Without any it is NVIDIA's, whose
    driver may be loaded later. May block as long as a driver does."""
    for make in VENDORS.values():
        probe = make()
        if probe.gpus():
            return probe
        probe.close()
    return _nvidia()
