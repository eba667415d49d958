"""GPUs that are not there, for demos, load tests and machines without a driver.

A file of faults, re-read when it changes, breaks them while all else is real:
`{"GPU-…": "XID 79: fallen off the bus"}`, or for more
`{"GPU-…": {"problem": "…", "lost": true, "busy": [4711], "ecc": 2, "temperature_c": 95}}`. A key
may also be the index.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from skep_agent.accelerators.base import ContainerDevices, GpuFault
from skep_agent.protocol import Gpu, GpuSample

_NAMESPACE = uuid.UUID("5ce90000-0000-5000-8000-000000000000")
_ISLAND = 4  # GPUs that NVLink joins, as on a machine with two sockets
_IDLE_MB = 3
_XID = re.compile(r"XID (\d{1,5})\b")


class SimulatedGpus:
    """The same node name gives the same UUIDs for ever. Utilisation follows `set_running`."""

    def __init__(
        self,
        count: int,
        model: str = "Simulated-GPU",
        memory_mb: int = 81920,
        seed: str = "",
        faults: Path | None = None,
    ) -> None:
        self._gpus = [_gpu(seed, index, model, memory_mb) for index in range(count)]
        self._running: frozenset[str] = frozenset()
        self._faults: dict[str, dict[str, Any]] = {}
        self._file = faults
        self._read_at: float | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._xids: dict[str, int] = {}  # of present faults, reported already

    def gpus(self) -> list[Gpu]:
        faults = self._present_faults()
        return [
            gpu.model_copy(update={"healthy": not problem, "problem": problem})
            for gpu in self._gpus
            if not (fault := faults.get(gpu.uuid, {})).get("lost")
            for problem in [str(fault.get("problem", ""))]
        ]

    def topology(self) -> dict[str, dict[str, str]]:
        return {
            a.uuid: {b.uuid: _level(a, b) for b in self._gpus if b is not a} for a in self._gpus
        }

    def firmware(self) -> dict[str, str]:
        return {}

    def driver_version(self) -> str:
        return "simulated" if self._gpus else ""

    def samples(self) -> list[GpuSample]:
        now = time.monotonic()
        faults = self._present_faults()
        found = []
        for gpu in self._gpus:
            fault = faults.get(gpu.uuid, {})
            if not fault.get("lost"):
                sample = _sample(gpu, gpu.uuid in self._running, now)
                heat = fault.get("temperature_c", sample.temperature_c)
                found.append(sample.model_copy(update={"temperature_c": heat}))
        return found

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        faults = self._present_faults()
        found = {uuid: list(faults.get(uuid, {}).get("busy", ())) for uuid in uuids}
        return {uuid: pids for uuid, pids in found.items() if pids}

    def faults(self) -> list[GpuFault]:
        """Return those that have a code, as in "XID 79: …", when they are new."""
        faults = self._present_faults().items()
        found = {uuid: _XID.match(str(fault.get("problem", ""))) for uuid, fault in faults}
        present = {uuid: int(match[1]) for uuid, match in found.items() if match}
        new = [
            GpuFault(uuid, "nvidia", xid)
            for uuid, xid in present.items()
            if self._xids.get(uuid) != xid
        ]
        self._xids = present
        self._counts.update((fault.uuid, str(fault.code)) for fault in new)
        return new

    def errors(self) -> dict[tuple[str, str], int]:
        return dict(self._counts)

    def ecc_errors(self) -> dict[str, int]:
        """Return those that the file of faults names, as "ecc"."""
        faults = self._present_faults()
        return {gpu.uuid: int(faults.get(gpu.uuid, {}).get("ecc", 0)) for gpu in self._gpus}

    def container_devices(self, uuids: Sequence[str]) -> ContainerDevices:
        """None: simulated GPUs are named in the environment alone."""
        return ContainerDevices()

    def close(self) -> None:
        pass

    def set_running(self, uuids: Collection[str]) -> None:
        """Record which GPUs running attempts hold now."""
        self._running = frozenset(uuids)

    def fail(self, uuid: str, problem: str = "XID 79: fallen off the bus", **more: Any) -> None:
        """Break a GPU; more faults by name, as in the file."""
        self._faults[uuid] = {"problem": problem, **more}

    def heal(self, uuid: str) -> None:
        self._faults.pop(uuid, None)

    def _present_faults(self) -> dict[str, dict[str, Any]]:
        if self._file is not None:
            self._reread(self._file)
        return self._faults

    def _reread(self, file: Path) -> None:
        try:
            changed_at = file.stat().st_mtime
            if changed_at != self._read_at:
                self._faults = self._parse(json.loads(file.read_text()))
                self._read_at = changed_at
        except FileNotFoundError:
            if self._read_at is not None:
                self._faults, self._read_at = {}, None
        except ValueError:
            pass  # half written: the next look reads it

    def _parse(self, raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
        names = {str(gpu.index): gpu.uuid for gpu in self._gpus}
        return {
            names.get(key, key): fault if isinstance(fault, dict) else {"problem": str(fault)}
            for key, fault in raw.items()
        }


def _gpu(seed: str, index: int, model: str, memory_mb: int) -> Gpu:
    return Gpu(
        uuid=f"GPU-{uuid.uuid5(_NAMESPACE, f'{seed}/{index}')}",
        model=model,
        memory_mb=memory_mb,
        index=index,
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        numa_node=index // _ISLAND,
    )


def _level(a: Gpu, b: Gpu) -> str:
    return "NV12" if a.index // _ISLAND == b.index // _ISLAND else "SYS"


def _sample(gpu: Gpu, running: bool, now: float) -> GpuSample:
    if not running:
        return GpuSample(
            uuid=gpu.uuid, utilization=0, memory_used_mb=_IDLE_MB, temperature_c=31, power_w=55
        )
    # Every GPU in a rhythm of its own, between 60 and 98 percent.
    phase = uuid.UUID(gpu.uuid[4:]).int % 628 / 100
    utilization = 79 + 19 * math.sin(now / 7 + phase)
    return GpuSample(
        uuid=gpu.uuid,
        utilization=round(utilization, 1),
        memory_used_mb=int(gpu.memory_mb * (0.72 + 0.05 * math.sin(now / 31 + phase))),
        temperature_c=int(45 + utilization / 4),
        power_w=round(80 + 3 * utilization, 1),
    )
