"""The interface of a GPU probe. Calls may block for milliseconds: the shell uses a thread.

A probe for another vendor is one module with a class like this, and one line in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skep_agent.protocol import Gpu, GpuSample


@dataclass(frozen=True, slots=True)
class GpuFault:
    """An error that a driver reported. `code` is the vendor's own: for NVIDIA the XID."""

    uuid: str  # "" where the driver did not say which GPU
    vendor: str
    code: int | str


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What makes GPUs visible in a container. Every other way in is closed."""

    nvidia_uuids: tuple[str, ...] = ()  # for a device request to NVIDIA's hook
    paths: tuple[str, ...] = ()  # device nodes to map, read and write


def nvidia_devices(uuids: Sequence[str]) -> ContainerDevices:
    """NVIDIA's hook gives a container the GPUs of a device request, and nothing else does."""
    return ContainerDevices(nvidia_uuids=tuple(uuids))


class GpuProbe(Protocol):
    def gpus(self) -> list[Gpu]:
        """Return all GPUs with their present health; [] where there is none or no driver."""

    def topology(self) -> dict[str, dict[str, str]]:
        """Return the level of each pair of UUIDs, as in `Inventory.topology`."""

    def driver_version(self) -> str:
        """Return the driver's version, "" without a driver."""

    def firmware(self) -> dict[str, str]:
        """Return the versions of the driver's interface and of the GPUs' firmware, by what they are
        of; several of one kind are one text with commas."""

    def samples(self) -> list[GpuSample]:
        """Return utilisation and memory now."""

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        """Return the ids of processes still on each of these GPUs; only GPUs with at least one."""

    def faults(self) -> list[GpuFault]:
        """Return the errors since the last call. Returns at once."""

    def errors(self) -> dict[tuple[str, str], int]:
        """Return how many errors there were since the agent started, by UUID and the vendor's code.
        Takes nothing from `faults`."""

    def ecc_errors(self) -> dict[str, int]:
        """Return how many errors of its memory ECC did not correct, of each GPU that says so."""

    def container_devices(self, uuids: Sequence[str]) -> ContainerDevices:
        """Return what a container with these GPUs is given. Raises KeyError for an unknown one."""

    def close(self) -> None:
        """Release the driver."""
