"""A probe that is looked for when it is first asked: a driver that hangs does so while it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from skep_agent.accelerators.base import ContainerDevices, GpuFault, GpuProbe
from skep_agent.protocol import Gpu, GpuSample

CLOSE_S = 1.0


class LateProbe:
    """Stands for the probe that `make` returns. Whoever asks waits for that, one at a time; what
    returns at once has nothing to say before."""

    def __init__(self, make: Callable[[], GpuProbe]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._made: GpuProbe | None = None

    def gpus(self) -> list[Gpu]:
        return self._probe().gpus()

    def topology(self) -> dict[str, dict[str, str]]:
        return self._probe().topology()

    def driver_version(self) -> str:
        return self._probe().driver_version()

    def firmware(self) -> dict[str, str]:
        return self._probe().firmware()

    def samples(self) -> list[GpuSample]:
        return self._probe().samples()

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        return self._probe().busy(uuids)

    def ecc_errors(self) -> dict[str, int]:
        return self._probe().ecc_errors()

    def faults(self) -> list[GpuFault]:
        return self._made.faults() if self._made else []

    def errors(self) -> dict[tuple[str, str], int]:
        return self._made.errors() if self._made else {}

    def container_devices(self, uuids: Sequence[str]) -> ContainerDevices:
        if self._made is None:
            if uuids:
                raise KeyError(uuids[0])
            return ContainerDevices()
        return self._made.container_devices(uuids)

    def close(self) -> None:
        """Release the driver, unless it is still looked for."""
        if self._making.acquire(timeout=CLOSE_S):
            try:
                if self._made is not None:
                    self._made.close()
            finally:
                self._making.release()

    def _probe(self) -> GpuProbe:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made
