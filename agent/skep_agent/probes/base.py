"""The interface of a GPU probe. Calls may block for milliseconds: the shell uses a thread."""

from __future__ import annotations

from typing import Protocol

from skep_agent.protocol import Gpu, GpuSample


class GpuProbe(Protocol):
    def gpus(self) -> list[Gpu]:
        """All GPUs with their present health; [] where the node has none or no driver."""

    def topology(self) -> dict[str, dict[str, str]]:
        """Level of each pair of UUIDs, as in `Inventory.topology`."""

    def driver_version(self) -> str:
        """Empty without a driver."""

    def samples(self) -> list[GpuSample]:
        """Utilisation and memory now."""

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        """Process ids still on each of these GPUs; only GPUs with at least one."""

    def xids(self) -> list[tuple[str, int]]:
        """NVIDIA's errors since the last question: the GPU's UUID ("" where it could not tell) and
        the number. Answers at once."""

    def close(self) -> None: ...
