"""AMD's GPUs through the amdgpu driver's files in sysfs, as `rocm-smi` reads them.

The files are documented in the kernel (Documentation/gpu/amdgpu). Without the driver there are no
GPUs; a file that is absent costs one field of one GPU, never the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

from skep_agent.accelerators.base import ContainerDevices, GpuFault
from skep_agent.protocol import Gpu, GpuSample

MIB = 1024 * 1024
VENDOR = "0x1002"
KFD = "/dev/kfd"
# In `busy`: something may be on the GPU, and what is not known.
UNKNOWN_PID = 0
_CARD = re.compile(r"card\d+")
_UNCORRECTED = re.compile(r"^ue:\s*(\d+)", re.MULTILINE)


class AmdProbe:
    """A GPU once seen stays in the list: when its files are gone, it is there as unhealthy."""

    def __init__(
        self,
        drm: Path = Path("/sys/class/drm"),
        kfd: Path = Path("/sys/class/kfd/kfd"),
        module: Path = Path("/sys/module/amdgpu"),
    ) -> None:
        self._drm, self._kfd, self._module = drm, kfd, module
        self._devices: dict[str, Path] = {}  # by UUID, as last found
        self._seen: dict[str, Gpu] = {}
        self._uncorrected: dict[str, dict[str, int]] = {}  # by UUID: errors of each RAS block

    def gpus(self) -> list[Gpu]:
        devices = {uuid: path for path in self._cards() if (uuid := _uuid(path))}
        for index, (uuid, device) in enumerate(devices.items()):
            self._seen[uuid] = _gpu(uuid, index, device)
        self._devices |= devices
        return [self._with_health(gpu, gpu.uuid in devices) for gpu in self._seen.values()]

    def topology(self) -> dict[str, dict[str, str]]:
        """Return the NUMA distance alone: sysfs has no XGMI links by PCI address."""
        levels: dict[str, dict[str, str]] = {gpu.uuid: {} for gpu in self._seen.values()}
        for one, other in permutations(self._seen.values(), 2):
            same = one.numa_node is not None and one.numa_node == other.numa_node
            levels[one.uuid][other.uuid] = "NODE" if same else "SYS"
        return levels

    def firmware(self) -> dict[str, str]:
        return {}

    def driver_version(self) -> str:
        """Return the version of a driver that was installed apart; one in the kernel has none."""
        return _text(self._module / "version")

    def samples(self) -> list[GpuSample]:
        return [_sample(uuid, device) for uuid, device in self._present().items()]

    def busy(self, uuids: list[str]) -> dict[str, list[int]]:
        """The driver lists processes with the memory that each has on each GPU. `UNKNOWN_PID`
        stands for a list that cannot be read."""
        present = self._present()
        found = {uuid: self._processes(present[uuid]) for uuid in uuids if uuid in present}
        return {uuid: pids for uuid, pids in found.items() if pids}

    def faults(self) -> list[GpuFault]:
        """Return one for each RAS block with new uncorrected errors; the code is its name, such
        as "umc" for the memory."""
        new = []
        for uuid, device in self._present().items():
            before = self._uncorrected.get(uuid, {})
            now = _uncorrected(device)
            self._uncorrected[uuid] = now
            new += [
                GpuFault(uuid, "amd", block.removesuffix("_err_count"))
                for block in sorted(now)
                if now[block] > before.get(block, 0)
            ]
        return new

    def errors(self) -> dict[tuple[str, str], int]:
        """Since the driver was loaded: it counts them itself."""
        return {
            (uuid, block.removesuffix("_err_count")): number
            for uuid, device in self._present().items()
            for block, number in _uncorrected(device).items()
        }

    def ecc_errors(self) -> dict[str, int]:
        return {uuid: sum(_uncorrected(d).values()) for uuid, d in self._present().items()}

    def container_devices(self, uuids: Sequence[str]) -> ContainerDevices:
        """/dev/kfd is shared by all GPUs; the render node opens one."""
        nodes = [_render_node(self._devices[uuid]) for uuid in uuids]
        for uuid, node in zip(uuids, nodes, strict=True):
            if not node:
                raise KeyError(uuid)
        return ContainerDevices(paths=(KFD, *nodes) if nodes else ())

    def close(self) -> None:
        """Nothing is held open."""

    def _cards(self) -> list[Path]:
        """Return the PCI device of each card of AMD's, in the order of their addresses."""
        try:
            cards = [entry for entry in self._drm.iterdir() if _CARD.fullmatch(entry.name)]
        except OSError:
            return []
        devices = {(card / "device").resolve() for card in cards}
        return sorted(device for device in devices if _text(device / "vendor") == VENDOR)

    def _present(self) -> dict[str, Path]:
        return {uuid: device for uuid, device in self._devices.items() if _uuid(device) == uuid}

    def _with_health(self, gpu: Gpu, present: bool) -> Gpu:
        problem = "" if present else "GPU is lost: the driver does not list it any more"
        errors = sum(_uncorrected(self._devices[gpu.uuid]).values()) if present else 0
        if errors:
            problem = f"{errors} uncorrected memory errors since the driver was loaded"
        return gpu.model_copy(update={"healthy": not problem, "problem": problem})

    def _processes(self, device: Path) -> list[int]:
        gpu_id = self._gpu_id(device)
        try:
            processes = [entry for entry in (self._kfd / "proc").iterdir() if entry.name.isdigit()]
        except FileNotFoundError:
            return []  # a kernel that does not list them
        except OSError:
            return [UNKNOWN_PID]
        used = [p for p in processes if _number(p / f"vram_{gpu_id}") or not gpu_id]
        return sorted(int(process.name) for process in used)

    def _gpu_id(self, device: Path) -> int:
        """Return the number by which KFD knows the GPU; 0 when it does not list it."""
        node = _render_node(device).rpartition("renderD")[2]
        for entry in sorted(self._kfd.glob("topology/nodes/*")):
            lines = (line.split() for line in _text(entry / "properties").splitlines())
            properties = {words[0]: words[1] for words in lines if len(words) == 2}
            if node and properties.get("drm_render_minor") == node:
                return _number(entry / "gpu_id") or 0
        return 0


def _gpu(uuid: str, index: int, device: Path) -> Gpu:
    node = _number(device / "numa_node")
    return Gpu(
        uuid=uuid,
        model=_text(device / "product_name") or f"AMD GPU {_text(device / 'device')}",
        memory_mb=(_number(device / "mem_info_vram_total") or 0) // MIB,
        index=index,
        pci_bus_id=device.name,
        numa_node=node if node is not None and node >= 0 else None,
    )


def _sample(uuid: str, device: Path) -> GpuSample:
    sensors = next(iter(sorted(device.glob("hwmon/hwmon*"))), device)
    temperature = _number(sensors / "temp1_input")  # of the edge, in 1/1000 degree
    power = _number(sensors / "power1_average") or _number(sensors / "power1_input")
    return GpuSample(
        uuid=uuid,
        utilization=float(_number(device / "gpu_busy_percent") or 0),
        memory_used_mb=(_number(device / "mem_info_vram_used") or 0) // MIB,
        temperature_c=None if temperature is None else temperature // 1000,
        power_w=None if power is None else power / 1_000_000,
    )


def _uuid(device: Path) -> str:
    """Return a name that stays with the GPU; its PCI address where the driver has no serial."""
    serial = _text(device / "unique_id")
    if not _text(device / "vendor"):
        return ""
    return f"GPU-{serial}" if serial.strip("0") else f"GPU-pci-{re.sub('[:.]', '-', device.name)}"


def _render_node(device: Path) -> str:
    """Return its path, "" where the driver made none."""
    nodes = sorted(entry.name for entry in device.glob("drm/renderD*"))
    return f"/dev/dri/{nodes[0]}" if nodes else ""


def _uncorrected(device: Path) -> dict[str, int]:
    found = {path.name: _UNCORRECTED.search(_text(path)) for path in device.glob("ras/*_err_count")}
    return {name: int(match[1]) for name, match in found.items() if match}


def _text(path: Path) -> str:
    """Return "" for a file that is not there or does not answer."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None
