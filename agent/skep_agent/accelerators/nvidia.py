"""NVIDIA's GPUs through NVML (`libnvidia-ml.so.1`), as the driver reports them.

Drivers, GPU models and virtual GPUs each leave out some calls of NVML: what is not supported costs
one field of one GPU, never the GPU. Without library or driver there are no GPUs; that is no error.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

import pynvml as nvml  # type: ignore[import-untyped]
import structlog

from skep_agent.accelerators.base import ContainerDevices, GpuFault, nvidia_devices
from skep_agent.accelerators.nvidia_xid import XidWatcher
from skep_agent.protocol import Gpu, GpuSample

MIB = 1024 * 1024
# In `busy`: something could be on the GPU, NVML does not say what.
UNKNOWN_PID = 0
_LOST = "GPU is lost: fallen off the bus, or waiting for a reset"
_NO_DRIVER = (
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    nvml.NVML_ERROR_DRIVER_NOT_LOADED,
    nvml.NVML_ERROR_NO_PERMISSION,
)
_GONE = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_NOT_FOUND)
_BEGIN_AGAIN = (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
_UNSUPPORTED = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
_PROCESSES = (
    nvml.nvmlDeviceGetComputeRunningProcesses,
    nvml.nvmlDeviceGetGraphicsRunningProcesses,
    nvml.nvmlDeviceGetMPSComputeRunningProcesses,
)
# The words of `nvidia-smi topo -m` for how close two GPUs are.
_LEVELS = {
    nvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two GPUs on one board
    nvml.NVML_TOPOLOGY_SINGLE: "PIX",
    nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    nvml.NVML_TOPOLOGY_NODE: "NODE",
    nvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
_SWITCH = "switch"

_SYSFS = Path("/sys/bus/pci/devices")

log = structlog.get_logger(__name__)
T = TypeVar("T")


def ask(call: Callable[..., T], *arguments: Any) -> T | None:
    """Return what NVML answers; None when it does not, for whatever reason."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


class NvmlProbe:
    """May be called from several threads. A GPU once seen stays in the list: when it is gone, it
    is there as unhealthy."""

    def __init__(self, sysfs: Path = _SYSFS) -> None:
        self._sysfs = sysfs
        self._lock = threading.Lock()
        self._ready = False
        self._seen: dict[str, Gpu] = {}  # by UUID, as last read
        self._xids = XidWatcher()

    def gpus(self) -> list[Gpu]:
        if not self._initialise():
            return []
        found = [gpu for index in range(self._count()) if (gpu := self._read(index))]
        self._seen |= {gpu.uuid: gpu for gpu in found}
        if found:
            self._xids.watch(frozenset(gpu.uuid for gpu in found))
        return [
            self._with_health(gpu.index, gpu)
            for gpu in sorted(self._seen.values(), key=lambda gpu: (gpu.index, gpu.uuid))
        ]

    def topology(self) -> dict[str, dict[str, str]]:
        return _pair_levels(self._handles()) if self._initialise() else {}

    def driver_version(self) -> str:
        return ask(nvml.nvmlSystemGetDriverVersion) or "" if self._initialise() else ""

    def firmware(self) -> dict[str, str]:
        """Return the newest CUDA that the driver takes, and the video BIOS of the GPUs."""
        if not self._initialise():
            return {}
        found = {}
        if version := ask(nvml.nvmlSystemGetCudaDriverVersion):
            found["cuda"] = f"{version // 1000}.{version % 1000 // 10}"
        known = {ask(nvml.nvmlDeviceGetVbiosVersion, h) for h in self._handles().values()}
        if texts := sorted(text for text in known if text):
            found["vbios"] = ", ".join(texts)
        return found

    def samples(self) -> list[GpuSample]:
        """Without the GPUs that are lost."""
        if not self._initialise():
            return []
        samples = [_sample(uuid, handle) for uuid, handle in self._handles().items()]
        return [sample for sample in samples if sample is not None]

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        """`UNKNOWN_PID` stands for what NVML does not report. A lost GPU has no processes."""
        if not self._initialise():
            return {}
        found = {uuid: _processes(uuid) for uuid in uuids}
        return {uuid: pids for uuid, pids in found.items() if pids}

    def faults(self) -> list[GpuFault]:
        return [GpuFault(uuid, "nvidia", xid) for uuid, xid in self._xids.take()]

    def errors(self) -> dict[tuple[str, str], int]:
        return {(uuid, str(xid)): number for (uuid, xid), number in self._xids.counts().items()}

    def ecc_errors(self) -> dict[str, int]:
        """Since the driver was loaded; GPUs without ECC are left out."""
        if not self._initialise():
            return {}
        kinds = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        found = {
            uuid: ask(nvml.nvmlDeviceGetTotalEccErrors, handle, *kinds)
            for uuid, handle in self._handles().items()
        }
        return {uuid: number for uuid, number in found.items() if number is not None}

    def container_devices(self, uuids: Sequence[str]) -> ContainerDevices:
        return nvidia_devices(uuids)

    def close(self) -> None:
        self._xids.close()
        with self._lock:
            if self._ready:
                self._ready = False
                ask(nvml.nvmlShutdown)

    def _initialise(self) -> bool:
        """False where there is no driver (it may be loaded later: asked again each time)."""
        with self._lock:
            if self._ready:
                return True
            try:
                nvml.nvmlInit()
            except nvml.NVMLError as error:
                if error.value not in _NO_DRIVER:
                    log.warning("nvml_init_failed", error=str(error))
                return False
            self._ready = True
            return True

    def _count(self) -> int:
        """Return how many GPUs the driver lists. One that was loaded anew knows nothing of this
        process: it is begun with again, with the next question."""
        try:
            return nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            if error.value in _BEGIN_AGAIN and self._xids.pause():
                log.warning("nvml_begins_again", error=str(error))
                with self._lock:
                    ask(nvml.nvmlShutdown)
                    self._ready = False
            return 0

    def _handles(self) -> dict[str, Any]:
        """Return the handles of all GPUs that still answer, by UUID, in NVML's order."""
        handles = {}
        for index in range(ask(nvml.nvmlDeviceGetCount) or 0):
            handle = ask(nvml.nvmlDeviceGetHandleByIndex, index)
            uuid = handle and ask(nvml.nvmlDeviceGetUUID, handle)
            if uuid:
                handles[uuid] = handle
        return handles

    def _read(self, index: int) -> Gpu | None:
        """What does not change while the GPU lives; None when it does not answer."""
        handle = ask(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = handle and ask(nvml.nvmlDeviceGetUUID, handle)
        if not uuid:
            return None
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        pci = ask(nvml.nvmlDeviceGetPciInfo, handle)
        bus = pci.busId if pci else ""
        return Gpu(
            uuid=uuid,
            model=ask(nvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
            memory_mb=memory.total // MIB if memory else 0,
            index=index,
            pci_bus_id=bus,
            numa_node=self._numa_node(handle, bus),
        )

    def _numa_node(self, handle: Any, bus: str) -> int | None:
        """Of the GPU's slot, from sysfs: NVML reports one only for GPUs that are a NUMA node."""
        domain, _, rest = bus.lower().partition(":")
        try:
            node = int((self._sysfs / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
        except (OSError, ValueError):
            node = _or_else(-1, ask(nvml.nvmlDeviceGetNumaNodeId, handle))
        return node if node >= 0 else None

    def _with_health(self, index: int, gpu: Gpu) -> Gpu:
        problem = self._xids.problem(gpu.uuid) or _problem(index, gpu.uuid)
        return gpu.model_copy(update={"healthy": not problem, "problem": problem})


def _problem(index: int, uuid: str) -> str:
    """What is wrong with a GPU that was seen before; "" when nothing is."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if nvml.nvmlDeviceGetUUID(handle) != uuid:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)  # the order changed
        # Some calls still answer from a cache when the GPU itself does not.
        nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return ""
        gone = error.value in (*_GONE, nvml.NVML_ERROR_INVALID_ARGUMENT)
        return _LOST if gone else f"NVML: {error}"
    return _mig_problem(handle, index) or _memory_problem(handle)


def _mig_problem(handle: Any, index: int) -> str:
    """A task is given whole GPUs; of one that is partitioned a process can use a part at most."""
    mode = ask(nvml.nvmlDeviceGetMigMode, handle)  # now, and after a reset
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return ""
    return f"MIG mode is on, and tasks get whole GPUs: nvidia-smi -i {index} -mig 0 turns it off"


def _memory_problem(handle: Any) -> str:
    errors = ask(
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    if errors:
        return f"{errors} uncorrected ECC errors since the driver was loaded"
    rows = ask(nvml.nvmlDeviceGetRemappedRows, handle)
    if rows and rows[3]:
        return "row remapping failed: the GPU's memory is defective"
    return "row remapping is pending: the GPU needs a reset" if rows and rows[2] else ""


def _sample(uuid: str, handle: Any) -> GpuSample | None:
    rates = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
    used = _memory_used(handle)
    if rates is None and used is None and _is_lost(handle):
        return None
    power = ask(nvml.nvmlDeviceGetPowerUsage, handle)
    return GpuSample(
        uuid=uuid,
        utilization=float(rates.gpu) if rates else 0.0,
        memory_used_mb=(used or 0) // MIB,
        temperature_c=_temperature(handle),
        power_w=None if power is None else power / 1000,
    )


def _memory_used(handle: Any) -> int | None:
    """Return the bytes of memory in use. Version 2 of the call leaves out what the driver reserves
    for itself."""
    memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    memory = memory or ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    return memory.used if memory else None


def _temperature(handle: Any) -> int | None:
    old = ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    return _or_else(ask(nvml.nvmlDeviceGetTemperatureV, handle, nvml.NVML_TEMPERATURE_GPU), old)


def _processes(uuid: str) -> list[int]:
    """Return the ids of processes of every kind: compute, graphics, and clients of an MPS
    server."""
    pids: set[int] = set()
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        for kind in _PROCESSES:
            pids.update(process.pid for process in _supported(kind, handle))
    except nvml.NVMLError as error:
        return [] if error.value in _GONE else [UNKNOWN_PID]
    return sorted(pids)


def _supported(kind: Callable[[Any], list[Any]], handle: Any) -> list[Any]:
    try:
        return kind(handle)
    except nvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return []
        raise


def _is_lost(handle: Any) -> bool:
    try:
        nvml.nvmlDeviceGetUtilizationRates(handle)
    except nvml.NVMLError as error:
        return error.value in _GONE
    return False


def _or_else(default: T, value: T | None) -> T:
    return default if value is None else value


def _pair_levels(handles: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return for each pair of UUIDs "NV<links>" where NVLink joins them, else the common
    ancestor."""
    buses = {uuid: _bus(handle) for uuid, handle in handles.items()}
    links = {uuid: _links(handle) for uuid, handle in handles.items()}
    levels: dict[str, dict[str, str]] = {uuid: {} for uuid in handles}
    for one, other in permutations(handles, 2):
        # Through a switch every GPU reaches every other with all the links it has there.
        count = links[one][buses[other]] + min(links[one][_SWITCH], links[other][_SWITCH])
        levels[one][other] = f"NV{count}" if count else _ancestor(handles[one], handles[other])
    return levels


def _links(handle: Any) -> Counter[str]:
    """Count active NVLinks by the PCI bus id at their other end, or as `_SWITCH`."""
    return Counter(
        _end(handle, link)
        for link in range(nvml.NVML_NVLINK_MAX_LINKS)
        if ask(nvml.nvmlDeviceGetNvLinkState, handle, link)
    )


def _end(handle: Any, link: int) -> str:
    kind = ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
    if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return _SWITCH
    remote = ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return remote.busId.upper() if remote else "untold"


def _bus(handle: Any) -> str:
    pci = ask(nvml.nvmlDeviceGetPciInfo, handle)
    return pci.busId.upper() if pci else "unknown"


def _ancestor(one: Any, other: Any) -> str:
    return _LEVELS.get(ask(nvml.nvmlDeviceGetTopologyCommonAncestor, one, other), "SYS")
